//! The status of loaded programs: their counters, and the run statistics of the kernel.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapHandle};
use narrows_host::HostError;
use narrows_host::changing::Changing;

use crate::counters::counters;
use crate::libbpf::failed;
use crate::pinned;
use crate::program::{PROGRAMS, Program};
use crate::status::Status;

/// The kernel counts calls and their time while this is 1.
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Part of the names of the programs' `cong_control` functions, which the kernel shortens to 15 characters.
const ACKNOWLEDGED: &str = "_cong_co";

/// Number and total time of calls, for all functions and for `cong_control` alone.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    calls: u64,
    time_ns: u64,
    acks: u64,
    ack_ns: u64,
}

/// Sums of the calls of all programs that use this map.
fn runs(map: u32) -> Runs {
    let mut sum = Runs::default();
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    for info in ProgInfoIter::with_query_opts(options).filter(|info| info.map_ids.contains(&map)) {
        sum.calls += info.run_cnt;
        sum.time_ns += info.run_time_ns;
        if info.name.to_string_lossy().contains(ACKNOWLEDGED) {
            sum.acks += info.run_cnt;
            sum.ack_ns += info.run_time_ns;
        }
    }
    sum
}

/// Shell script that waits for the end of its input, and then switches the statistics off.
const RESTORE: &str = "read -r _; echo 0 >\"$0\"";
/// Interval between checks for a cancellation.
const POLL: Duration = Duration::from_millis(50);

/// Keeps the kernel's statistics switched on until this is dropped. A separate process switches them off when its input
/// closes, so they end with this process, however it ends. (The kernel's `BPF_ENABLE_STATS` does that too, but has no
/// safe interface.)
struct Counting {
    restorer: Option<Child>,
}

/// Starts a process that writes 0 into a file when its input closes.
fn restorer(file: &str) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", RESTORE, file])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0) // Ctrl-C of a terminal must not reach it
        .spawn()
}

impl Counting {
    fn begin() -> Result<Self, HostError> {
        let before = fs::read_to_string(STATISTICS).unwrap_or_default();
        if before.trim() != "0" {
            return Ok(Self { restorer: None });
        }
        let restorer = restorer(STATISTICS).map_err(|error| HostError::step("start /bin/sh", error))?;
        let own = Self { restorer: Some(restorer) };
        fs::write(STATISTICS, "1").map_err(refusal)?;
        Ok(own)
    }
}

/// The error when the statistics cannot be switched on. Root without CAP_SYS_ADMIN may load programs but not count
/// their calls.
fn refusal(error: io::Error) -> HostError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return HostError::Unsupported(
            "`narrows kernel status` needs root with CAP_SYS_ADMIN: it lets the kernel count calls (accepted: sudo, \
             or a container that has it)"
                .to_owned(),
        );
    }
    HostError::step(&format!("write {STATISTICS}"), error)
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(restorer) = &mut self.restorer {
            drop(restorer.stdin.take());
            let _ = restorer.wait();
        }
    }
}

/// Observes the loaded programs for this time, or until `is_cancelled`.
pub(crate) fn read(seconds: f64, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<Status>, HostError> {
    pinned::has_rights("narrows kernel status")?;
    let changing = Changing::begin()?;
    pinned::clean(&changing);
    let loaded: Vec<&Program> = PROGRAMS.iter().filter(|program| pinned::is_loaded(program)).collect();
    if loaded.is_empty() {
        return Ok(Vec::new());
    }
    let maps = loaded.iter().map(|program| {
        let map = pinned::open(program, pinned::COUNTERS)?;
        let id = map.info().map_err(|error| failed("inspect the counters", &error))?.info.id;
        Ok((map, id))
    });
    let maps: Vec<(MapHandle, u32)> = maps.collect::<Result<_, HostError>>()?;
    // From now on, another command may unload a program; its counters stay readable here.
    let settings = loaded.iter().map(|program| pinned::settings(program));
    let settings: Vec<Vec<(String, f64)>> = settings.collect::<Result<_, HostError>>()?;
    drop(changing);
    let counting = Counting::begin()?;
    let begin = Instant::now();
    let before: Vec<Runs> = maps.iter().map(|(_, id)| runs(*id)).collect();
    let wanted = Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
    while let Some(left) = wanted.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
        if is_cancelled() {
            break;
        }
        sleep(left.min(POLL));
    }
    let after: Vec<Runs> = maps.iter().map(|(_, id)| runs(*id)).collect();
    let observed = begin.elapsed();
    drop(counting);
    let rows = loaded.iter().zip(&maps).zip(settings).zip(before.iter().zip(&after));
    rows.map(|(((program, (map, _)), parameters), (before, after))| {
        let counters = counters(map)?;
        let mean = |ns: u64, calls: u64| (calls > 0).then(|| ns as f64 / calls as f64);
        Ok(Status {
            name: program.name.to_owned(),
            scheme: program.scheme.to_owned(),
            sockets: counters.sockets(),
            opened: counters.opened,
            acks: counters.acks,
            timeouts: counters.timeouts,
            errors: counters.errors,
            calls: after.calls - before.calls,
            ns_per_call: mean(after.time_ns - before.time_ns, after.calls - before.calls),
            ns_per_ack: mean(after.ack_ns - before.ack_ns, after.acks - before.acks),
            cpu_percent: (after.time_ns - before.time_ns) as f64 / observed.as_nanos() as f64 * 100.0,
            observed_s: observed.as_secs_f64(),
            parameters,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The restoring process writes the file when its input closes, as it does when this process ends, and not before.
    #[test]
    fn restorer_writes_when_its_input_closes() {
        let path = std::env::temp_dir().join(format!("narrows-statistics-{}", std::process::id()));
        fs::write(&path, "1").unwrap();
        let mut restorer = restorer(path.to_str().unwrap()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
        drop(restorer.stdin.take());
        assert!(restorer.wait().unwrap().success());
        assert_eq!(fs::read_to_string(&path).unwrap(), "0\n");
        fs::remove_file(&path).unwrap();
    }
}
