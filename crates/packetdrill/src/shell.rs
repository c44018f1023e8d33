//! Shell commands of a script. Settings that affect behaviour are applied. Other settings are ignored if they have no
//! effect on the endpoint; otherwise the script is skipped.

mod extension;

use narrows_cc::Nanos;

use crate::script::Problem;
pub(crate) use extension::Extension;

/// Reads a file by the path that the script gives; returns `None` if there is no such file.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Settings of the machine: sysctls, routes and queues. [`Default`] is Linux without changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    pub(crate) window_scaling: bool,
    /// `tcp_ecn`: 0 never, 1 request and accept, 2 accept.
    pub(crate) ecn: u8,
    /// `tcp_congestion_control`; `None`: the default of Linux.
    pub(crate) congestion: Option<String>,
    /// `tcp_recovery`, bit 0.
    pub(crate) rack: bool,
    /// `tcp_early_retrans`, 3 or 4.
    pub(crate) probes: bool,
    /// `tcp_slow_start_after_idle`.
    pub(crate) idle_restart: bool,
    pub(crate) min_rto: Option<Nanos>,
    pub(crate) initial_window: u32,
    /// Default and maximum receive buffer (`tcp_rmem`).
    pub(crate) receive_buffer: (u64, u64),
    /// Whether CUBIC uses HyStart.
    pub(crate) hystart: bool,
    /// Whether the queue of the device paces (`fq`). Packets pass other queues without delay.
    pub(crate) fair_queue: bool,
    /// Whether the queue of the device drops every packet (`limit 0`).
    pub(crate) drops: bool,
    /// Settings of the endpoint that no kernel has.
    pub(crate) extension: Extension,
    /// Commands without effect here.
    pub(crate) ignored: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timestamps: true,
            sack: true,
            window_scaling: true,
            ecn: 2,
            congestion: None,
            rack: true,
            probes: true,
            idle_restart: true,
            min_rto: None,
            initial_window: 10,
            receive_buffer: (131_072, 6 << 20),
            hystart: true,
            fair_queue: false,
            drops: false,
            extension: Extension::default(),
            ignored: Vec::new(),
        }
    }
}

/// Settings of the public test suites, for scripts whose `defaults.sh` is missing.
const DEFAULTS: &str = "sysctl net.ipv4.tcp_rmem=\"4096 540000 15728640\" net.ipv4.tcp_ecn=0 \
                        net.ipv4.tcp_slow_start_after_idle=0";
/// Maximum depth of scripts that call other scripts.
const MAX_DEPTH: u32 = 4;

/// TCP sysctls that are ignored because they do not affect the endpoint: memory, limits, qdisc, unused features.
const HARMLESS: &str = "tcp_wmem tcp_syn_retries tcp_synack_retries tcp_frto tcp_dsack tcp_fack tcp_tso_win_divisor \
    tcp_min_tso_segs tcp_tso_rtt_log tcp_ecn_option tcp_ecn_option_beacon tcp_ecn_fallback tcp_pacing_ss_ratio \
    tcp_pacing_ca_ratio tcp_notsent_lowat tcp_fastopen tcp_fastopen_key tcp_syncookies tcp_autocorking \
    tcp_limit_output_bytes tcp_no_metrics_save tcp_moderate_rcvbuf tcp_invalid_ratelimit tcp_challenge_ack_limit \
    tcp_fin_timeout tcp_tw_reuse tcp_tw_reuse_delay tcp_orphan_retries tcp_retries1 tcp_retries2 \
    tcp_available_congestion_control tcp_allowed_congestion_control";

impl Settings {
    /// Runs a command, given as its words.
    ///
    /// # Errors
    /// A command or setting with an unsupported effect.
    pub(crate) fn command(&mut self, line: usize, words: &[String]) -> Result<(), Problem> {
        let Some(first) = words.first() else { return Ok(()) };
        match program(first) {
            "sysctl" | "set_sysctls.py" => {
                for (key, value) in assignments(words) {
                    if self.extension.set(line, &key, value)? {
                        continue;
                    }
                    let key = key.rsplit('.').next().unwrap_or(&key);
                    self.sysctl(line, key, value)?;
                }
                Ok(())
            }
            "tc" => {
                self.queue(words);
                Ok(())
            }
            "ip" => self.route(line, words),
            "echo" => self.echo(line, words),
            "ethtool" | "sleep" | "true" | "rm" | "dd" | "cat" | "set" | "modprobe" | "exit" => {
                self.ignored.push(words.join(" "));
                Ok(())
            }
            name if name.starts_with("sysctl_restore") => Ok(()),
            _ if first.starts_with('#') => Ok(()),
            _ => Err(Problem::unsupported(line, format!("shell command '{}'", words.join(" ")))),
        }
    }

