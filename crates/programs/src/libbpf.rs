//! Loading of programs, one at a time, with the messages of libbpf.

use std::io;
use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};
use narrows_host::HostError;

/// Messages that libbpf printed while a program was loaded. Programs are loaded one at a time.
static PRINTED: Mutex<String> = Mutex::new(String::new());
static LOADING: Mutex<()> = Mutex::new(());

fn note(_: PrintLevel, text: String) {
    if let Ok(mut printed) = PRINTED.lock() {
        printed.push_str(&text);
    }
}

/// Runs `work`, which loads the program `what`. The error contains the reason given by the verifier or libbpf.
///
/// # Errors
/// If the kernel refuses the program.
pub fn loading<T>(what: &str, work: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, HostError> {
    let _one = LOADING.lock();
    if let Ok(mut printed) = PRINTED.lock() {
        printed.clear();
    }
    let before = set_print(Some((PrintLevel::Warn, note)));
    let loaded = work();
    set_print(before);
    loaded.map_err(|error| refused(what, &error))
}

/// The error of a refused step, with libbpf's reason.
pub fn failed(step: &str, error: &libbpf_rs::Error) -> HostError {
    HostError::step(step, io::Error::other(error.to_string()))
}

fn refused(what: &str, error: &libbpf_rs::Error) -> HostError {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let printed = PRINTED.lock().map(|printed| printed.clone()).unwrap_or_default();
    let reason = if printed.trim().is_empty() { error.to_string() } else { reason(&printed) };
    let meaning = meaning(&reason).map_or_else(String::new, |meaning| format!(": {meaning}"));
    HostError::Unsupported(format!(
        "kernel {kernel} refuses {what}{meaning} ({reason}); accepted: Linux 6.10 or later with BTF and BPF struct_ops"
    ))
}

/// An explanation of a common reason in plain words; `None` for other reasons.
fn meaning(reason: &str) -> Option<&'static str> {
    const KNOWN: [(&[&str], &str); 6] = [
        (
            &["unknown func", "calling kernel function", "invalid kernel function", "cannot use helper"],
            "the program calls a function that this kernel does not offer to it",
        ),
        (
            &["too large", "too many states", "too complex", "infinite loop"],
            "the program is longer than the kernel's verifier follows",
        ),
        (
            &["BTF is missing", "vmlinux BTF", "find BTF", "in kernel BTF", "in vmlinux"],
            "the kernel does not describe a type that the program needs",
        ),
        (
            &["mem access", "invalid access", "type=", "!read_ok", "out of range", "unbounded"],
            "the verifier cannot prove that the program reads and writes only what it may",
        ),
        // 'Operation not permitted' comes from a policy; refusals of the verifier itself are 'Permission denied'.
        (&["not permitted", "lockdown"], "a policy of this system forbids it"),
        (&["Cannot allocate memory", "out of memory"], "there is no memory for it"),
    ];
    KNOWN.iter().find(|(signs, _)| signs.iter().any(|sign| reason.contains(sign))).map(|(_, meaning)| *meaning)
}

/// The reason among the messages of libbpf: the verifier's last line, or else the first line.
fn reason(printed: &str) -> String {
    let begin = "-- BEGIN PROG LOAD LOG --";
    let is_statistics =
        |line: &str| ["processed ", "verification time", "stack depth"].iter().any(|head| line.starts_with(head));
    let judged = printed.split_once(begin).map(|(_, log)| log.split("-- END").next().unwrap_or(log));
    let last = judged.and_then(|log| {
        let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("libbpf:"));
        lines.rfind(|line| !is_statistics(line))
    });
    let line = last.or_else(|| printed.lines().find(|line| !line.trim().is_empty())).unwrap_or("no reason given");
    line.trim().trim_start_matches("libbpf: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason is the verifier's last line without its statistics, or libbpf's first line.
    #[test]
    fn refusal_quotes_the_verifiers_last_line() {
        let log = "libbpf: prog 'a': BPF program load failed: Permission denied\nlibbpf: prog 'a': -- BEGIN PROG LOAD \
                   LOG --\n0: (b7) r0 = 1\nR1 type=ctx expected=fp\nprocessed 4 insns\n-- END PROG LOAD LOG --\n";
        assert_eq!(reason(log), "R1 type=ctx expected=fp");
        let log = "libbpf: kernel BTF is missing at '/sys/kernel/btf/vmlinux'\nlibbpf: failed to load object\n";
        assert_eq!(reason(log), "kernel BTF is missing at '/sys/kernel/btf/vmlinux'");
    }

    /// Common reasons are explained in plain words.
    #[test]
    fn common_reasons_have_a_meaning() {
        for (reason, expected) in [
            ("R1 invalid mem access 'scalar'", "only what it may"),
            ("program of this type cannot use helper bpf_tcp_sock#94", "does not offer"),
            ("calling kernel function tcp_reno_undo_cwnd is not allowed", "does not offer"),
            ("BPF program is too large. Processed 1000001 insn", "longer than"),
            ("kernel BTF is missing at '/sys/kernel/btf/vmlinux'", "does not describe"),
            ("Operation not permitted (os error 1)", "policy"),
        ] {
            assert!(meaning(reason).is_some_and(|meaning| meaning.contains(expected)), "{reason}");
        }
        assert_eq!(meaning("something else"), None);
    }
}
