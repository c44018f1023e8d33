//! Schemes as trait objects: schemes from outside the registry run this way.
//!
//! [`Entry::of`](crate::schemes::Entry::of) builds an entry for such a scheme, which can be used like a registry entry.

use alloc::boxed::Box;
use core::fmt::{self, Debug, Formatter};

use crate::{CongestionControl, Info, Scheme};

/// Any [`Scheme`] on a connection.
pub trait DynScheme: CongestionControl + Send + Sync {
    /// See [`Scheme::INFO`].
    fn info(&self) -> &'static Info;
    /// See [`Scheme::RATE_PROTOCOL`].
    fn rate_protocol(&self) -> Option<&'static str>;
    /// A copy in the same state.
    fn boxed_clone(&self) -> Box<dyn DynScheme>;
}

impl<S: Scheme> DynScheme for S {
    fn info(&self) -> &'static Info {
        const { &S::INFO }
    }
    fn rate_protocol(&self) -> Option<&'static str> {
        S::RATE_PROTOCOL
    }
    fn boxed_clone(&self) -> Box<dyn DynScheme> {
        Box::new(self.clone())
    }
}

impl Debug for dyn DynScheme {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}

impl Clone for Box<dyn DynScheme> {
    fn clone(&self) -> Self {
        // Clones the scheme, not the box, which would recurse.
        (**self).boxed_clone()
    }
}
