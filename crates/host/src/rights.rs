//! Rights of this process on the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use crate::HostError;

/// Number of the machine's initial user namespace: `USER_NS_INIT_INO` of linux/nsfs.h.
const MACHINE: u64 = 0xEFFF_FFFD;
/// The user namespace of this process.
const OWN: &str = "/proc/self/ns/user";

/// A right that this process lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// The user is not root.
    Root,
    /// Root of a user namespace, as in a rootless container.
    Machine,
    /// Root without the right to load programs, as in most containers.
    Programs,
    /// Root without the right to change ports.
    Ports,
}

/// Whether this process is in a user namespace other than the machine's: root of such a namespace has no rights to the
/// machine.
pub fn is_confined() -> bool {
    is_other(Path::new(OWN))
}

/// Whether the file belongs to a namespace other than the machine's; false if the file cannot be read, so that the
/// kernel decides later.
fn is_other(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|space| space.ino() != MACHINE)
}

/// Refuses a `command` without the right to change programs of the kernel; `use_` is the reason why the command needs
/// the right.
pub fn may_change_programs(command: &str, use_: &str) -> Result<(), HostError> {
    refuse(command, use_, false)
}

/// Refuses a `command` without the right to change programs of the kernel and queues of ports.
pub fn may_change_ports(command: &str, use_: &str) -> Result<(), HostError> {
    refuse(command, use_, true)
}

fn refuse(command: &str, use_: &str, ports: bool) -> Result<(), HostError> {
    let is_root = rustix::process::geteuid().is_root();
    let own = capabilities(None).map_or(CapabilitySet::empty(), |own| own.effective);
    let lack = lack(is_root, is_confined(), own, ports);
    lack.map_or(Ok(()), |lack| Err(HostError::Unsupported(refusal(command, use_, lack))))
}

fn lack(is_root: bool, is_confined: bool, own: CapabilitySet, ports: bool) -> Option<Lack> {
    // The kernel demands these three capabilities for the programs here. CAP_SYS_ADMIN replaces all three for programs,
    // but not CAP_NET_ADMIN for netlink.
    let three = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::NET_ADMIN;
    if !is_root {
        Some(Lack::Root)
    } else if is_confined {
        Some(Lack::Machine)
    } else if !own.contains(CapabilitySet::SYS_ADMIN) && !own.contains(three) {
        Some(Lack::Programs)
    } else if ports && !own.contains(CapabilitySet::NET_ADMIN) {
        Some(Lack::Ports)
    } else {
        None
    }
}

fn refusal(command: &str, use_: &str, lack: Lack) -> String {
    let (what, accepted) = match lack {
        Lack::Root => ("root", "sudo"),
        Lack::Machine => ("root outside of a user namespace", "sudo on the machine, not in a rootless container"),
        Lack::Programs => (
            "root with CAP_SYS_ADMIN, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
            "sudo, or a container that has them",
        ),
        Lack::Ports => ("root with CAP_NET_ADMIN", "sudo, or a container that has it"),
    };
    format!("`{command}` needs {what}: {use_} (accepted: {accepted})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a missing right names the command and the accepted rights. Root with the rights that the kernel
    /// requires gets no error.
    #[test]
    fn lack_of_rights_names_command_and_accepted() {
        let all = CapabilitySet::all();
        let programs = "root with CAP_SYS_ADMIN, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: it loads (accepted: sudo, \
                        or a container that has them)";
        let machine = "root outside of a user namespace: it loads (accepted: sudo on the machine, not in a rootless \
                       container)";
        let administrator = CapabilitySet::SYS_ADMIN;
        let three = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::NET_ADMIN;
        for (is_root, is_confined, own, ports, expected) in [
            (false, false, CapabilitySet::empty(), false, Some("root: it loads (accepted: sudo)")),
            (false, true, all, true, Some("root: it loads (accepted: sudo)")),
            (true, true, all, false, Some(machine)),
            (true, false, CapabilitySet::empty(), false, Some(programs)),
            (true, false, three - CapabilitySet::PERFMON, false, Some(programs)),
            (true, false, three - CapabilitySet::BPF, true, Some(programs)),
            (true, false, three - CapabilitySet::NET_ADMIN, false, Some(programs)),
            (true, false, administrator, false, None),
            (
                true,
                false,
                administrator,
                true,
                Some("root with CAP_NET_ADMIN: it loads (accepted: sudo, or a container that has it)"),
            ),
            (true, false, administrator | CapabilitySet::NET_ADMIN, true, None),
            (true, false, three, true, None),
        ] {
            let lack = lack(is_root, is_confined, own, ports);
            let text = lack.map(|lack| refusal("narrows brf attach", "it loads", lack));
            let expected = expected.map(|rest| format!("`narrows brf attach` needs {rest}"));
            assert_eq!(text, expected, "{is_root} {is_confined} {own:?} {ports}");
        }
    }

    /// A namespace other than the machine's confines its processes; an unreadable namespace does not.
    #[test]
    fn number_tells_the_user_namespace() {
        assert!(is_other(Path::new("/")));
        assert!(!is_other(Path::new("/nowhere/user")));
        // The user map of the machine's namespace covers all users.
        let map = fs::read_to_string("/proc/self/uid_map").expect("of this process");
        let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
        assert!(whole || is_confined(), "{map}");
    }
}
