//! Shell commands of a script, applied to the script's namespace. No shell runs: an unknown command skips the script.

use std::io;

use narrows_host::namespace::{self, RTAX_INITCWND, way_out};
use narrows_host::netlink::{DELETE_QDISC, NEW_QDISC, Netlink, REPLACE, Request, TCA_KIND, TCA_OPTIONS, root_queue};
use narrows_packetdrill::script::Problem;
use narrows_packetdrill::shell::{assignments, number, program};

/// Settings below `net.ipv4` that belong to a namespace and that scripts may change.
const SETTINGS: &str = "
    tcp_abort_on_overflow tcp_adv_win_scale tcp_app_win tcp_autocorking tcp_backlog_ack_defer tcp_base_mss
    tcp_challenge_ack_limit tcp_comp_sack_delay_ns tcp_comp_sack_nr tcp_comp_sack_slack_ns
    tcp_congestion_control tcp_dsack tcp_early_retrans tcp_ecn tcp_ecn_fallback tcp_ecn_option
    tcp_ecn_option_beacon tcp_fack tcp_fastopen tcp_fastopen_key tcp_fin_timeout tcp_frto tcp_invalid_ratelimit
    tcp_keepalive_intvl tcp_keepalive_probes tcp_keepalive_time tcp_limit_output_bytes tcp_max_reordering
    tcp_max_syn_backlog tcp_min_rtt_wlen tcp_min_snd_mss tcp_min_tso_segs tcp_moderate_rcvbuf
    tcp_mtu_probe_floor tcp_mtu_probing tcp_no_metrics_save tcp_no_ssthresh_metrics_save tcp_notsent_lowat
    tcp_orphan_retries tcp_pacing_ca_ratio tcp_pacing_ss_ratio tcp_pingpong_thresh tcp_probe_interval
    tcp_probe_threshold tcp_recovery tcp_reordering tcp_retrans_collapse tcp_retries1 tcp_retries2 tcp_rfc1337
    tcp_rmem tcp_rto_max_ms tcp_rto_min_us tcp_sack tcp_shrink_window tcp_slow_start_after_idle tcp_stdurg
    tcp_syn_linear_timeouts tcp_syn_retries tcp_synack_retries tcp_syncookies tcp_thin_linear_timeouts
    tcp_timestamps tcp_tso_rtt_log tcp_tso_win_divisor tcp_tw_reuse tcp_tw_reuse_delay tcp_window_scaling
    tcp_wmem
";
/// Settings that some kernel versions lack, where this code ignores them.
const ABSENT: &[&str] = &["tcp_ecn_option", "tcp_ecn_option_beacon", "tcp_fack"];
/// Metrics of routes (`RTAX_*`).
const METRICS: &[(&str, u16)] =
    &[("mtu", 2), ("advmss", 8), ("initcwnd", RTAX_INITCWND), ("rto_min", 13), ("quickack", 15)];
/// Queue disciplines whose only option is a limit.
const FIFOS: &[&str] = &["pfifo", "bfifo"];
/// Queue disciplines accepted without options.
const QUEUES: &[&str] = &["pfifo", "bfifo", "pfifo_fast", "fq", "fq_codel", "noqueue"];

/// The default scheme of Linux; this machine may be configured with another default.
const DEFAULT_SCHEME: &str = "cubic";

/// A change made by a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// A setting below `net.ipv4`.
    Setting { name: String, value: String },
    /// The queue of the device, and its limit.
    Queue { kind: String, limit: Option<u32> },
    /// Removal of the device's queue, which leaves the default queue.
    NoQueue,
    /// Metrics of the route.
    Route(Vec<(u16, u32)>),
}

/// The device of a script and its namespace.
#[derive(Debug)]
pub(super) struct Machine {
    netlink: Netlink,
    device: i32,
    /// Congestion control of new sockets: a namespace may not choose every scheme, but a socket may.
    pub(super) scheme: String,
}

impl Machine {
    /// The machine of the device with this index.
    pub(super) fn new(device: i32) -> io::Result<Self> {
        Ok(Self { netlink: Netlink::route()?, device, scheme: DEFAULT_SCHEME.to_owned() })
    }

    /// Runs a command.
    ///
    /// # Errors
    /// If the command is unknown, or this kernel refuses it.
    pub(super) fn run(&mut self, line: usize, words: &[String]) -> Result<(), Problem> {
        for change in changes(line, words)? {
            self.apply(&change).map_err(|error| {
                Problem::unsupported(line, format!("'{}': this kernel refuses it: {error}", words.join(" ")))
            })?;
        }
        Ok(())
    }

