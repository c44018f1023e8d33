//! With the feature `bpf`: compiles `bpf/*.bpf.c` for the kernel.

#![allow(clippy::disallowed_methods, reason = "a build script reads its environment")]

use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// The end of a program's file name.
const SUFFIX: &str = ".bpf.c";

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../bpf");
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-env-changed=CLANG");
    let files = match std::fs::read_dir(&folder) {
        Ok(files) => files.flatten().map(|entry| entry.path()),
        Err(error) => fail(&format!("cannot read {}: {error}", folder.display())),
    };
    for source in files {
        let name = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(name) = name.strip_suffix(SUFFIX) {
            compile(&source, &out.join(format!("{name}.bpf.o")));
        }
    }
}

fn compile(source: &Path, object: &Path) {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    command.args(["-g", "-O2", "-Wall", "-Wno-unused-function", "-Werror", "-target", "bpf", "-mcpu=v3", "-c"]);
    // libbpf's headers, from libbpf-sys.
    command.arg("-I").arg(variable("DEP_BPF_INCLUDE")).arg(source).arg("-o").arg(object);
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            fail(&format!("`{clang}` refused {}: {}", source.display(), String::from_utf8_lossy(&output.stderr)))
        }
        Err(error) => fail(&format!(
            "the feature `bpf` needs `{clang}` 12 or later to compile {} ({error}): apt install clang, set CLANG, or \
             build without the feature",
            source.display()
        )),
    }
}

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    exit(1);
}
