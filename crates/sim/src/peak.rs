//! Peak memory of a DCCP connection.

use narrows_dccp::Connection;

/// Peak memory of a connection in bytes, because a closed connection has freed its memory. Samples suffice:
/// one packet adds little.
#[derive(Debug, Default)]
pub(crate) struct Peak(pub(crate) usize);

impl Peak {
    pub(crate) fn record(&mut self, connection: &Connection) {
        self.0 = self.0.max(connection.memory());
    }

    /// Samples after a growing number of packets; 0 forces a sample.
    pub(crate) fn sample(&mut self, connection: &Connection, packets: u64) {
        if packets.is_power_of_two() || packets.is_multiple_of(1_024) {
            self.record(connection);
        }
    }
}