    /// Applies a sysctl, named by its last part.
    fn sysctl(&mut self, line: usize, key: &str, value: &str) -> Result<(), Problem> {
        let number = number(value);
        let needed = || {
            let reason = format!("sysctl {key}={value}; accepted: a whole number");
            number.ok_or_else(|| Problem::syntax(line, reason))
        };
        match key {
            "tcp_timestamps" => self.timestamps = needed()? != 0,
            "tcp_sack" => self.sack = needed()? != 0,
            "tcp_window_scaling" => self.window_scaling = needed()? != 0,
            "tcp_ecn" => match needed()? {
                mode @ 0..=2 => self.ecn = mode as u8,
                mode => {
                    return Err(Problem::unsupported(line, format!("tcp_ecn={mode}: the endpoint has no AccECN")));
                }
            },
            "tcp_congestion_control" => self.congestion = Some(value.to_owned()),
            "tcp_recovery" => self.rack = needed()? & 1 != 0,
            "tcp_early_retrans" => self.probes = needed()? >= 3,
            "tcp_slow_start_after_idle" => self.idle_restart = needed()? != 0,
            "tcp_rto_min_us" => self.min_rto = Some(Nanos::from_micros(needed()?)),
            "tcp_rmem" => {
                let mut parts = value.split_whitespace().filter_map(crate::shell::number);
                let (_, default, most) = (parts.next(), parts.next(), parts.next());
                let reason = format!("sysctl tcp_rmem=\"{value}\"; accepted: three numbers");
                let both = default.zip(most);
                self.receive_buffer = both.ok_or_else(|| Problem::syntax(line, reason))?;
            }
            "default_qdisc" => self.fair_queue = value == "fq",
            "tcp_reordering" if number == Some(3) => {}
            "tcp_mtu_probing" if number == Some(0) => {}
            _ if !key.starts_with("tcp_") || HARMLESS.split(' ').any(|own| own == key) => {
                self.ignored.push(format!("{key}={value}"));
            }
            _ => {
                return Err(Problem::unsupported(line, format!("sysctl {key}={value}: the endpoint does not have it")));
            }
        }
        Ok(())
    }

    /// Applies a `tc` command: a queue with limit 0 drops every packet, and `fq` makes Linux pace every scheme. Packets
    /// pass other queues without delay.
    fn queue(&mut self, words: &[String]) {
        let adds = words.iter().any(|word| ["add", "replace", "change"].contains(&word.as_str()));
        self.fair_queue = adds && words.iter().any(|word| word == "fq");
        self.drops = adds && words.windows(2).any(|pair| pair[0] == "limit" && pair[1] == "0");
        self.ignored.push(words.join(" "));
    }

    fn route(&mut self, line: usize, words: &[String]) -> Result<(), Problem> {
        let mut route = words.iter().skip_while(|word| *word != "route");
        if route.next().is_none() {
            self.ignored.push(words.join(" "));
            return Ok(());
        }
        let mut rest =
            route.skip_while(|word| !["initcwnd", "mtu", "advmss", "rto_min", "quickack"].contains(&word.as_str()));
        while let Some(key) = rest.next() {
            let value = rest.next().map_or("", String::as_str);
            match (key.as_str(), value) {
                ("initcwnd", _) => self.initial_window = number(value).unwrap_or(10) as u32,
                ("rto_min", _) => {
                    let millis = value.strip_suffix("ms").and_then(number);
                    self.min_rto = millis.map(Nanos::from_millis).or(self.min_rto);
                }
                ("lock" | "congctl", _) => {}
                _ => {
                    let reason = format!("route option '{key} {value}': the endpoint does not have it");
                    return Err(Problem::unsupported(line, reason));
                }
            }
        }
        Ok(())
    }

    /// Applies `echo VALUE > FILE`.
    fn echo(&mut self, line: usize, words: &[String]) -> Result<(), Problem> {
        let [_, value, _, file] = words else {
            return Ok(());
        };
        match file.rsplit('/').next().unwrap_or(file) {
            "hystart" | "hystart_detect" => self.hystart = value != "0",
            key if key.starts_with("tcp_") => self.sysctl(line, key, value)?,
            _ => return Err(Problem::unsupported(line, format!("shell command '{}'", words.join(" ")))),
        }
        Ok(())
    }
}

/// Splits `text`, which begins on `line`, into commands, and these into words. A call of a script of defaults is
/// replaced by the commands of that script.
///
/// # Errors
/// A script that calls itself.
pub(crate) fn commands(line: usize, text: &str, files: ReadFile<'_>) -> Result<Vec<Vec<String>>, Problem> {
    let mut all = Vec::new();
    collect(line, text, files, 0, &mut all)?;
    Ok(all)
}

