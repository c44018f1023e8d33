//! The protocols of explicit-rate schemes, by the name in `narrows_cc::CongestionControl::RATE_PROTOCOL`.

/// The protocol of an explicit-rate scheme and its router algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explicit {
    /// The rate control protocol: routers write one rate for all flows of a link.
    Rcp,
    /// The explicit control protocol: routers allot changes of throughput to packets.
    Xcp,
    /// Bottleneck routing feedback: switches write a flow's rate into its acknowledgements.
    Brf,
    /// Nodectl: sender, nodes and receiver negotiate a rate by control messages before data flows.
    Nodectl,
}

impl Explicit {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Rcp, Self::Xcp, Self::Brf, Self::Nodectl];

    /// The protocol with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|explicit| explicit.router() == name)
    }

    /// Name of the protocol and of its router algorithm, which runs at the bottleneck if a scenario names
    /// none.
    pub const fn router(self) -> &'static str {
        match self {
            Self::Rcp => "rcp",
            Self::Xcp => "xcp",
            Self::Brf => "brf",
            Self::Nodectl => "nodectl",
        }
    }

    /// Fallback of a sender when no router supports the protocol, as the predicate of `it …`.
    pub const fn unanswered(self) -> &'static str {
        match self {
            Self::Rcp => "keeps its initial window, or sends at its line rate where one is stated",
            Self::Xcp => "keeps its initial window",
            Self::Brf => "sends as CUBIC does",
            Self::Nodectl => "sends as CUBIC does, below its limit where one is stated",
        }
    }

    /// Whether rates are negotiated: flows may then state a minimum and maximum rate and change their path.
    pub const fn negotiates(self) -> bool {
        matches!(self, Self::Nodectl)
    }

    /// Bytes that the header adds to every packet.
    pub const fn header_bytes(self) -> u16 {
        match self {
            Self::Rcp => 12,
            Self::Xcp => 20,
            // BRF writes into the padding of the timestamp option, and Nodectl sends control messages: their packets do
            // not grow.
            Self::Brf | Self::Nodectl => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every protocol has a router algorithm, and schemes name each protocol exactly once.
    #[test]
    fn protocol_of_every_scheme_has_its_router_algorithm() {
        for explicit in Explicit::ALL {
            assert_eq!(Explicit::named(explicit.router()), Some(explicit));
            assert!(crate::find(explicit.router()).is_some());
        }
        let schemes = narrows_cc::schemes::ALL.iter().filter_map(|entry| entry.rate_protocol);
        assert!(schemes.clone().all(|name| Explicit::named(name).is_some()));
        assert_eq!(schemes.count(), Explicit::ALL.len());
    }
}
