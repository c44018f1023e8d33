//! The states of figure 5.

/// The state of a port's allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// The flow table exists, but no BRF flow has a share.
    #[default]
    FlowTable,
    /// A new flow receives its first share (equations 9 to 13).
    InitialAllocation,
    /// The rates of all flows are measured.
    Measurement,
    /// All shares are reallocated (equation 14).
    Allocation,
    /// Shares are cut until a queue has drained or the load has fallen (equations 16 to 18).
    CongestionReduction,
}

impl State {
    /// Name for telemetry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlowTable => "flow_table",
            Self::InitialAllocation => "initial_allocation",
            Self::Measurement => "measurement",
            Self::Allocation => "allocation",
            Self::CongestionReduction => "congestion_reduction",
        }
    }

    /// Whether figure 5 or the text of section 3.2 has an edge from this state to `to`.
    pub const fn leads_to(self, to: Self) -> bool {
        use State::{Allocation, CongestionReduction, FlowTable, InitialAllocation, Measurement};
        match (self, to) {
            // A new flow, in any waiting state.
            (FlowTable | Measurement | CongestionReduction, InitialAllocation) => true,
            // 'For the newly added traffic the initial bandwidth is calculated, and then the bandwidth is measured'; if
            // a cut is in force, the port returns to that state.
            (InitialAllocation, Measurement | CongestionReduction) => true,
            // 'After one RTT, the bandwidth allocation phase is entered, and the process is repeated.'
            (Measurement, Allocation) | (Allocation, Measurement) => true,
            // The controller detects congestion; a full allocation follows.
            (Measurement, CongestionReduction) | (CongestionReduction, Allocation) => true,
            // The last flow has left.
            (Measurement | Allocation | CongestionReduction, FlowTable) => true,
            _ => false,
        }
    }

    /// Enters another state.
    ///
    /// # Panics
    /// If the figure has no such edge, which is a bug in the router algorithm.
    pub fn transition(&mut self, to: Self) {
        assert!(self.leads_to(to), "no edge from {} to {}", self.name(), to.name());
        *self = to;
    }
}

#[cfg(test)]
mod tests {
    use super::State::{self, Allocation, CongestionReduction, FlowTable, InitialAllocation, Measurement};

    /// The life of a port is a path through the figure.
    #[test]
    fn typical_port_life_follows_legal_edges() {
        let mut state = State::default();
        for to in [
            InitialAllocation,
            Measurement,
            Allocation,
            Measurement,
            CongestionReduction,
            InitialAllocation,
            CongestionReduction,
            Allocation,
            Measurement,
            FlowTable,
        ] {
            state.transition(to);
            assert_eq!(state, to);
        }
    }

    /// Edges absent from the figure are illegal.
    #[test]
    fn edges_absent_from_the_figure_are_illegal() {
        let all = [FlowTable, InitialAllocation, Measurement, Allocation, CongestionReduction];
        let edges = all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to)));
        let legal = edges.filter(|(from, to)| from.leads_to(*to)).count();
        assert_eq!(legal, 12);
        assert!(all.iter().all(|state| !state.leads_to(*state)));
        // Without flows there is nothing to measure, allocate or cut.
        assert!([Measurement, Allocation, CongestionReduction].iter().all(|to| !FlowTable.leads_to(*to)));
    }

    /// An illegal transition panics.
    #[test]
    #[should_panic(expected = "no edge from flow_table to allocation")]
    fn illegal_transition_panics() {
        State::default().transition(Allocation);
    }
}
