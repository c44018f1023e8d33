//! BBR flows over the common test path, with access to the model of BBR.

use narrows_cc::bbr_v1::{BbrCore, Policy};
use narrows_cc::{Scheme, Setup};

use crate::flow;
pub use crate::flow::{INITIAL_WINDOW, MSS, Path};
pub use crate::script::Core;

/// The policy of BBRv1.
pub type V1 = <narrows_cc::schemes::Bbr as Core>::Policy;

/// A BBR flow with a policy.
pub type Flow<P> = flow::Flow<BbrCore<P>>;

impl<P: Policy> Flow<P> {
    /// A flow after its handshake.
    pub fn new(path: Path, seed: u64, values: &[(&str, f64)]) -> Self {
        Self::over(path, BbrCore::new(&setup::<P>(seed, values)))
    }
}

pub fn setup<P: Policy>(seed: u64, values: &[(&str, f64)]) -> Setup {
    flow::setup(&P::INFO, seed, values)
}
