//! The trace: samples and packet events, streamed to disk as Arrow record batches.
//!
//! Two tables in long form, so that a new internal of a scheme never changes a schema. `samples.arrow`: `time_s`, `kind`
//! ("flow" or "link"), `index`, `series`, `value`, `text` (states). `packets.arrow`: `time_s`, `event`, `link`, `flow`,
//! `seq`, `bytes`, `retransmission`. Times are written in seconds from whole nanoseconds, so they repeat to the bit.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use narrows_cc::{Bytes, Nanos};
use narrows_packet::{Flags, Packet};
use narrows_routers::RouterLink;

use crate::Link;
use crate::ends::{Origin, Target};
use narrows_scenario::TracePlan;
use narrows_scenario::telemetry::{self, Shown};

/// Rows per record batch.
const BATCH_ROWS: usize = 32_768;

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEvent {
    /// It left its sender.
    Send,
    /// It reached its receiver.
    Deliver,
    /// The network lost it.
    Drop,
    /// An acknowledgement reached the sender.
    Ack,
}

impl PacketEvent {
    const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Deliver => "deliver",
            Self::Drop => "drop",
            Self::Ack => "ack",
        }
    }
}

type Stream = StreamWriter<BufWriter<File>>;

fn to_io(error: arrow_schema::ArrowError) -> io::Error {
    io::Error::other(error)
}

fn open(directory: &Path, name: &str, fields: Vec<Field>) -> io::Result<(Stream, Arc<Schema>)> {
    let schema = Arc::new(Schema::new(fields));
    let file = BufWriter::new(File::create(directory.join(name))?);
    Ok((StreamWriter::try_new(file, &schema).map_err(to_io)?, schema))
}

/// A table that is written batch by batch: its file, and its columns with their types and whether they may lack a value.
macro_rules! table {
    ($Table:ident in $file:literal { $($column:ident: $Builder:ident $Type:ident $nullable:literal $name:literal,)+ }) => {
        struct $Table {
            stream: Stream,
            schema: Arc<Schema>,
            rows: usize,
            $($column: $Builder,)+
        }

        impl $Table {
            fn new(directory: &Path) -> io::Result<Self> {
                let fields = vec![$(Field::new($name, DataType::$Type, $nullable)),+];
                let (stream, schema) = open(directory, $file, fields)?;
                Ok(Self { stream, schema, rows: 0, $($column: $Builder::new(),)+ })
            }

            fn flush(&mut self) -> io::Result<()> {
                if self.rows == 0 {
                    return Ok(());
                }
                self.rows = 0;
                let columns: Vec<ArrayRef> = vec![$(Arc::new(self.$column.finish())),+];
                let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(to_io)?;
                self.stream.write(&batch).map_err(to_io)
            }

            /// Writes what is left and ends the file.
            fn finish(mut self) -> io::Result<()> {
                self.flush()?;
                self.stream.finish().map_err(to_io)
            }
        }
    };
}

table! {
    SampleTable in "samples.arrow" {
        time: Float64Builder Float64 false "time_s",
        kind: StringBuilder Utf8 false "kind",
        index: UInt32Builder UInt32 false "index",
        series: StringBuilder Utf8 false "series",
        value: Float64Builder Float64 true "value",
        text: StringBuilder Utf8 true "text",
    }
}

table! {
    PacketTable in "packets.arrow" {
        time: Float64Builder Float64 false "time_s",
        event: StringBuilder Utf8 false "event",
        link: UInt32Builder UInt32 true "link",
        flow: UInt32Builder UInt32 false "flow",
        seq: UInt64Builder UInt64 false "seq",
        bytes: UInt32Builder UInt32 false "bytes",
        retransmission: BooleanBuilder Boolean false "retransmission",
    }
}

