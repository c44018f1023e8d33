//! Common core of the coupled multipath schemes: Reno on every subflow, except that a [`Policy`] that sees
//! all subflows of the connection sets the increase in avoidance and the decrease on a loss.
//!
//! Slow start, fast recovery, timeouts and idle restarts are Reno's. A subflow without an active sibling, for example a
//! plain TCP connection, behaves as Reno, event for event. No policy increases cwnd faster than Reno, which adds 1/w
//! segments per segment acknowledged, where w is cwnd in segments.
//!
//! A sibling is active once it is established and has an RTT sample. Windows come from
//! [`PathView`](crate::PathView): a subflow in recovery counts with its ssthresh (RFC 6356 section 3).

use core::fmt::Debug;

use crate::reno::{LEAST_THRESHOLD, Policy as RenoPolicy, Reno, RenoScheme};
use crate::window_pacing::PACED;
use crate::{
    Ack, Bytes, Info, MAX_PATHS_VIEW, Param, Paths, Phase, Provenance, RecoveryEntered, RecoveryStyle, Setup,
    Telemetry, Value,
};

/// The parameters common to all coupled schemes.
pub const PARAMS: &[Param] = &[PACED];

/// Parameter `a` of the schemes that increase by the sum of all cwnds.
pub(crate) const INCREASE: Param =
    Param::ratio("a", 1.0, (0.01, 10.0), "increase per round trip of all subflows together, segments");

/// The description common to all coupled schemes; each adds its name, its summary and further parameters.
pub(crate) const INFO: Info = Info {
    name: "",
    aliases: &[],
    summary: "",
    provenance: Provenance::Verified,
    recovery: RecoveryStyle::Prr,
    params: PARAMS,
};

/// An active subflow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// w: its cwnd in bytes.
    pub cwnd: f64,
    /// Its smoothed RTT in seconds.
    pub rtt: f64,
    /// The larger of two amounts: bytes delivered since its last loss, and bytes delivered between its last two losses.
    pub loss_interval: f64,
}

impl Peer {
    /// x = w / rtt, in bytes per second.
    #[inline]
    pub fn rate(&self) -> f64 {
        self.cwnd / self.rtt
    }
}

/// The active subflows, as seen by one of them.
#[derive(Clone, Copy, Debug)]
pub struct Mesh {
    peers: [Peer; MAX_PATHS_VIEW],
    count: usize,
    own: usize,
    mss: f64,
}

impl Mesh {
    fn new(mss: Bytes) -> Self {
        Self { peers: [Peer::default(); MAX_PATHS_VIEW], count: 0, own: 0, mss: mss.as_f64() }
    }

    fn update(&mut self, paths: &Paths) {
        self.count = 0;
        if paths.own().srtt.is_none() {
            return; // no RTT to compare siblings with
        }
        for (i, path) in paths.active() {
            let Some(srtt) = path.srtt else { continue };
            if i == paths.own {
                self.own = self.count;
            }
            self.peers[self.count] = Peer {
                cwnd: path.cwnd.as_f64(),
                rtt: srtt.as_secs_f64(),
                loss_interval: path.since_loss.max(path.between_losses).as_f64(),
            };
            self.count += 1;
        }
    }

    /// A copy with `window` as the cwnd of this subflow.
    fn with_own(mut self, window: Bytes) -> Self {
        self.peers[self.own].cwnd = window.as_f64();
        self
    }

    /// Whether no sibling is active.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.count < 2
    }

    /// The active subflows.
    #[inline]
    pub fn peers(&self) -> &[Peer] {
        &self.peers[..self.count]
    }

    /// The subflow that the policy controls.
    #[inline]
    pub fn own(&self) -> &Peer {
        &self.peers[self.own]
    }

    /// The segment size in bytes, which converts windows to segments.
    #[inline]
    pub fn mss(&self) -> f64 {
        self.mss
    }

    /// w_T: the sum of all cwnds in bytes.
    #[inline]
    pub fn total_window(&self) -> f64 {
        self.peers().iter().map(|peer| peer.cwnd).sum()
    }

    /// The sum of all rates in bytes per second.
    #[inline]
    pub fn total_rate(&self) -> f64 {
        self.peers().iter().map(Peer::rate).sum()
    }

    /// The maximum of `of` over the active subflows.
    #[inline]
    pub fn greatest(&self, of: impl Fn(&Peer) -> f64) -> f64 {
        self.peers().iter().map(of).fold(0.0, f64::max)
    }
}

