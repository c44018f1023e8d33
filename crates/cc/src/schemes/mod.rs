//! The registry: the only list of schemes. Everything else iterates it.
//!
//! To add a scheme, add a file beside this one and a line to the list below. The benchmark compares each
//! scheme's cost with the first.

use crate::{
    Ack, CongestionControl, Control, EcnNeed, Explicit, IdleRestart, Info, Lost, Paths, Rate, RateAdvice,
    RecoveryEntered, RecoveryLeft, Report, Sent, Setup, SpuriousLoss, Telemetry, Timeout,
};

macro_rules! registry {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(mod $module; pub use $module::$Type;)+

        /// Any registered scheme, dispatched by `match`.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant)] // one per connection, and indirection would cost a cache miss per event
        pub enum AnyScheme { $(#[doc = concat!("See `schemes/", stringify!($module), ".rs`.")] $Type($Type)),+ }

        /// All registered schemes, in the order of the list.
        pub const ALL: &[Entry] = &[$(Entry {
            info: &<$Type as CongestionControl>::INFO,
            explicit: <$Type as CongestionControl>::EXPLICIT,
            ecn: <$Type as CongestionControl>::ECN,
            coupled: <$Type as CongestionControl>::COUPLED,
            ccid: <$Type as CongestionControl>::CCID,
            source: include_str!(concat!(stringify!($module), ".rs")),
            build: |setup| AnyScheme::$Type(<$Type as CongestionControl>::new(setup)),
        }),+];

        impl AnyScheme {
            /// A packet left.
            #[inline] pub fn on_sent(&mut self, event: &Sent) { match self { $(Self::$Type(s) => s.on_sent(event)),+ } }
            /// An acknowledgement was processed.
            #[inline] pub fn on_ack(&mut self, event: &Ack) { match self { $(Self::$Type(s) => s.on_ack(event)),+ } }
            /// One packet was declared lost.
            #[inline] pub fn on_lost(&mut self, event: &Lost) { match self { $(Self::$Type(s) => s.on_lost(event)),+ } }
            /// Recovery begins.
            pub fn on_recovery_entered(&mut self, event: &RecoveryEntered) { match self { $(Self::$Type(s) => s.on_recovery_entered(event)),+ } }
            /// Recovery ends.
            pub fn on_recovery_left(&mut self, event: &RecoveryLeft) { match self { $(Self::$Type(s) => s.on_recovery_left(event)),+ } }
            /// The retransmission timer expired.
            pub fn on_timeout(&mut self, event: &Timeout) { match self { $(Self::$Type(s) => s.on_timeout(event)),+ } }
            /// The last reduction was unnecessary.
            pub fn on_spurious_loss(&mut self, event: &SpuriousLoss) { match self { $(Self::$Type(s) => s.on_spurious_loss(event)),+ } }
            /// The network advises a rate.
            pub fn on_rate_advice(&mut self, event: &RateAdvice) { match self { $(Self::$Type(s) => s.on_rate_advice(event)),+ } }
            /// The receiver reports what it measured.
            pub fn on_report(&mut self, event: &Report) { match self { $(Self::$Type(s) => s.on_report(event)),+ } }
            /// All subflows of the connection, this one among them.
            pub fn on_paths(&mut self, paths: &Paths) { match self { $(Self::$Type(s) => s.on_paths(paths)),+ } }
            /// Sending resumes after an idle time.
            pub fn on_idle_restart(&mut self, event: &IdleRestart) { match self { $(Self::$Type(s) => s.on_idle_restart(event)),+ } }
            /// The most that requests to the network ask for.
            pub fn line_rate(&self) -> Option<Rate> { match self { $(Self::$Type(s) => s.line_rate()),+ } }
            /// What the transport shall do now.
            #[inline] pub fn control(&self) -> Control { match self { $(Self::$Type(s) => s.control()),+ } }
            /// Named, typed internals for traces.
            pub fn telemetry(&self, sink: Telemetry<'_>) { match self { $(Self::$Type(s) => s.telemetry(sink)),+ } }
            /// The explicit header it speaks.
            pub fn explicit(&self) -> Option<Explicit> { match self { $(Self::$Type(_) => <$Type as CongestionControl>::EXPLICIT),+ } }
            /// What is known of the scheme without running it.
            pub fn info(&self) -> &'static Info { match self { $(Self::$Type(_) => &<$Type as CongestionControl>::INFO),+ } }
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

pub(crate) use newreno::{LEAST_THRESHOLD, Reno};

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What is known of the scheme without running it.
    pub info: &'static Info,
    /// The explicit header it speaks.
    pub explicit: Option<Explicit>,
    /// What it needs of explicit congestion notification.
    pub ecn: EcnNeed,
    /// Its window depends on those of sibling subflows: multipath transports show them to it.
    pub coupled: bool,
    /// The identifier by which DCCP negotiates it.
    pub ccid: u8,
    source: &'static str,
    build: fn(&Setup) -> AnyScheme,
}

impl Entry {
    /// A scheme at the start of a connection.
    pub fn build(&self, setup: &Setup) -> AnyScheme {
        (self.build)(setup)
    }

    /// The essay at the head of the scheme's file: idea, law, states, references, differences. One line per item.
    pub fn page(&self) -> impl Iterator<Item = &'static str> {
        essay(self.source)
    }
}

/// The lines at the head of a source file that are its documentation.
pub fn essay(source: &'static str) -> impl Iterator<Item = &'static str> {
    source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
}

/// The scheme of that name or alias.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.info.name == name || entry.info.aliases.contains(&name))
}
