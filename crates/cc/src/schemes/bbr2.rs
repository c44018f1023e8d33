//! # BBR v2
//!
//! ## Law
//! ## References
//! ## Differences
//! ## Known weaknesses

use crate::bbr3::{Bbr3Core, Generation, PARAMS_V2, Rules};
use crate::{Evidence, Info, RecoveryStyle, Setup};

/// BBR v2.
pub type Bbr2 = Bbr3Core<Alpha>;

/// BBR v2: every rule is the core's own.
#[derive(Clone, Debug)]
pub struct Alpha;

impl Rules for Alpha {
    const INFO: Info = Info {
        name: "bbr2",
        aliases: &["bbrv2"],
        summary: "BBR bounded by what loss showed to be too much (BBR v2, Linux v2alpha)",
        evidence: Evidence::Verified,
        recovery: RecoveryStyle::Own,
        params: PARAMS_V2,
    };
    const GENERATION: Generation = Generation::V2;

    fn new(_setup: &Setup) -> Self {
        Self
    }
}
