//! The table of a class of a hierarchical token bucket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::table;
use super::value::Protocol;
use crate::quantity;

table! {
    /// A class of a hierarchical token bucket. A flow belongs to the first class without children of which it meets all that is
    /// stated of flows, schemes and protocol.
    Class {
        /// Its name.
        name: String,
        /// The rate assured to it and its children.
        rate: quantity::Rate,
        ; // optional:
        /// The class that it borrows from (the link).
        parent: String,
        /// Its greatest rate when others leave capacity (that of the link).
        ceil: quantity::Rate,
        /// From 0 to 7: the lowest goes first, among classes within their rates as among those that borrow (0).
        priority: u8,
        /// Bytes that it sends per turn (a tenth of a second of its rate, 1500B to 200kB).
        quantum: quantity::Size,
        /// The most it may save up at its rate (a packet, and what arrives in 1ms and while the link sends two packets per leaf);
        /// a policed class must state it.
        burst: quantity::Size,
        /// The same at its ceiling.
        ceil_burst: quantity::Size,
        /// How much its queue holds; a BDP or time is that at its rate (what the link states).
        buffer: quantity::Buffer,
        /// Drop arrivals that exceed its rate and burst, and do not borrow (false).
        policed: bool,
        /// Labels of flows that belong to it.
        flows: Vec<String>,
        /// Schemes whose flows belong to it.
        schemes: Vec<String>,
        /// The protocol of the flows that belong to it.
        protocol: Protocol,
    }
}