/// Differences of a coupled scheme from Reno. The policy is called only if siblings are active.
pub trait Policy: Clone + Debug + Send + Sync + 'static {
    /// Static description of the scheme.
    const INFO: Info;
    /// Minimum cwnd after a loss, in segments.
    const FLOOR: u64 = LEAST_THRESHOLD;

    /// Builds the policy from the parameters.
    fn new(setup: &Setup) -> Self;

    /// Growth of cwnd in segments per segment acknowledged, divided by the segment size in bytes. For Reno this is 1/w
    /// with w in bytes.
    fn increase(&self, mesh: &Mesh) -> f64;

    /// The part of `flight` that cwnd keeps on a loss. The cwnd of this subflow in `mesh` equals `flight`.
    fn kept(&self, _mesh: &Mesh, flight: Bytes) -> Bytes {
        flight / 2
    }

    /// Reports the policy's telemetry.
    fn telemetry(&self, _mesh: &Mesh, _sink: Telemetry<'_>) {}
}

/// A subflow under the policy `P`.
pub type Coupled<P> = RenoScheme<CoupledPolicy<P>>;

/// Applies the policy `P` in avoidance and on a loss, while a sibling is active.
#[derive(Clone, Debug)]
pub struct CoupledPolicy<P> {
    policy: P,
    mesh: Mesh,
    /// Growth not yet applied, less than one segment, in bytes; negative while the policy shrinks cwnd.
    credit: f64,
}

impl<P: Policy> CoupledPolicy<P> {
    /// Grows or shrinks cwnd as the policy demands for `acked` bytes, in steps of one segment.
    fn avoid(&mut self, reno: &mut Reno, acked: Bytes) {
        let (mss, window) = (self.mesh.mss, reno.cwnd.as_f64());
        let increase = self.policy.increase(&self.mesh.with_own(reno.cwnd));
        self.credit += acked.as_f64() * mss * increase.min(1.0 / window);
        if self.credit >= mss {
            // At most one segment per acknowledgement, as in `Reno::avoid`.
            self.credit = (self.credit - mss).min(mss);
            reno.cwnd += reno.mss;
        } else if self.credit <= -mss {
            self.credit = (self.credit + mss).max(-mss);
            reno.cwnd = (reno.cwnd - reno.mss).max(reno.mss);
        }
    }
}

impl<P: Policy> RenoPolicy for CoupledPolicy<P> {
    const INFO: Info = P::INFO;
    const COUPLED: bool = true;

    fn new(setup: &Setup) -> Self {
        Self { policy: P::new(setup), mesh: Mesh::new(setup.mss), credit: 0.0 }
    }

    #[inline]
    fn on_paths(&mut self, paths: &Paths) {
        self.mesh.update(paths);
    }

    #[inline]
    fn on_ack(&mut self, reno: &mut Reno, event: &Ack) {
        if event.phase == Phase::Recovery || !event.cwnd_limited || event.creditable().is_zero() {
            return;
        }
        if self.mesh.is_alone() {
            reno.grow(event.creditable());
            return;
        }
        let mut acked = event.creditable();
        if reno.in_slow_start() {
            acked = reno.slow_start(acked);
        }
        if !acked.is_zero() {
            self.avoid(reno, acked);
        }
    }

    fn on_recovery_entered(&mut self, reno: &mut Reno, event: &RecoveryEntered) {
        self.credit = 0.0;
        if self.mesh.is_alone() {
            reno.reduce(event.flight_size / 2);
        } else {
            let kept = self.policy.kept(&self.mesh.with_own(event.flight_size), event.flight_size);
            reno.reduce_not_below(kept, P::FLOOR);
        }
    }

    fn on_timeout(&mut self) {
        self.credit = 0.0;
    }

