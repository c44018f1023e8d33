//! The registry: the only list of schemes. Everything else iterates it.
//!
//! To add a scheme, add a file beside this one and a line to the list below. The benchmark compares the cost
//! of each scheme with that of the first.

use alloc::boxed::Box;
use core::fmt::Debug;

use crate::external::Facts;
use crate::{
    Ack, CongestionControl, Control, EcnNeed, Feedback, IdleRestart, Info, Lost, Paths, Rate, RateAdvice,
    ReceiverFeedback, RecoveryEntered, RecoveryLeft, Sent, Setup, SpuriousLoss, Telemetry, Timeout,
};

macro_rules! registry {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(mod $module; pub use $module::$Type;)+

        /// Any registered scheme, dispatched by `match`.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant)] // one per connection, and indirection would cost a cache miss per event
        pub enum AnyScheme {
            $(#[doc = concat!("See `schemes/", stringify!($module), ".rs`.")] $Type($Type),)+
            /// A scheme from outside the registry.
            External(Box<dyn crate::DynCongestionControl>),
        }

        /// All registered schemes, in the order of the list.
        pub const ALL: &[Entry] = &[$(Entry {
            info: &<$Type as CongestionControl>::INFO,
            rate_protocol: <$Type as CongestionControl>::RATE_PROTOCOL,
            ecn: <$Type as CongestionControl>::ECN,
            coupled: <$Type as CongestionControl>::COUPLED,
            feedback: <$Type as CongestionControl>::FEEDBACK,
            source: include_str!(concat!(stringify!($module), ".rs")),
            build: |setup| AnyScheme::$Type(<$Type as CongestionControl>::new(setup)),
        }),+];

        impl AnyScheme {
            /// Bytes at the beginning of this enum that acknowledgements access.
            pub fn used_bytes(&self) -> usize { size_of::<usize>() + match self { $(Self::$Type(_) => size_of::<$Type>() - <$Type as CongestionControl>::UNUSED_BYTES,)+ Self::External(s) => size_of_val(s) } }
            /// A packet left.
            #[inline] pub fn on_sent(&mut self, event: &Sent) { match self { $(Self::$Type(s) => s.on_sent(event),)+ Self::External(s) => s.on_sent(event) } }
            /// An acknowledgement was processed.
            #[inline] pub fn on_ack(&mut self, event: &Ack) { match self { $(Self::$Type(s) => s.on_ack(event),)+ Self::External(s) => s.on_ack(event) } }
            /// One packet was declared lost.
            #[inline] pub fn on_lost(&mut self, event: &Lost) { match self { $(Self::$Type(s) => s.on_lost(event),)+ Self::External(s) => s.on_lost(event) } }
            /// Recovery begins.
            pub fn on_recovery_entered(&mut self, event: &RecoveryEntered) { match self { $(Self::$Type(s) => s.on_recovery_entered(event),)+ Self::External(s) => s.on_recovery_entered(event) } }
            /// Recovery ends.
            pub fn on_recovery_left(&mut self, event: &RecoveryLeft) { match self { $(Self::$Type(s) => s.on_recovery_left(event),)+ Self::External(s) => s.on_recovery_left(event) } }
            /// The retransmission timer expired.
            pub fn on_timeout(&mut self, event: &Timeout) { match self { $(Self::$Type(s) => s.on_timeout(event),)+ Self::External(s) => s.on_timeout(event) } }
            /// The last reduction was unnecessary.
            pub fn on_spurious_loss(&mut self, event: &SpuriousLoss) { match self { $(Self::$Type(s) => s.on_spurious_loss(event),)+ Self::External(s) => s.on_spurious_loss(event) } }
            /// The network advises a rate.
            pub fn on_rate_advice(&mut self, event: &RateAdvice) { match self { $(Self::$Type(s) => s.on_rate_advice(event),)+ Self::External(s) => s.on_rate_advice(event) } }
            /// The receiver reports measurements.
            pub fn on_receiver_feedback(&mut self, event: &ReceiverFeedback) { match self { $(Self::$Type(s) => s.on_receiver_feedback(event),)+ Self::External(s) => s.on_receiver_feedback(event) } }
            /// All subflows of the connection, this one included.
            pub fn on_paths(&mut self, paths: &Paths) { match self { $(Self::$Type(s) => s.on_paths(paths),)+ Self::External(s) => s.on_paths(paths) } }
            /// Sending resumes after an idle time.
            pub fn on_idle_restart(&mut self, event: &IdleRestart) { match self { $(Self::$Type(s) => s.on_idle_restart(event),)+ Self::External(s) => s.on_idle_restart(event) } }
            /// The maximum rate to request from the network, if configured.
            pub fn line_rate(&self) -> Option<Rate> { match self { $(Self::$Type(s) => s.line_rate(),)+ Self::External(s) => s.line_rate() } }
            /// The control now in force.
            #[inline] pub fn control(&self) -> Control { match self { $(Self::$Type(s) => s.control(),)+ Self::External(s) => s.control() } }
            // Written in place: a returned control would be copied with loads wider than the preceding stores, which
            // stalls the processor.
            /// Stores the control now in force.
            #[inline] pub(crate) fn store_control(&self, to: &mut Control) { match self { $(Self::$Type(s) => *to = s.control(),)+ Self::External(s) => *to = s.control() } }
            /// A packet left; stores the control then in force.
            #[inline] pub(crate) fn sent(&mut self, event: &Sent, to: &mut Control) { match self { $(Self::$Type(s) => { s.on_sent(event); *to = s.control() })+ Self::External(s) => { s.on_sent(event); *to = s.control() } } }
            /// An acknowledgement was processed; stores the control then in force.
            #[inline] pub(crate) fn acknowledged(&mut self, event: &Ack, to: &mut Control) { match self { $(Self::$Type(s) => { s.on_ack(event); *to = s.control() })+ Self::External(s) => { s.on_ack(event); *to = s.control() } } }
            /// Named, typed internals for traces.
            pub fn telemetry(&self, sink: Telemetry<'_>) { match self { $(Self::$Type(s) => s.telemetry(sink),)+ Self::External(s) => s.telemetry(sink) } }
            /// The protocol by which it negotiates a rate with the network, if any.
            pub fn rate_protocol(&self) -> Option<&'static str> { match self { $(Self::$Type(_) => <$Type as CongestionControl>::RATE_PROTOCOL,)+ Self::External(s) => s.rate_protocol() } }
            /// Facts about the scheme.
            pub fn info(&self) -> &'static Info { match self { $(Self::$Type(_) => &<$Type as CongestionControl>::INFO,)+ Self::External(s) => s.info() } }
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
    /// The protocol by which it negotiates a rate with the network, if any.
    pub rate_protocol: Option<&'static str>,
    /// The congestion notification that it needs.
    pub ecn: EcnNeed,
    /// Whether its cwnd depends on sibling subflows, which a multipath transport passes to it.
    pub coupled: bool,
    /// The feedback it expects from a receiver of datagrams.
    pub feedback: Feedback,
    source: &'static str,
    build: fn(&Setup) -> AnyScheme,
}

impl Entry {
    /// The entry of a scheme outside the registry. Simulators and transports run it like a registered one. It
    /// has no page.
    pub const fn of<S: CongestionControl + Clone + Debug + Send + Sync + 'static>() -> Self {
        Self {
            info: Facts::<S>::INFO,
            rate_protocol: S::RATE_PROTOCOL,
            ecn: S::ECN,
            coupled: S::COUPLED,
            feedback: S::FEEDBACK,
            source: "",
            build: |setup| AnyScheme::External(Box::new(S::new(setup))),
        }
    }

    /// A scheme at the start of a connection.
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
    source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
}

/// The scheme of that name or alias.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.info.name == name || entry.info.aliases.contains(&name))
}
