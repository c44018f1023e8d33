//! # BBR v3
//!
//! ## Law
//! ## References
//! ## Differences
//! ## Known weaknesses

use crate::bbr3::{Bbr3Core, Generation, PARAMS, Rules};
use crate::{Evidence, Info, RecoveryStyle, Setup};

/// BBR v3.
pub type Bbr3 = Bbr3Core<Draft>;

/// BBR v3: every rule is the core's own.
#[derive(Clone, Debug)]
pub struct Draft;

impl Rules for Draft {
    const INFO: Info = Info {
        name: "bbr3",
        aliases: &["bbrv3"],
        summary: "BBR bounded by what loss showed to be too much, with cautious probes (BBR v3, IETF draft)",
        evidence: Evidence::Verified,
        recovery: RecoveryStyle::Own,
        params: PARAMS,
    };
    const GENERATION: Generation = Generation::V3;

    fn new(_setup: &Setup) -> Self {
        Self
    }
}
