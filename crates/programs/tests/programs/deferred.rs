//! Information that a program receives only with an acknowledgement: the kernel's changes of state, and the state of
//! the connection when packets were sent.
//!
//! The kernel reports that state only for the newest packet delivered, and only in part. The rest follows from earlier
//! acknowledgements, by the rule of `bpf/bbr3_loss.h`.

use std::collections::VecDeque;

use crate::recording::Event;

/// Flags of `bpf/native/replay.c`.
pub const OPENED: u32 = 16;
pub const NEEDLESS: u32 = 32;
pub const LOSING: u32 = 64;
pub const MARKING: u32 = 128;

/// `FLIGHTS` and `PARTS` of `bpf/bbr3_model.h`.
const MOST: usize = 256;
const PARTS: u32 = 128;

/// Events that the program has not seen yet.
#[derive(Debug, Default)]
pub struct Deferred {
    pub states: Vec<Event>,
    /// Losses that the program has seen.
    pub lost: u32,
    /// The last lost packet's number.
    pub packet: u64,
    pub flights: Flights,
    pub newest: Sent,
}

/// State of the connection when a packet was sent, in packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub delivered: u32,
    pub lost: u32,
    pub in_flight: u32,
    pub app_limited: bool,
}

/// States of the connection at the latest delivered counts.
#[derive(Debug, Default)]
pub struct Flights(VecDeque<Sent>);

impl Flights {
    /// Notes the number of packets in flight before the acknowledgement.
    pub fn sent(&mut self, in_flight: u32) {
        if let Some(last) = self.0.back_mut() {
            last.in_flight = last.in_flight.max(in_flight);
        }
    }

    /// The state when the newest packet delivered was sent, that is when the delivered count was `delivered`.
    pub fn newest(&self, delivered: u32, app_limited: bool) -> Sent {
        let known = self.0.iter().rev().find(|past| past.delivered <= delivered).or(self.0.front());
        Sent { delivered, app_limited, ..known.copied().unwrap_or_default() }
    }

    /// Notes the state after an event.
    pub fn note(&mut self, delivered: u32, lost: u32, in_flight: u32, before: u32) {
        match self.0.back_mut() {
            Some(last) if delivered - last.delivered < 1 + before / PARTS => {
                last.lost = lost;
                last.in_flight = last.in_flight.max(in_flight);
            }
            _ => self.0.push_back(Sent { delivered, lost, in_flight, app_limited: false }),
        }
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }
}