fn collect(
    line: usize,
    text: &str,
    files: ReadFile<'_>,
    depth: u32,
    all: &mut Vec<Vec<String>>,
) -> Result<(), Problem> {
    let joined = text.replace("\\\n", " ");
    for command in joined.lines().flat_map(|row| row.split([';', '|'])).flat_map(|part| part.split("&&")) {
        let words = words(command);
        match words.first() {
            Some(first) if ["defaults.sh", "defaults"].contains(&program(first)) => {
                let text = files(first).unwrap_or_else(|| DEFAULTS.to_owned());
                if depth >= MAX_DEPTH {
                    return Err(Problem::failure(line, format!("{first} calls itself")));
                }
                collect(line, &text, files, depth + 1, all)?;
            }
            Some(_) => all.push(words),
            None => {}
        }
    }
    Ok(())
}

/// The name of a program, without its folder.
pub fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The settings that a `sysctl` command assigns: full names with dots, and values.
pub fn assignments(words: &[String]) -> impl Iterator<Item = (String, &str)> {
    words.iter().skip(1).filter_map(|word| word.split_once('=')).map(|(key, value)| {
        let key = key.trim_start_matches("/proc/sys/").replace('/', ".");
        (key, value)
    })
}

/// A whole number, or a product `$((15*1024*1024))`.
pub fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(product) = text.strip_prefix("$((").and_then(|rest| rest.strip_suffix("))")) {
        return product.split('*').map(number).try_fold(1, |all: u64, factor| all.checked_mul(factor?));
    }
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Splits a command into words and removes redirections to `/dev/null`. Text between quotes is one word.
fn words(command: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '"' | '\'' => quoted = !quoted,
            '#' if !quoted && word.is_empty() => break,
            _ if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    all.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(c),
        }
    }
    if !word.is_empty() {
        all.push(word);
    }
    if let Some(at) = all.iter().position(|word| word == "/dev/null" || word.ends_with(">/dev/null")) {
        all.truncate(at.saturating_sub(usize::from(all[at] == "/dev/null")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(settings: &mut Settings, text: &str, files: ReadFile<'_>) -> Result<(), Problem> {
        commands(1, text, files)?.iter().try_for_each(|words| settings.command(1, words))
    }

    fn settings(text: &str) -> Result<Settings, Problem> {
        let mut settings = Settings::default();
        run(&mut settings, text, &|_| None).map(|()| settings)
    }

    /// sysctls that affect behaviour are applied, independent of the program that sets them.
    #[test]
    fn shell_keeps_settings_that_choose_behaviour() {
        let own = settings(
            "../common/defaults.sh\nsysctl -q net.ipv4.tcp_sack=0 net.ipv4.tcp_ecn=1\n\
             ../common/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 \\\n /proc/sys/net/ipv4/tcp_wmem=\"1 2 3\"\n\
             ip route change 192.0.2.1 via 192.168.0.2 dev tun0 initcwnd 20 rto_min 5ms # remark",
        )
        .unwrap();
        assert!(!own.timestamps && !own.sack && !own.idle_restart);
        assert_eq!((own.ecn, own.initial_window, own.min_rto), (1, 20, Some(Nanos::from_millis(5))));
        assert_eq!(own.receive_buffer, (540_000, 15 << 20));
    }

    /// The device's queue drops packets while its limit is 0.
    #[test]
    fn shell_queue_drops_while_its_limit_is_0() {
        let mut own = Settings::default();
        for (text, drops) in [
            ("tc qdisc delete dev tun0 root 2>/dev/null ; tc qdisc add dev tun0 root pfifo limit 0", true),
            ("tc qdisc replace dev tun0 root pfifo limit 10", false),
            ("tc qdisc change dev tun0 root pfifo limit 0", true),
            ("tc qdisc delete dev tun0 root", false),
        ] {
            run(&mut own, text, &|_| None).unwrap();
            assert_eq!(own.drops, drops, "{text}");
        }
    }

    /// The `defaults.sh` beside the script is read if it exists.
    #[test]
    fn shell_reads_defaults_beside_the_script() {
        let mut own = Settings::default();
        let text = "#!/bin/bash\nsysctl -q net.ipv4.tcp_rmem=\"4096 1000 $((2*1024))\" > /dev/null 2>&1\n";
        run(&mut own, "../defaults.sh", &|path| (path == "../defaults.sh").then(|| text.to_owned())).unwrap();
        assert_eq!(own.receive_buffer, (1000, 2048));
    }

    /// Unsupported settings skip the script with a reason.
    #[test]
    fn shell_refuses_unknown_settings() {
        for (text, reason) in [
            ("sysctl net.ipv4.tcp_mtu_probing=2", "sysctl tcp_mtu_probing=2"),
            ("ip route change default mtu 1280", "route option 'mtu 1280'"),
            ("python3 run.py", "shell command 'python3 run.py'"),
        ] {
            let problem = settings(text).unwrap_err();
            assert!(problem.skips && problem.reason.contains(reason), "{}", problem.reason);
        }
    }
}