struct Samples {
    table: SampleTable,
    /// Per flow: bytes in order, bytes received and retransmissions at the last sample.
    flows: Vec<[u64; 3]>,
    /// Per link: bytes departed and drops at the last sample.
    links: Vec<[u64; 2]>,
    /// Per link: what its counters had gained since the last sample when they were reset.
    carried: Vec<[u64; 2]>,
    last: Nanos,
}

impl Samples {
    fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            table: SampleTable::new(directory)?,
            flows: Vec::new(),
            links: Vec::new(),
            carried: Vec::new(),
            last: Nanos::ZERO,
        })
    }

    fn row(&mut self, now: Nanos, kind: &str, index: usize, series: &str, shown: Shown) {
        let (value, text) = match shown {
            Shown::Number(value) => (Some(value), None),
            Shown::Text(text) => (None, Some(text)),
        };
        let table = &mut self.table;
        table.time.append_value(now.as_secs_f64());
        table.kind.append_value(kind);
        table.index.append_value(index as u32);
        table.series.append_value(series);
        table.value.append_option(value);
        table.text.append_option(text);
        table.rows += 1;
    }

    fn sample_flow(&mut self, now: Nanos, i: usize, sender: &Origin, receiver: &Target, last_rtt: Nanos) {
        let elapsed = now - self.last;
        let got = receiver.stats();
        let counts = [got.bytes_in_order, got.bytes_received, sender.stats().retransmits];
        let before = std::mem::replace(&mut self.flows[i], counts);
        let rate = |k: usize| Bytes::new(counts[k] - before[k]).per(elapsed).as_mbit_per_sec();
        let number = |rows: &mut Self, series: &str, value: f64| {
            rows.row(now, "flow", i, series, Shown::Number(value))
        };
        number(self, "cwnd_bytes", sender.window().as_f64());
        number(self, "inflight_bytes", sender.inflight().as_f64());
        if let Some(pacing) = sender.pacing_rate() {
            number(self, "pacing_mbit_s", pacing.as_mbit_per_sec());
        }
        if !last_rtt.is_zero() {
            number(self, "rtt_ms", last_rtt.as_millis_f64());
            number(self, "srtt_ms", sender.srtt().as_millis_f64());
        }
        number(self, "goodput_mbit_s", rate(0));
        number(self, "throughput_mbit_s", rate(1));
        number(self, "retransmits", (counts[2] - before[2]) as f64);
        sender.telemetry(&mut |name, value| {
            let (series, shown) = telemetry::of_scheme(name, value);
            self.row(now, "flow", i, &series, shown);
        });
    }

    fn sample_link(&mut self, now: Nanos, i: usize, link: &mut Link) {
        let elapsed = now - self.last;
        let waiting = link.backlog_packets(now);
        let delay = link.queue_delay(now);
        let counts = link_counts(link);
        let before = std::mem::replace(&mut self.links[i], counts);
        let carried = std::mem::take(&mut self.carried[i]);
        let since = |k: usize| counts[k] - before[k] + carried[k];
        let throughput = Bytes::new(since(0)).per(elapsed).as_mbit_per_sec();
        let mut number = |series: &str, value: f64| self.row(now, "link", i, series, Shown::Number(value));
        number("queue_pkt", waiting as f64);
        number("queue_delay_ms", delay.as_millis_f64());
        number("throughput_mbit_s", throughput);
        number("drops", since(1) as f64);
        for class in link.classes(now) {
            number(&format!("class_{}_queue_pkt", class.name), class.waiting_packets as f64);
        }
        if let Some(router) = link.router() {
            router.telemetry(&mut |name, reading| {
                let (name, shown) = telemetry::of_router(name, reading);
                self.row(now, "link", i, &format!("router_{name}"), shown);
            });
        }
    }
}

/// Bytes departed and packets dropped, since the link's counters began.
fn link_counts(link: &Link) -> [u64; 2] {
    let stats = link.stats();
    [stats.departed_bytes, stats.dropped_queue + stats.dropped_policer + stats.dropped_aqm]
}

