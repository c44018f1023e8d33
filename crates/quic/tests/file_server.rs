//! The example service, over loopback.

#[path = "../examples/file_server.rs"]
mod file_server;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use file_server::{get, serve, server};

/// Runs `work` with a folder that holds the file `data`, beside a file `secret` and a link to it.
fn with_folder(label: &str, contents: &[u8], work: impl AsyncFnOnce(PathBuf)) {
    let place = std::env::temp_dir().join(format!("narrows-file-server-{label}-{}", std::process::id()));
    let folder = place.join("served");
    std::fs::create_dir_all(folder.join("inner")).expect("a folder");
    std::fs::write(place.join("secret"), "secret").expect("a file");
    std::fs::write(folder.join("inner/data"), "inner").expect("a file");
    std::fs::write(folder.join("data"), contents).expect("a file");
    #[cfg(unix)]
    std::os::unix::fs::symlink(place.join("secret"), folder.join("link")).expect("a link");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work(folder));
    std::fs::remove_dir_all(&place).expect("removed");
}

/// Both ends run the scheme of the flag; the file arrives whole, and names outside the folder are refused with their name.
#[test]
fn file_server_serves_its_folder_only() {
    let contents: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    with_folder("serves", &contents, async |folder| {
        for scheme in ["bbr-gc", "cubic"] {
            let (endpoint, certificate) = server((Ipv4Addr::LOCALHOST, 0).into(), scheme).expect("a server");
            let at = endpoint.local_addr().expect("an address");
            let serving = tokio::spawn(serve(endpoint.clone(), folder.clone()));
            let mut found = Vec::new();
            let length = get(at, certificate.clone(), "data", scheme, &mut found).await.expect("found");
            assert!(found == contents && length == contents.len() as u64, "{scheme}");
            let refused =
                ["../secret", "link", "inner", "inner/data", ".", "..", "", "data/", "missing", "a\0b"];
            for name in refused {
                let mut found = Vec::new();
                let refused =
                    get(at, certificate.clone(), name, scheme, &mut found).await.expect_err("refused");
                assert_eq!(refused.to_string(), format!("the server has no file `{name}`"));
                assert!(found.is_empty(), "{name:?}");
            }
            let long = get(at, certificate, &"a".repeat(256), scheme, &mut Vec::new()).await;
            assert!(long.expect_err("refused").to_string().contains("414"));
            endpoint.close(0_u32.into(), b"");
            serving.await.expect("the server ends");
        }
    });
}

/// A scheme that QUIC cannot run is refused before the server starts.
#[test]
fn unsuitable_scheme_is_refused_at_start() {
    let refused = server((Ipv4Addr::LOCALHOST, 0).into(), "rcp").map(|_| ()).expect_err("refused");
    assert!(refused.to_string().contains("cannot run on noq"), "{refused}");
}
