//! Option lines: `--tolerance_usecs=10000`.

use narrows_cc::Nanos;

use crate::script::{Problem, Setting};

/// Settings made by option lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choices {
    /// Accepted deviation of a packet from its time.
    pub(super) tolerance: Nanos,
    /// Accepted deviation as a fraction of the time since the last event.
    share: f64,
    pub(super) mtu: u16,
    /// Length of a tick of the script's timestamps; zero if timestamps are not compared.
    pub(super) tick: Nanos,
    /// Whether packets are compared one by one and not joined.
    pub(super) strict_segments: bool,
    /// Additional accepted delay of packets that wait for a timer.
    ticks: Nanos,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            tolerance: Nanos::from_millis(4),
            share: 0.125,
            mtu: 1500,
            tick: Nanos::ZERO,
            strict_segments: false,
            ticks: Nanos::ZERO,
        }
    }
}

impl Choices {
    /// Reads option lines.
    ///
    /// # Errors
    /// An unknown option or an invalid value.
    pub(super) fn read(settings: &[Setting]) -> Result<Self, Problem> {
        let mut own = Self::default();
        for Setting { line, name, value } in settings {
            let number = || {
                let reason = format!("--{name}={value}; accepted: a number, 0 or more");
                let number = value.parse::<f64>().ok().filter(|number| *number >= 0.0);
                number.ok_or_else(|| Problem::syntax(*line, reason))
            };
            match name.as_str() {
                "tolerance_usecs" => own.tolerance = Nanos::from_micros(number()? as u64),
                "tolerance_percent" => own.share = number()? / 100.0,
                "mtu" => own.mtu = (number()? as u16).max(68),
                "tcp_ts_tick_usecs" => own.tick = Nanos::from_micros(number()? as u64),
                "strict_segments" => own.strict_segments = true,
                "mss" | "tcp_ts_ecr_scaled" | "verbose" | "speed" | "dry_run" | "local_ip" | "remote_ip"
                | "gateway_ip" | "netmask_ip" | "send_omit_free" | "init_scripts" => {}
                "ip_version" if value == "ipv4" => {}
                "ip_version" => {
                    return Err(Problem::unsupported(*line, format!("--ip_version={value}: the endpoint has IPv4")));
                }
                _ => return Err(Problem::unsupported(*line, format!("option --{name}"))),
            }
        }
        Ok(own)
    }

    /// Widens the tolerance for an inexact clock to at least `lateness` and at least the default fraction of each wait,
    /// and adds two ticks. Timers of Linux count ticks of up to 4 ms, and expire late by up to an eighth of a long
    /// wait.
    pub(super) fn widen(&mut self, lateness: Option<Nanos>) {
        if let Some(lateness) = lateness {
            self.tolerance = self.tolerance.max(lateness);
            self.share = self.share.max(Self::default().share);
            self.ticks = Nanos::from_millis(8);
        }
    }

    /// Accepted delay of a packet whose time is `wait` after the last event.
    pub(super) fn after(&self, wait: Nanos) -> Nanos {
        let timer = if wait > self.tolerance { wait.mul_f64(self.share) + self.ticks } else { Nanos::ZERO };
        self.around(wait).max(timer)
    }

    /// Accepted deviation of a packet whose time is `wait` after the last event.
    pub(super) fn around(&self, wait: Nanos) -> Nanos {
        self.tolerance.max(wait.mul_f64(self.share))
    }
}