    fn telemetry(&self, reno: &Reno, sink: Telemetry<'_>) {
        sink("subflows", Value::Number(self.mesh.count.max(1) as f64));
        reno.telemetry(sink);
        if !self.mesh.is_alone() {
            self.policy.telemetry(&self.mesh.with_own(reno.cwnd), sink);
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Hand-made subflows.

    use super::*;
    pub use crate::testing::MSS;
    use crate::testing::{Build, ack, entered, setup};
    use crate::{CongestionCause, CongestionControl, Nanos, PathView};

    /// A subflow with a cwnd of `segments`, an RTT, and `interval` segments delivered since its last loss.
    pub fn path(segments: u64, rtt_ms: u64, interval: u64) -> PathView {
        PathView {
            cwnd: Bytes::new(segments * MSS),
            srtt: Some(Nanos::from_millis(rtt_ms)),
            since_loss: Bytes::new(interval * MSS),
            established: true,
            ..PathView::default()
        }
    }

    /// The mesh as seen by subflow `own` of `paths`.
    pub fn mesh(own: usize, paths: &[PathView]) -> Mesh {
        let mut mesh = Mesh::new(Bytes::new(MSS));
        mesh.update(&Paths::new(own, paths));
        mesh
    }

    /// Growth of cwnd in segments per segment acknowledged.
    pub fn growth<P: Policy>(overrides: &[(&str, f64)], own: usize, paths: &[PathView]) -> f64 {
        let policy = P::new(&setup(&P::INFO, MSS, overrides));
        policy.increase(&mesh(own, paths)) * MSS as f64
    }

    /// Subflow `own` of `paths`, in avoidance.
    pub fn avoiding<P: Policy>(own: usize, paths: &[PathView]) -> Coupled<P> {
        let mut scheme = Coupled::<P>::with(&[]);
        scheme.reno.cwnd = paths[own].cwnd;
        scheme.reno.ssthresh = paths[own].cwnd;
        scheme.on_paths(&Paths::new(own, paths));
        scheme
    }

    impl<P> Coupled<P> {
        pub(crate) fn set_policy(&mut self, policy: P) {
            self.policy.policy = policy;
        }
    }

    pub fn segments<P: Policy>(scheme: &Coupled<P>) -> f64 {
        scheme.control().cwnd.as_f64() / MSS as f64
    }

    /// Acknowledges segments one by one until cwnd changes, and returns their number.
    pub fn acks_to_next_step<P: Policy>(scheme: &mut Coupled<P>) -> u64 {
        let before = scheme.control().cwnd;
        for n in 1..1_000_000 {
            scheme.on_ack(&ack(MSS));
            if scheme.control().cwnd != before {
                return n;
            }
        }
        panic!("a million acknowledgements changed nothing");
    }

    /// cwnd after a loss with a full window in flight.
    pub fn after_loss<P: Policy>(own: usize, paths: &[PathView]) -> f64 {
        let mut scheme = avoiding::<P>(own, paths);
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, paths[own].cwnd.as_u64()));
        segments(&scheme)
    }

