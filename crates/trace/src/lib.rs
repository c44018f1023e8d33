//! Traces: samples and packet events, streamed to disk as Arrow record batches.
//!
//! [`qlog`] writes the senders' view of a run in the format of QUIC's tools.
//!
//! There are two tables in long form, so that new telemetry of a scheme never changes a schema. `samples.arrow`:
//! `time_s`, `kind` ("flow" or "link"), `index`, `series`, `value`, `text` (states). `packets.arrow`: `time_s`,
//! `event`, `link`, `flow`, `seq`, `bytes`, `retransmission`. Times are seconds converted from whole nanoseconds, so
//! they are reproducible to the bit.

pub mod qlog;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use narrows_cc::Nanos;
use narrows_packet::{Flags, Packet};
use narrows_scenario::TracePlan;
use narrows_scenario::telemetry::Shown;
use narrows_sim::Link;
use narrows_sim::PayloadArena;
use narrows_sim::observer::{Flows, Observer, PacketEvent, Passage};
use narrows_sim::samples::{Sampler, Subject};

/// Rows per record batch.
const BATCH_ROWS: usize = 32_768;

type Stream = StreamWriter<BufWriter<File>>;

fn to_io(error: arrow_schema::ArrowError) -> io::Error {
    io::Error::other(error)
}

fn open(directory: &Path, name: &str, fields: Vec<Field>) -> io::Result<(Stream, Arc<Schema>)> {
    let schema = Arc::new(Schema::new(fields));
    let file = BufWriter::new(File::create(directory.join(name))?);
    Ok((StreamWriter::try_new(file, &schema).map_err(to_io)?, schema))
}

/// A table written batch by batch: its file, its columns, and their types and nullability.
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

            /// Writes the remaining rows and closes the table's file.
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

/// Writes the traces of a run's plan, and stores the first write error until the end.
#[derive(Default)]
pub struct Recorder {
    sampler: Sampler,
    samples: Option<Box<SampleTable>>,
    packets: Option<Box<PacketTable>>,
    failed: Option<io::Error>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder {{ samples: {}, packets: {} }}", self.samples.is_some(), self.packets.is_some())
    }
}

impl Recorder {
    /// Records into files in `directory`, which must exist.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn new(trace: &TracePlan, directory: &Path) -> io::Result<Self> {
        let samples = trace.samples.map(|_| SampleTable::new(directory).map(Box::new)).transpose()?;
        let packets = trace.packets.then(|| PacketTable::new(directory).map(Box::new)).transpose()?;
        Ok(Self { samples, packets, ..Self::default() })
    }

    /// Whether a write has failed, so that the run may end early.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes the remaining rows and closes the files.
    ///
    /// # Errors
    /// The first write error.
    pub fn finish(self) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(samples) = self.samples {
            samples.finish()?;
        }
        if let Some(packets) = self.packets {
            packets.finish()?;
        }
        Ok(())
    }
}

impl Observer for Recorder {
    fn packet(&mut self, now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet) {
        let Some(table) = &mut self.packets else { return };
        table.time.append_value(now.as_secs_f64());
        table.event.append_value(event.name());
        table.link.append_option(link);
        table.flow.append_value(packet.flow);
        // The acknowledgements of a TCP stream have no sequence number: record the acknowledgement number instead.
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

    fn passage(&mut self, _: Nanos, passage: Passage, packet: &Packet, _: &PayloadArena) {
        if self.samples.is_some() {
            self.sampler.passage(passage, packet);
        }
    }

    fn sample(&mut self, now: Nanos, flows: Flows<'_>, links: &mut [Link]) {
        let Some(table) = &mut self.samples else { return };
        self.sampler.sample(now, flows, links, &mut |subject, series, shown| {
            let (kind, index) = match subject {
                Subject::Flow(flow) => ("flow", flow),
                Subject::Link(link) => ("link", link),
            };
            let (value, text) = match shown {
                Shown::Number(value) => (Some(value), None),
                Shown::Text(text) => (None, Some(text)),
            };
            table.time.append_value(now.as_secs_f64());
            table.kind.append_value(kind);
            table.index.append_value(index);
            table.series.append_value(series);
            table.value.append_option(value);
            table.text.append_option(text);
            table.rows += 1;
        });
        if table.rows >= BATCH_ROWS
            && let Err(error) = table.flush()
        {
            self.failed.get_or_insert(error);
        }
    }

    fn before_reset(&mut self, now: Nanos, links: &mut [Link]) {
        if self.samples.is_some() {
            self.sampler.before_reset(now, links);
        }
    }
}
