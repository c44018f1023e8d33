//! The table of DCCP settings.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::table::table;
use super::value::WholeNumber;

/// Overflow policy of the sender's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverflowKind {
    /// Drops the oldest datagram.
    #[default]
    DropOldest,
    /// Drops the new datagram.
    DropNewest,
}

/// A whole number from `LEAST` to `MOST`. The range is checked when the number is parsed, even if no flow uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Within<const LEAST: u64, const MOST: u64>(pub(crate) u64);

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Within<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = WholeNumber { range: LEAST..=MOST, first: LEAST, prefix: "" };
        deserializer.deserialize_any(whole).map(Self)
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for Within<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("From{LEAST}To{MOST}").into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST, "maximum": MOST })
    }
}

table! {
    /// Settings of DCCP.
    #[derive(Default)]
    Dccp {
        ; // optional:
        /// Greatest payload of a datagram in bytes (1448).
        datagram_bytes: Within<1, 65_000>,
        /// Ack Ratio: data packets per acknowledgement (2).
        ack_ratio: Within<1, 1_000>,
        /// 24-bit sequence numbers where possible (false).
        short_sequence_numbers: bool,
        /// Initial Sequence Window in packets (1000).
        sequence_window: Within<32, { (1 << 46) - 1 }>,
        /// Capacity of the sender's queue in datagrams (256).
        queue: Within<1, 1_000_000>,
        /// Overflow policy of the sender's queue: drop-oldest or drop-newest (drop-oldest).
        overflow: OverflowKind,
        /// ECN (true).
        ecn: bool,
        /// Initial window in datagrams (3). RFC 3390 limits CCID 2 to between 2 and 4 datagrams, by their
        /// size. CCID 3 has an initial rate instead (RFC 5348 section 4.2).
        initial_window: Within<1, 10_000>,
    }
}
