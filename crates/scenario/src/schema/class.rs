//! The table of a class of a hierarchical token bucket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::table;
use super::value::Protocol;
use crate::quantity;

table! {
    /// A class of a hierarchical token bucket. A flow belongs to the first leaf class whose `flows`,
    /// `schemes` and `protocol` all match it.
    Class {
        /// Its name.
        name: String,
        /// The rate assured to the class and its children.
        rate: quantity::Rate,
        ; // optional:
        /// Parent class, from which the class borrows (the link).
        parent: String,
        /// Ceiling: greatest rate, including borrowed rate (that of the link).
        ceil: quantity::Rate,
        /// Priority from 0, the highest, to 7, among classes within their rates and among classes that borrow
        /// (0).
        priority: u8,
        /// Quantum: bytes sent per turn (a tenth of a second of its rate, 1500B to 200kB).
        quantum: quantity::Size,
        /// Bucket depth at its rate (a packet, plus its rate times 1ms and the time in which the link sends
        /// two packets per leaf). A policed class must state it.
        burst: quantity::Size,
        /// Bucket depth at its ceiling.
        ceil_burst: quantity::Size,
        /// Buffer of its queue; a BDP or time refers to its rate (that of the link).
        buffer: quantity::Buffer,
        /// Drop arrivals that exceed its rate and burst instead of borrowing (false).
        policed: bool,
        /// Labels of matching flows.
        flows: Vec<String>,
        /// Schemes of matching flows.
        schemes: Vec<String>,
        /// Protocol of matching flows.
        protocol: Protocol,
    }
}
