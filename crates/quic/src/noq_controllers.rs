//! The noq library's own controllers, by name.

use std::sync::Arc;

use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};

/// Names of the noq library's own controllers.
pub const OWN: [&str; 3] = ["cubic", "newreno", "bbr3"];

/// The noq library's own controller of this name, unmodified; `None` if noq has no such controller.
pub fn own(name: &str) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    Some(match name {
        "cubic" => Arc::new(CubicConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        "bbr3" => Arc::new(Bbr3Config::default()),
        _ => return None,
    })
}
