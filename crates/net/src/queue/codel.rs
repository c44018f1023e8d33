//! CoDel (RFC 8289): packets are dropped at the head once the time they spent waiting has exceeded a target for an
//! interval, then ever faster: the k-th drop is followed by the next after interval / sqrt(k).

use narrows_cc::Nanos;

use super::{Backlog, MTU, mark};
use crate::Packet;
use crate::link::LinkStats;

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoDelParams {
    pub(crate) target: Nanos,
    pub(crate) interval: Nanos,
    pub(crate) ecn: bool,
}

/// The state of CoDel for one queue (RFC 8289 section 5).
#[derive(Clone, Debug, Default)]
pub(crate) struct CoDel {
    /// When the sojourn time will have been above target for an interval; `None` while it is below.
    first_above: Option<Nanos>,
    /// When the next drop is due, while dropping; else when it would have been.
    drop_next: Nanos,
    /// Drops since the dropping state was entered, with what was carried over from the last time.
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl CoDelParams {
    /// The control law: one interval over the square root of the number of drops after `from` (section 5.4).
    fn after(&self, from: Nanos, count: u64) -> Nanos {
        from.saturating_add(Nanos::from_nanos(
            (self.interval.as_nanos() as f64 / (count as f64).sqrt()) as u64,
        ))
    }
}

impl CoDel {
    /// The next packet, and whether it may be dropped (section 5.6).
    fn take(
        &mut self,
        now: Nanos,
        params: &CoDelParams,
        backlog: &mut Backlog,
    ) -> Option<(Nanos, Packet, bool)> {
        let Some((arrived, packet)) = backlog.pop() else {
            self.first_above = None;
            return None;
        };
        // With no more than a packet left behind it the queue cannot be standing.
        if now - arrived < params.target || backlog.bytes() <= MTU {
            self.first_above = None;
            return Some((arrived, packet, false));
        }
        let first_above = *self.first_above.get_or_insert(now.saturating_add(params.interval));
        // Just set, it lies an interval ahead.
        Some((arrived, packet, now >= first_above))
    }

    /// The next packet to transmit, after the drops that are due (section 5.5).
    pub(crate) fn dequeue(
        &mut self,
        now: Nanos,
        params: &CoDelParams,
        backlog: &mut Backlog,
        stats: &mut LinkStats,
    ) -> Option<(Nanos, Packet)> {
        let Some((mut arrived, mut packet, mut above)) = self.take(now, params, backlog) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = above;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if params.ecn && mark(&mut packet) {
                    stats.marked += 1;
                    self.drop_next = params.after(self.drop_next, self.count);
                    break;
                }
                stats.dropped_aqm += 1;
                match self.take(now, params, backlog) {
                    Some(next) => (arrived, packet, above) = next,
                    None => {
                        self.dropping = false;
                        return None;
                    }
                }
                if above {
                    self.drop_next = params.after(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if above {
            self.dropping = true;
            // If the last drops were recent, go on from the rate that controlled the queue then.
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now - self.drop_next < params.interval * 16;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = params.after(now, self.count);
            self.last_count = self.count;
            if params.ecn && mark(&mut packet) {
                stats.marked += 1;
            } else {
                stats.dropped_aqm += 1;
                // What comes next is sent whatever its sojourn time was.
                let Some(next) = self.take(now, params, backlog) else {
                    self.dropping = false;
                    return None;
                };
                (arrived, packet, _) = next;
            }
        }
        Some((arrived, packet))
    }
}