    pub fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * (a.abs() + b.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;
    use crate::schemes::{ALL, NewReno, find};
    use crate::testing::{ack, entered, idle, setup, spurious, timeout};
    use crate::{CongestionCause, CongestionControl, PathView, Scheme};

    /// Grows by a multiple of Reno's increase: by half of it unless a test sets another factor; a negative factor
    /// shrinks cwnd.
    #[derive(Clone, Debug)]
    struct Half(f64);

    impl Policy for Half {
        const INFO: Info = Info { name: "half", params: PARAMS, ..NewReno::INFO };
        fn new(_setup: &Setup) -> Self {
            Self(0.5)
        }
        fn increase(&self, mesh: &Mesh) -> f64 {
            self.0 / mesh.own().cwnd
        }
    }

    /// cwnd grows by whole segments, and at most as fast as Reno's.
    #[test]
    fn coupled_growth_is_in_segments_and_at_most_renos() {
        let paths = [path(10, 40, 0), path(10, 40, 0)];
        // Half of Reno's 1/10 per segment acknowledged: the first step takes 20 segments, the step from cwnd 11 takes
        // 22.
        let mut scheme = avoiding::<Half>(0, &paths);
        assert_eq!(acks_to_next_step(&mut scheme), 20);
        assert_eq!(acks_to_next_step(&mut scheme), 22);
        // An increase of three times Reno's is cut to Reno's.
        let mut aggressive = avoiding::<Half>(0, &paths);
        aggressive.policy.policy.0 = 3.0;
        assert_eq!(acks_to_next_step(&mut aggressive), 10);
        // With a negative increase cwnd shrinks by whole segments, down to one segment.
        let mut shrinking = avoiding::<Half>(0, &[path(2, 40, 0), path(10, 40, 0)]);
        shrinking.policy.policy.0 = -1.0;
        assert_eq!((acks_to_next_step(&mut shrinking), segments(&shrinking) as u64), (2, 1));
        shrinking.on_ack(&ack(10 * MSS));
        assert_eq!(segments(&shrinking) as u64, 1);
    }

    /// The mesh excludes subflows that are not established or have no RTT sample.
    #[test]
    fn coupled_unestablished_or_unmeasured_takes_no_part() {
        let opening = PathView { established: false, ..path(10, 40, 0) };
        let unmeasured = PathView { srtt: None, ..path(10, 40, 0) };
        assert!(mesh(1, &[opening, path(5, 20, 0), unmeasured]).is_alone());
        assert!(mesh(0, &[unmeasured, path(5, 20, 0)]).is_alone());
        let three = mesh(2, &[path(7, 10, 0), opening, path(5, 20, 0), path(9, 30, 0)]);
        assert_eq!((three.peers().len(), three.own().cwnd as u64), (3, 5 * MSS));
        assert!(near(three.total_window(), 21_000.0));
        // 7 000 / 0.01 + 5 000 / 0.02 + 9 000 / 0.03
        assert!(near(three.total_rate(), 700_000.0 + 250_000.0 + 300_000.0));
    }

    /// A coupled scheme without an active sibling behaves exactly as NewReno.
    #[test]
    fn coupled_alone_is_newreno() {
        let mut coupled = 0;
        for entry in ALL.iter().filter(|entry| entry.coupled) {
            coupled += 1;
            let mut reno = find("newreno").unwrap().build(&setup(&NewReno::INFO, MSS, &[]));
            let mut alone = entry.build(&setup(entry.info, MSS, &[]));
            let mut unpaired = entry.build(&setup(entry.info, MSS, &[]));
            for step in 0..400_u64 {
                unpaired.on_paths(&Paths::new(0, &[path(10, 40, 5)]));
                let flight = reno.control().cwnd.as_u64();
                for scheme in [&mut reno, &mut alone, &mut unpaired] {
                    match step % 97 {
                        40 => scheme.on_recovery_entered(&entered(CongestionCause::Loss, flight)),
                        41 => scheme.on_spurious_loss(&spurious(Phase::Recovery)),
                        60 => scheme.on_recovery_entered(&entered(CongestionCause::Ecn, flight)),
                        80 => scheme.on_timeout(&timeout(flight, 1)),
                        95 => scheme.on_idle_restart(&idle(500, 200)),
                        _ => scheme.on_ack(&ack(2 * MSS + step)),
                    }
                }
                let name = entry.info.name;
                assert_eq!(alone.control(), reno.control(), "{name}, step {step}");
                assert_eq!(unpaired.control(), reno.control(), "{name}, step {step}");
            }
        }
        assert_eq!(coupled, 6);
    }

    /// Slow start and timeouts are Reno's.
    #[test]
    fn coupled_slow_start_and_timeouts_are_renos() {
        let paths = [path(10, 40, 0), path(10, 40, 0)];
        let mut scheme = Coupled::<Half>::new(&setup(&Half::INFO, MSS, &[]));
        scheme.on_paths(&Paths::new(0, &paths));
        scheme.on_ack(&ack(4 * MSS));
        assert_eq!(segments(&scheme) as u64, 14);
        scheme.on_timeout(&timeout(14 * MSS, 1));
        assert_eq!((segments(&scheme) as u64, scheme.reno.ssthresh), (1, Bytes::new(7 * MSS)));
    }
}
