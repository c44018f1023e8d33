//! The protocols by which schemes and the network settle rates, by the name that schemes give
//! (`narrows_cc::CongestionControl::RATE_PROTOCOL`).

/// The explicit header a scheme speaks: fields by which senders and routers settle rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explicit {
    /// The rate control protocol: routers write the rate of every flow.
    Rcp,
    /// The explicit control protocol: routers allot changes of throughput to packets.
    Xcp,
    /// Bottleneck routing feedback: switches write a flow's rate into its acknowledgements.
    Brf,
    /// Nodectl: sender, nodes and receiver negotiate a rate by messages of their own before data flows.
    Nodectl,
}

impl Explicit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rcp, Self::Xcp, Self::Brf, Self::Nodectl];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|explicit| explicit.router() == name)
    }

    /// The router algorithm that answers it: it takes its place at the bottleneck where a scenario names none. The protocol
    /// has the same name.
    pub const fn router(self) -> &'static str {
        match self {
            Self::Rcp => "rcp",
            Self::Xcp => "xcp",
            Self::Brf => "brf",
            Self::Nodectl => "nodectl",
        }
    }

    /// Fallback of a sender when no router supports the protocol: `it …`.
    pub const fn unanswered(self) -> &'static str {
        match self {
            Self::Rcp => "keeps its initial window, or sends at its line rate where one is stated",
            Self::Xcp => "keeps its initial window",
            Self::Brf => "sends as CUBIC does",
            Self::Nodectl => "sends as CUBIC does, below its limit where one is stated",
        }
    }

    /// Rates are requested and granted: a least and a greatest one can be stated, and another path taken.
    pub const fn negotiates(self) -> bool {
        matches!(self, Self::Nodectl)
    }

    /// What the header adds to every packet, in bytes.
    pub const fn header_bytes(self) -> u16 {
        match self {
            Self::Rcp => 12,
            Self::Xcp => 20,
            // In the two bytes that pad the timestamp option, or in messages of their own.
            Self::Brf | Self::Nodectl => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every protocol that a scheme names is one that routers answer, and the other way round.
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
