//! Rights of this process on the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use super::KernelError;

/// Number of the machine's own user namespace: `USER_NS_INIT_INO` of linux/nsfs.h.
const MACHINE: u64 = 0xEFFF_FFFD;
/// The user namespace of this process.
const OWN: &str = "/proc/self/ns/user";

/// What this process lacks of the machine's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// Another user than root.
    Root,
    /// Root of a user namespace, as in a rootless container.
    Machine,
    /// Root without the right to load programs, as in most containers.
    Programs,
}

/// Whether this process is in a user namespace: its root has no rights to the machine.
pub(crate) fn is_confined() -> bool {
    is_other(Path::new(OWN))
}

/// Whether a namespace is another than the machine's. What cannot be read is left to the kernel to refuse.
fn is_other(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|space| space.ino() != MACHINE)
}

/// Refuses a `command` without the right to change programs of the kernel; `use_` says what it needs that for.
pub(crate) fn may_change_programs(command: &str, use_: &str) -> Result<(), KernelError> {
    let is_root = rustix::process::geteuid().is_root();
    // The kernel demands these three for the programs here; CAP_SYS_ADMIN stands for the first two.
    let three = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::NET_ADMIN;
    let administrator = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    let loads = capabilities(None)
        .is_ok_and(|own| own.effective.contains(three) || own.effective.contains(administrator));
    let lack = lack(is_root, is_confined(), loads);
    lack.map_or(Ok(()), |lack| Err(KernelError::Unsupported(refusal(command, use_, lack))))
}

fn lack(is_root: bool, is_confined: bool, loads: bool) -> Option<Lack> {
    match (is_root, is_confined, loads) {
        (false, ..) => Some(Lack::Root),
        (true, true, _) => Some(Lack::Machine),
        (true, false, false) => Some(Lack::Programs),
        (true, false, true) => None,
    }
}

fn refusal(command: &str, use_: &str, lack: Lack) -> String {
    let (what, accepted) = match lack {
        Lack::Root => ("root", "sudo"),
        Lack::Machine => {
            ("root outside of a user namespace", "sudo on the machine, not in a rootless container")
        }
        Lack::Programs => ("root with CAP_NET_ADMIN and CAP_SYS_ADMIN", "sudo, or a container that has them"),
    };
    format!("`{command}` needs {what}: {use_} (accepted: {accepted})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each lack is named with the command and what is accepted, and only root with all rights has none.
    #[test]
    fn lack_of_rights_names_command_and_accepted() {
        for (state, expected) in [
            ((false, false, false), "`narrows brf attach` needs root: it loads (accepted: sudo)"),
            ((false, true, true), "`narrows brf attach` needs root: it loads (accepted: sudo)"),
            (
                (true, true, true),
                "`narrows brf attach` needs root outside of a user namespace: it loads (accepted: sudo on the machine, \
                 not in a rootless container)",
            ),
            (
                (true, false, false),
                "`narrows brf attach` needs root with CAP_NET_ADMIN and CAP_SYS_ADMIN: it loads (accepted: sudo, or a \
                 container that has them)",
            ),
        ] {
            let (is_root, is_confined, loads) = state;
            let lack = lack(is_root, is_confined, loads).expect("it lacks something");
            assert_eq!(refusal("narrows brf attach", "it loads", lack), expected);
        }
        assert_eq!(lack(true, false, true), None);
    }

    /// A namespace that is not the machine's confines, and one that cannot be read does not.
    #[test]
    fn user_namespace_is_told_by_its_number() {
        assert!(is_other(Path::new("/")));
        assert!(!is_other(Path::new("/nowhere/user")));
        // What this process is allowed shows where it is.
        let map = fs::read_to_string("/proc/self/uid_map").expect("of this process");
        let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
        assert_eq!(is_confined(), !whole, "{map}");
    }
}