struct Packets {
    table: PacketTable,
    failed: Option<io::Error>,
}

impl Packets {
    fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self { table: PacketTable::new(directory)?, failed: None })
    }

    fn row(&mut self, now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet) {
        let table = &mut self.table;
        table.time.append_value(now.as_secs_f64());
        table.event.append_value(event.name());
        table.link.append_option(link);
        table.flow.append_value(packet.flow);
        // A stream's acknowledgements have no number of their own.
        let (seq, ack) = packet.numbers();
        let acknowledges = event == PacketEvent::Ack && seq == 0;
        table.seq.append_value(if acknowledges { ack } else { seq });
        table.bytes.append_value(packet.size().as_u64() as u32);
        table.retransmission.append_value(packet.flags.has(Flags::RETRANSMISSION));
        table.rows += 1;
        if table.rows == BATCH_ROWS
            && let Err(error) = table.flush()
        {
            self.failed.get_or_insert(error);
        }
    }
}

/// Writes what a run's [`TracePlan`] asks for, or nothing.
#[derive(Default)]
pub struct Recorder {
    samples: Option<Box<Samples>>,
    packets: Option<Box<Packets>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder {{ samples: {}, packets: {} }}", self.samples.is_some(), self.packets.is_some())
    }
}

impl Recorder {
    /// Records nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Records into files in `directory`, which must exist.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn new(trace: &TracePlan, directory: &Path) -> io::Result<Self> {
        Ok(Self {
            samples: trace.samples.is_some().then(|| Samples::new(directory).map(Box::new)).transpose()?,
            packets: trace.packets.then(|| Packets::new(directory).map(Box::new)).transpose()?,
        })
    }

    /// A packet event. Costs one test when nothing is recorded.
    #[inline]
    pub fn packet(&mut self, now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet) {
        if let Some(packets) = &mut self.packets {
            packets.row(now, event, link, packet);
        }
    }

    /// The links' counters are about to be reset, at the end of the warm-up.
    pub fn before_reset(&mut self, now: Nanos, links: &mut [Link]) {
        let Some(samples) = &mut self.samples else { return };
        samples.links.resize(links.len(), [0; 2]);
        samples.carried.resize(links.len(), [0; 2]);
        for (i, link) in links.iter_mut().enumerate() {
            link.settle(now);
            let counts = link_counts(link);
            let before = std::mem::take(&mut samples.links[i]);
            for (carried, (count, before)) in
                samples.carried[i].iter_mut().zip(counts.into_iter().zip(before))
            {
                *carried += count - before;
            }
        }
    }

    /// A sample of every flow and link is due.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn sample(
        &mut self,
        now: Nanos,
        senders: &[Origin],
        receivers: &[Target],
        last_rtt: impl Fn(usize) -> Nanos,
        links: &mut [Link],
    ) -> io::Result<()> {
        if let Some(packets) = &mut self.packets
            && let Some(error) = packets.failed.take()
        {
            return Err(error);
        }
        let Some(samples) = &mut self.samples else { return Ok(()) };
        samples.flows.resize(senders.len(), [0; 3]);
        samples.links.resize(links.len(), [0; 2]);
        samples.carried.resize(links.len(), [0; 2]);
        for (i, (sender, receiver)) in senders.iter().zip(receivers).enumerate() {
            samples.sample_flow(now, i, sender, receiver, last_rtt(i));
        }
        for (i, link) in links.iter_mut().enumerate() {
            samples.sample_link(now, i, link);
        }
        samples.last = now;
        if samples.table.rows >= BATCH_ROWS { samples.table.flush() } else { Ok(()) }
    }

    /// Writes what is left and ends the files.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn finish(self) -> io::Result<()> {
        if let Some(samples) = self.samples {
            samples.table.finish()?;
        }
        if let Some(packets) = self.packets {
            if let Some(error) = packets.failed {
                return Err(error);
            }
            packets.table.finish()?;
        }
        Ok(())
    }
}