    fn apply(&mut self, change: &Change) -> io::Result<()> {
        match change {
            Change::Setting { name, value } if name == "tcp_congestion_control" => {
                self.scheme.clone_from(value);
                Ok(())
            }
            Change::Setting { name, value } => match namespace::set(&format!("ipv4/{name}"), value) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && ABSENT.contains(&name.as_str()) => Ok(()),
                done => done,
            },
            Change::Queue { kind, limit } => {
                let mut text = kind.clone().into_bytes();
                text.push(0);
                let request = Request::new(NEW_QDISC, REPLACE, &root_queue(self.device)).attribute(TCA_KIND, &text);
                // Like tc, sends the options of the queue only if the command sets a limit.
                self.netlink.change(match limit {
                    Some(limit) => request.attribute(TCA_OPTIONS, &limit.to_ne_bytes()),
                    None => request,
                })
            }
            Change::NoQueue => {
                match self.netlink.change(Request::new(DELETE_QDISC, 0, &root_queue(self.device))) {
                    // There was no queue to remove: the device had only its default queue.
                    Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::InvalidInput].contains(&error.kind()) => {
                        Ok(())
                    }
                    done => done,
                }
            }
            Change::Route(metrics) => self.netlink.change(way_out(self.device, REPLACE, metrics)),
        }
    }
}

/// Refuses a command that [`Machine::run`] would not know.
///
/// # Errors
/// The reason.
pub(super) fn check(line: usize, words: &[String]) -> Result<(), Problem> {
    changes(line, words).map(|_| ())
}

fn changes(line: usize, words: &[String]) -> Result<Vec<Change>, Problem> {
    let Some(first) = words.first() else { return Ok(Vec::new()) };
    let refused = |why: &str| Err(Problem::unsupported(line, format!("'{}': {why}", words.join(" "))));
    match program(first) {
        "sysctl" | "set_sysctls.py" => {
            let mut all = Vec::new();
            for (key, value) in assignments(words) {
                match setting(&key, value) {
                    Ok(change) => all.extend(change),
                    Err(why) => {
                        return Err(Problem::unsupported(line, format!("sysctl {key}={value}: {why}")));
                    }
                }
            }
            Ok(all)
        }
        "echo" => match words {
            [_, value, arrow, file] if arrow == ">" => match file.strip_prefix("/proc/sys/") {
                Some(key) => match setting(&key.replace('/', "."), value) {
                    Ok(change) => Ok(change.into_iter().collect()),
                    Err(why) => refused(&why),
                },
                // Ignored: the machine's setting already has this value.
                None if file.starts_with("/sys/module/tcp_") && is_already(file, value) => Ok(Vec::new()),
                None => refused("a setting of the whole machine, which no script may change"),
            },
            _ => Ok(Vec::new()),
        },
        "tc" => match queue(words) {
            Some(change) => Ok(vec![change]),
            None => refused("accepted: a root queue of pfifo, bfifo, fq or fq_codel, and `limit`"),
        },
        "ip" => match route(words) {
            Ok(metrics) => Ok(metrics.map(Change::Route).into_iter().collect()),
            Err(why) => refused(&why),
        },
        "ethtool" | "sleep" | "true" | "rm" | "dd" | "cat" | "set" | "modprobe" | "exit" => Ok(Vec::new()),
        name if name.starts_with("sysctl_restore") => Ok(Vec::new()),
        _ => refused("no shell runs here; accepted: sysctl, tc, ip route"),
    }
}

fn is_already(file: &str, value: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.trim() == value)
}

/// The change of a setting by its full name; `None` where it has no effect on a script.
fn setting(key: &str, value: &str) -> Result<Option<Change>, String> {
    let Some(name) = key.strip_prefix("net.ipv4.") else {
        return match (key, value) {
            // Sets the queue of our device instead of the machine's default queue.
            ("net.core.default_qdisc", "fq") => Ok(Some(Change::Queue { kind: value.to_owned(), limit: None })),
            _ if key.starts_with("net.core.") => Ok(None),
            _ => Err("a setting of the whole machine, which no script may change".to_owned()),
        };
    };
    if !SETTINGS.split_whitespace().any(|known| known == name) {
        return Err("not a known setting of TCP in a namespace".to_owned());
    }
    let word = |word: &str| number(word).map_or_else(|| word.to_owned(), |number| number.to_string());
    let value = value.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    Ok(Some(Change::Setting { name: name.to_owned(), value }))
}

