//! An extension of the language: settings of the endpoint that no kernel has, as sysctls below `narrows`.
//!
//! `sysctl -q narrows.tcp.profile=rfc narrows.scheme.units=bytes` sets a key of a scenario's `[tcp]` table and a
//! parameter of the scheme. For settings that Linux has as a sysctl or a route metric, only Linux's form is used.

use std::collections::BTreeMap;

use narrows_cc::Params;
use narrows_cc::schemes::Entry;
use narrows_scenario::{NoFiles, ScenarioError, Source, expand, resolve, settings};
use narrows_tcp::TcpConfig;

use crate::script::Problem;

/// Defaults of scripts. Receive windows do not grow, because their growth depends on the memory that packets take,
/// which no script states.
const DEFAULTS: &[(&str, &str)] = &[("quick_growth", "false"), ("receive_autotuning", "false")];
/// Text of a scenario to which the settings are appended.
const SCENARIO: &str =
    "duration = '1s'\nnetwork.rate = '1gbit'\nflows = [{ scheme = 'newreno', rtt = '10ms' }]\n[tcp]\n";

/// Settings of the extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extension {
    tcp: BTreeMap<String, String>,
    scheme: BTreeMap<String, String>,
}

impl Extension {
    /// Stores a setting by its full name; returns whether the setting belongs to the extension.
    ///
    /// # Errors
    /// An unknown key or value.
    pub(super) fn set(&mut self, line: usize, key: &str, value: &str) -> Result<bool, Problem> {
        let Some(key) = key.strip_prefix("narrows.") else { return Ok(false) };
        let wrong = |reason: String| Problem::syntax(line, format!("sysctl narrows.{key}={value}: {reason}"));
        match key.split_once('.') {
            Some(("tcp", key)) => {
                self.tcp.insert(key.to_owned(), value.to_owned());
                self.parsed(TcpConfig::default().segment).map_err(|error| wrong(error.to_string()))?;
            }
            // Not checked here, because the scheme may be selected later.
            Some(("scheme", key)) => {
                self.scheme.insert(key.to_owned(), value.to_owned());
            }
            _ => return Err(wrong("accepted: narrows.tcp.KEY, narrows.scheme.KEY".to_owned())),
        }
        Ok(true)
    }

    /// Settings of TCP with segments of this size. If an amount of bytes is less than a segment of this size and is
    /// therefore refused, the settings for the default segment size are used unchanged.
    pub(crate) fn tcp(&self, segment: u16) -> TcpConfig {
        let usual = || self.parsed(TcpConfig::default().segment).map(|config| TcpConfig { segment, ..config });
        self.parsed(segment).or_else(|_| usual()).unwrap_or_default()
    }

    fn parsed(&self, segment: u16) -> Result<TcpConfig, Box<ScenarioError>> {
        let size = segment.to_string();
        let defaults = DEFAULTS.iter().copied().filter(|(key, _)| !self.tcp.contains_key(*key));
        let stated = self.tcp.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut text = SCENARIO.to_owned();
        for (key, value) in defaults.chain(stated).chain([("segment_bytes", size.as_str())]) {
            let bare = value.parse::<u64>().is_ok() || value.parse::<bool>().is_ok();
            let quote = if bare { "" } else { "'" };
            text += &format!("{key} = {quote}{value}{quote}\n");
        }
        let runs = expand(&Source { name: "sysctl", text: &text, files: &NoFiles }, &[])?;
        let plan = resolve(&runs[0].scenario, runs[0].seed, &NoFiles)?;
        Ok(TcpConfig::clone(&plan.flows[0].tcp))
    }

    /// The parameters of a scheme.
    ///
    /// # Errors
    /// The first refused setting: the problem and the accepted values.
    pub(crate) fn params(&self, scheme: &Entry) -> Result<Params, String> {
        let stated: Vec<_> = self.scheme.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        settings(scheme, &stated)
    }
}

#[cfg(test)]
mod tests {
    use narrows_cc::schemes;

    use super::*;

    fn with(settings: &[(&str, &str)]) -> Result<Extension, Problem> {
        let mut own = Extension::default();
        settings.iter().try_for_each(|(key, value)| own.set(1, key, value).map(|_| ())).map(|()| own)
    }

    /// Without settings the endpoint behaves like Linux, with receive windows that do not grow.
    #[test]
    fn extension_without_settings_is_linux() {
        let linux = TcpConfig { segment: 1000, quick_growth: false, receive_autotuning: false, ..TcpConfig::default() };
        assert_eq!(Extension::default().tcp(1000), linux);
    }

    /// Keys of `[tcp]` and parameters of schemes are set; amounts in packets are converted with the segment size of the
    /// connection.
    #[test]
    fn extension_sets_tcp_and_scheme() {
        let own = with(&[("narrows.tcp.profile", "rfc"), ("narrows.scheme.units", "bytes")]).expect("settings");
        assert_eq!(own.tcp(1000).max_burst.as_u64(), 1000);
        let small = with(&[("narrows.tcp.max_burst", "1448B")]).expect("a setting").tcp(1460);
        assert_eq!((small.max_burst.as_u64(), small.segment), (1448, 1460));
        let newreno = schemes::find("newreno").expect("a scheme");
        assert_eq!(own.params(newreno).expect("parameters").word("units"), "bytes");
        assert!(own.params(schemes::find("fixed").expect("a scheme")).is_err());
    }

    /// Unknown keys and values fail the script.
    #[test]
    fn extension_refuses_unknown_settings() {
        for (key, value, reason) in [
            ("narrows.tcp.speed", "1", "speed"),
            ("narrows.tcp.prr", "rfc1", "rfc6937"),
            ("narrows.sack", "1", "accepted: narrows.tcp.KEY"),
        ] {
            let problem = with(&[(key, value)]).expect_err(key);
            assert!(!problem.skips && problem.reason.contains(reason), "{}", problem.reason);
        }
        assert_eq!(Extension::default().set(1, "net.ipv4.tcp_sack", "1"), Ok(false));
    }
}
