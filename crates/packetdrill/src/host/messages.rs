//! Ancillary data of `recvmsg`: the count of readable bytes (`TCP_CM_INQ`) and transmit timestamps of the error queue.

use narrows_cc::Nanos;

use super::{Host, Outcome};
use crate::script::{Call, Problem, Value};

/// Supported kinds of ancillary data.
pub(super) const KINDS: &[&str] = &["TCP_CM_INQ", "SCM_TIMESTAMPING", "CMSG_TYPE_RECVERR", "IP_RECVERR"];
/// Accepted deviation of a timestamp from the script's value.
const TOLERANCE: Nanos = Nanos::from_millis(4);

impl Host {
    /// Compares the count of readable bytes. Linux counts a FIN as one byte, so that the application continues to read.
    pub(super) fn compare_readable(&self, line: usize, call: &Call) -> Result<(), Problem> {
        let kind = |message: &&Value| message.field("cmsg_type").and_then(Value::word) == Some("TCP_CM_INQ");
        let (Some(message), Some(connection)) = (call.ancillary().iter().find(kind), &self.connection) else {
            return Ok(());
        };
        let end = connection.readable == 0 && connection.peer_finished;
        let seen = connection.readable as i64 + i64::from(end);
        self.compare(line, "TCP_CM_INQ", seen, message.field("cmsg_data"))
    }

    /// Reads a timestamp from the error queue and compares it with the script's timestamp.
    pub(super) fn read_stamp(&mut self, line: usize, call: &Call) -> Result<Outcome, Problem> {
        let Some(stamp) = self.connection.as_mut().and_then(super::Connection::take_stamp) else {
            return Ok(Outcome::Done(Err("EAGAIN")));
        };
        if let Some(kind) = call.ancillary_field("ee_info").and_then(Value::word)
            && kind != stamp.kind
        {
            return Err(Problem::failure(line, format!("ee_info: expected {kind}; seen {}", stamp.kind)));
        }
        self.compare(line, "ee_data", stamp.key as i64, call.ancillary_field("ee_data"))?;
        let number = |field| call.ancillary_field(field).and_then(Value::int).and_then(|n| u64::try_from(n).ok());
        if let (Some(seconds), Some(nanos)) = (number("scm_sec"), number("scm_nsec")) {
            let wanted = Nanos::from_secs(seconds) + Nanos::from_nanos(nanos);
            if (wanted - stamp.at).max(stamp.at - wanted) > TOLERANCE {
                let reason =
                    format!("timestamp: expected {} s; seen {} s", wanted.as_secs_f64(), stamp.at.as_secs_f64());
                return Err(Problem::failure(line, reason));
            }
        }
        Ok(Outcome::Done(Ok(0)))
    }
}