/// The change that `tc qdisc` makes; `None` for other commands.
fn queue(words: &[String]) -> Option<Change> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["tc", "qdisc", verb, "dev", _, "root", rest @ ..] = &words[..] else { return None };
    match (*verb, rest) {
        ("del" | "delete", _) => Some(Change::NoQueue),
        ("add" | "replace" | "change", [kind, "limit", limit]) if FIFOS.contains(kind) => {
            let limit = number(limit).and_then(|limit| u32::try_from(limit).ok())?;
            Some(Change::Queue { kind: (*kind).to_owned(), limit: Some(limit) })
        }
        ("add" | "replace" | "change", [kind]) if QUEUES.contains(kind) => {
            Some(Change::Queue { kind: (*kind).to_owned(), limit: None })
        }
        _ => None,
    }
}

/// Metrics that `ip route` sets; `None` for other commands of `ip`.
fn route(words: &[String]) -> Result<Option<Vec<(u16, u32)>>, String> {
    let mut rest = words.iter().map(String::as_str).skip_while(|word| *word != "route");
    if rest.next().is_none() {
        return Ok(None);
    }
    let known = |word: &str| METRICS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    let mut rest = rest.skip_while(|word| known(word).is_none());
    let mut metrics = Vec::new();
    while let Some(key) = rest.next() {
        let Some(kind) = known(key) else { return Err(format!("the route option '{key}' is not known")) };
        let value = rest.find(|word| *word != "lock").unwrap_or("");
        let value = value.strip_suffix("ms").unwrap_or(value);
        let value = number(value).and_then(|value| u32::try_from(value).ok());
        metrics.push((kind, value.ok_or_else(|| format!("'{key}' without a number"))?));
    }
    Ok(Some(metrics))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Change>, String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        changes(1, &words).map_err(|problem| {
            assert!(problem.skips, "{}", problem.reason);
            problem.reason
        })
    }

    /// Commands that scripts use translate to changes of the namespace.
    #[test]
    fn machine_reads_commands_of_scripts() {
        let set = |name: &str, value: &str| Change::Setting { name: name.to_owned(), value: value.to_owned() };
        let queue = |limit| Change::Queue { kind: "pfifo".to_owned(), limit };
        assert_eq!(
            of("sysctl -q net.ipv4.tcp_sack=0 net.ipv4.tcp_fastopen=0x70403 net.core.rmem_max=1"),
            Ok(vec![set("tcp_sack", "0"), set("tcp_fastopen", "459779")])
        );
        let words = ["set_sysctls.py", "/proc/sys/net/ipv4/tcp_rmem=4096 540000 $((15*1024*1024))"];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(changes(1, &words), Ok(vec![set("tcp_rmem", "4096 540000 15728640")]));
        assert_eq!(of("tc qdisc replace dev tun0 root pfifo limit 0"), Ok(vec![queue(Some(0))]));
        assert_eq!(of("tc qdisc replace dev tun0 root pfifo"), Ok(vec![queue(None)]));
        assert_eq!(of("tc qdisc del dev tun0 root"), Ok(vec![Change::NoQueue]));
        assert_eq!(
            of("ip route change default via 192.168.0.2 dev tun0 initcwnd 20 rto_min lock 5ms"),
            Ok(vec![Change::Route(vec![(11, 20), (13, 5)])])
        );
        assert_eq!(of("ip tcp_metrics flush all"), Ok(Vec::new()));
    }

    /// Other commands, and settings of the whole machine, are refused with a reason.
    #[test]
    fn machine_refuses_shells_and_global_settings() {
        for (text, reason) in [
            ("sysctl -w net.ipv4.tcp_mem=1", "not a known setting"),
            ("sysctl -w net.ipv4.tcp_allowed_congestion_control=reno", "not a known setting"),
            ("sysctl -w kernel.panic=1", "whole machine"),
            ("echo 0 > /sys/module/tcp_cubic/parameters/hystart", "whole machine"),
            ("echo 1 > /etc/passwd", "whole machine"),
            ("tc qdisc replace dev tun0 root netem delay 10ms", "accepted: a root queue"),
            ("ip route change default dev tun0 initcwnd 20 hoplimit 3", "'hoplimit' is not known"),
            ("bash -c true", "no shell runs here"),
        ] {
            let refused = of(text).expect_err(text);
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
