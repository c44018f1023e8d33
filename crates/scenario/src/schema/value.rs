//! Values of single keys that several tables share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The transport of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// TCP that switches treat as datagrams, whatever its scheme.
    Udp,
    /// DCCP.
    Dccp,
}

/// The value of a scheme's parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "not a parameter value\n  accepted: a number, a string, true or false")]
pub enum ParamValue {
    /// On or off.
    Flag(bool),
    /// A number in the parameter's own unit.
    Number(f64),
    /// A number with its unit, or on or off.
    Text(String),
}
