//! The registry: the only list of schemes. All other code iterates this list.
//!
//! To add a scheme, add a file beside this one and a line to the list below. The benchmark compares the cost
//! of each scheme with that of the first.
//!
//! Each line generates the module, the variant of [`AnyScheme`] with its dispatch, the [`Entry`] with its parameters,
//! and the page (the module documentation). Validation of scenarios, contract tests, golden rows and plot colours
//! iterate [`ALL`].

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use crate::{Ack, CongestionControl, Control, DynScheme, EcnNeed, Feedback, Info, Scheme, Sent, Setup};

macro_rules! registry {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(mod $module; pub use $module::$Type;)+

        /// Any scheme, registered or external. Dereferences to [`DynScheme`], the scheme's events and facts.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant)] // there is one per connection, and a box would cost a cache miss per event
        pub enum AnyScheme {
            $(#[doc = concat!("See `schemes/", stringify!($module), ".rs`.")] $Type($Type),)+
            /// A scheme from outside the registry.
            External(Box<dyn DynScheme>),
        }

        /// All registered schemes, in the order of the list.
        pub const ALL: &[Entry] = &[$(Entry {
            source: include_str!(concat!(stringify!($module), ".rs")),
            build: |setup| AnyScheme::$Type(<$Type as Scheme>::new(setup)),
            ..Entry::of::<$Type>()
        }),+];

        impl Deref for AnyScheme {
            type Target = dyn DynScheme;

            fn deref(&self) -> &Self::Target {
                match self { $(Self::$Type(scheme) => scheme,)+ Self::External(scheme) => &**scheme }
            }
        }

        impl DerefMut for AnyScheme {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self { $(Self::$Type(scheme) => scheme,)+ Self::External(scheme) => &mut **scheme }
            }
        }

        // The frequent calls, dispatched statically. They write the control in place: a returned control would be
        // copied with loads wider than the preceding stores, which stalls the processor.
        impl AnyScheme {
            /// Stores the current control in `to`.
            #[inline]
            pub(crate) fn store_control(&self, to: &mut Control) {
                match self { $(Self::$Type(s) => *to = s.control(),)+ Self::External(s) => *to = s.control() }
            }

            /// Reports a sent packet to the scheme and stores the resulting control in `to`.
            #[inline]
            pub fn sent(&mut self, event: &Sent, to: &mut Control) {
                match self {
                    $(Self::$Type(s) => { s.on_sent(event); *to = s.control() })+
                    Self::External(s) => { s.on_sent(event); *to = s.control() }
                }
            }

            /// Reports a processed acknowledgement to the scheme and stores the resulting control in `to`.
            #[inline]
            pub fn acknowledged(&mut self, event: &Ack, to: &mut Control) {
                match self {
                    $(Self::$Type(s) => { s.on_ack(event); *to = s.control() })+
                    Self::External(s) => { s.on_ack(event); *to = s.control() }
                }
            }
        }
    };
}

registry! {
    bbr::Bbr,
    cubic::Cubic,
    newreno::NewReno,
    bbr2::Bbr2,
    bbr3::Bbr3,
    bbr_gc::BbrGc,
    bbr_cws::BbrCws,
    vegas::Vegas,
    bbq::Bbq,
    bbr_acw::BbrAcw,
    da_bbr::DaBbr,
    bbr_acd::BbrAcd,
    bbr_a::BbrA,
    modest_bbr::ModestBbr,
    rfbbr::RfBbr,
    adaptive_bbr::AdaptiveBbr,
    bbr2_gc::Bbr2Gc,
    bbr3_gc::Bbr3Gc,
    bic::Bic,
    fast::Fast,
    compound::Compound,
    dctcp::Dctcp,
    prague::Prague,
    rcp::Rcp,
    xcp::Xcp,
    nodectl::Nodectl,
    brf::Brf,
    ccid2::Ccid2,
    ccid3::Ccid3,
    dccp_bbr::DccpBbr,
    mptcp_coupled::MptcpCoupled,
    mptcp_semicoupled::MptcpSemicoupled,
    ewtcp::Ewtcp,
    lia::Lia,
    olia::Olia,
    balia::Balia,
    fixed::Fixed,
}

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Facts about the scheme.
    pub info: &'static Info,
    /// The protocol by which the scheme negotiates a rate with the network, if any.
    pub rate_protocol: Option<&'static str>,
    /// The congestion notification that the scheme needs.
    pub ecn: EcnNeed,
    /// Whether the scheme's cwnd depends on sibling subflows, whose state a multipath transport passes to the scheme.
    pub coupled: bool,
    /// The feedback that the scheme expects from the receiver over a datagram transport.
    pub feedback: Feedback,
    source: &'static str,
    build: fn(&Setup) -> AnyScheme,
}

impl Entry {
    /// Creates the entry of an external scheme. Simulators and transports run such a scheme like a registered one. The
    /// entry has no page.
    pub const fn of<S: Scheme>() -> Self {
        Self {
            info: const { &S::INFO },
            rate_protocol: S::RATE_PROTOCOL,
            ecn: S::ECN,
            coupled: S::COUPLED,
            feedback: S::FEEDBACK,
            source: "",
            build: |setup| AnyScheme::External(Box::new(S::new(setup))),
        }
    }

    /// Creates the scheme for a new connection.
    pub fn build(&self, setup: &Setup) -> AnyScheme {
        (self.build)(setup)
    }

    /// The module documentation of the scheme's file: idea, control law, states, references, differences. One
    /// line per item.
    pub fn page(&self) -> impl Iterator<Item = &'static str> {
        module_docs(self.source)
    }
}

/// The module documentation at the head of a source file, line by line.
pub fn module_docs(source: &'static str) -> impl Iterator<Item = &'static str> {
    source.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.strip_prefix(' ').unwrap_or(line))
}

/// Finds the scheme with this name or alias.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.info.name == name || entry.info.aliases.contains(&name))
}
