//! qlog: the senders' view of a run, for the tools and stacks of QUIC.
//!
//! A file is a JSON text sequence (RFC 7464) after draft-ietf-quic-qlog-main-schema-13, with the events of
//! draft-ietf-quic-qlog-quic-events-13: packets sent, received and lost, metrics and congestion state. It has one
//! trace; `group_id` names the flow of an event, and the event `simulation:scenario` describes the flows.
//!
//! * Every backend writes qlog: events come from packets that pass the senders' hosts, and from the senders'
//!   state after each acknowledgement, timer and transmission. Only changed values are written; unknown values
//!   are absent.
//! * Packet numbers count the packets that a sender sends, as in QUIC; a retransmission has a new number. An
//!   acknowledgement lists the packets that it newly acknowledges.
//! * Rates are in bits of payload per second. `raw.length` is the packet's size with the IP header.
//! * The TCP of a real host does not show which packets it declares lost, so a retransmission counts as the
//!   loss of the original packet. Other losses without a known packet have no header.
//! * QUIC packets are encrypted, so the sender reports its ack-eliciting packets and their fate.
//!   `packets_acked` lists the acknowledged packets.
//!
//! Memory is limited to the packets in flight and [`BUFFER`] bytes.

mod acks;
mod flow;
mod json;
mod packets;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use narrows_cc::Nanos;
use narrows_packet::{Flags, Kind, Packet};
use narrows_scenario::Plan;
use narrows_sim::PayloadArena;
use narrows_sim::observer::{Flows, Observer, Passage};
use serde_json::json;

use flow::FlowLog;
use json::Event;

/// Bytes collected before a write to the file.
const BUFFER: usize = 256 << 10;
/// Schemas of the events: that of QUIC with the number of its draft, and that of simulations.
const EVENT_SCHEMAS: [&str; 2] = ["urn:ietf:params:qlog:events:quic-13", "urn:ietf:params:qlog:events:simulation"];

/// Writes a run to a qlog file. Stores the first write error until the end.
#[derive(Debug)]
pub struct Log {
    file: File,
    flows: Vec<FlowLog>,
    /// The field that names the flow in each of its events; empty if there is only one flow.
    groups: Vec<String>,
    buffer: Vec<u8>,
    /// Bytes of complete records in the file.
    written: u64,
    failed: Option<io::Error>,
}

impl Log {
    /// Creates a file, or replaces it. `transport` is the transport of all flows; `None` selects the plan's.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(plan: &Plan, transport: Option<&str>, path: &Path) -> io::Result<Self> {
        let names: Vec<String> =
            plan.flows.iter().enumerate().map(|(i, flow)| format!("{} {}", i + 1, flow.label)).collect();
        let single = plan.flows.len() == 1;
        let mut log = Self {
            file: File::create(path)?,
            flows: plan.flows.iter().map(FlowLog::new).collect(),
            groups: names.iter().map(|name| if single { String::new() } else { json::group(name) }).collect(),
            buffer: Vec::with_capacity(2 * BUFFER),
            written: 0,
            failed: None,
        };
        log.describe(plan, transport, &names);
        log.flush();
        log.failed.take().map_or(Ok(log), Err)
    }

    /// Whether a write has failed, so that the run may end early.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes the remaining events. An unfinished file lacks the last events.
    ///
    /// # Errors
    /// The first write error; the file then ends with the last complete record before the error.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.failed.map_or(Ok(()), Err)
    }

    /// Appends the header of the file, and the event that describes the flows.
    fn describe(&mut self, plan: &Plan, transport: Option<&str>, names: &[String]) {
        let mut common = json!({
            "time_format": "relative_to_epoch",
            "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
        });
        if let [name] = names {
            common["group_id"] = json!(name);
        }
        let header = json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": plan.name,
            "description": "The senders' view of a run of narrows",
            "trace": {
                "common_fields": common,
                "vantage_point": { "name": "narrows", "type": "client" },
                "event_schemas": EVENT_SCHEMAS,
            },
        });
        let flows = plan.flows.iter().zip(names).map(|(flow, name)| {
            json!({
                "group_id": name,
                "label": flow.label,
                "scheme": flow.scheme.info.name,
                "transport": transport.unwrap_or(if flow.datagrams.is_some() { "dccp" } else { "tcp" }),
                "start_ms": flow.start.as_millis_f64(),
                "rtt_base_ms": flow.base_rtt.as_millis_f64(),
            })
        });
        let details = json!({
            "seed": plan.seed,
            "duration_ms": plan.duration.as_millis_f64(),
            "flows": flows.collect::<Vec<_>>(),
        });
        let scenario = json!({
            "time": 0.0,
            "name": "simulation:scenario",
            "data": { "name": plan.name, "details": details },
        });
        for record in [header, scenario] {
            json::record(&mut self.buffer, &record);
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            match self.file.write_all(&self.buffer) {
                Ok(()) => self.written += self.buffer.len() as u64,
                Err(error) => {
                    // Pipes cannot be truncated.
                    let _ = self.file.set_len(self.written);
                    self.failed = Some(error);
                }
            }
        }
        self.buffer.clear();
    }

    /// Calls `write` with a flow and the output of its events.
    fn with(&mut self, now: Nanos, flow: u32, write: impl FnOnce(&mut FlowLog, &mut Event<'_>)) {
        if self.failed.is_some() {
            return;
        }
        let index = flow as usize;
        let mut event = Event { out: &mut self.buffer, now, group: &self.groups[index] };
        write(&mut self.flows[index], &mut event);
        if self.buffer.len() > BUFFER {
            self.flush();
        }
    }
}

impl Observer for Log {
    fn passage(&mut self, now: Nanos, passage: Passage, packet: &Packet, arena: &PayloadArena) {
        let arrives = passage == Passage::Arrives;
        if packet.kind() == Kind::Message || packet.flags.has(Flags::REVERSE) != arrives {
            return;
        }
        self.with(now, packet.flow, |flow, event| {
            if arrives {
                flow.on_received(event, packet, arena.bytes(packet));
            } else {
                flow.on_sent(event, packet, arena.bytes(packet));
            }
        });
    }

    fn processed(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        self.with(now, flow, |own, event| own.on_processed(event, &flows.get(flow)));
    }

    fn transmitted(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        self.with(now, flow, |own, event| own.on_transmitted(event, &flows.get(flow)));
    }
}
