//! The example service, over loopback.

#[path = "../examples/file_server.rs"]
mod file_server;

use std::net::Ipv4Addr;
use std::time::Duration;

use file_server::{get, serve, server};

/// Both ends run the scheme of the flag; the file arrives whole, and names outside the folder are refused.
#[test]
fn file_server_serves_its_folder_only() {
    let folder = std::env::temp_dir().join(format!("narrows-file-server-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let contents: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    std::fs::write(folder.join("data"), &contents).expect("a file");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for scheme in ["bbr-gc", "cubic"] {
            let (endpoint, certificate) = server((Ipv4Addr::LOCALHOST, 0).into(), scheme).expect("a server");
            let at = endpoint.local_addr().expect("an address");
            let serving = tokio::spawn(serve(endpoint.clone(), folder.clone()));
            let within = Duration::from_secs(60);
            let found = tokio::time::timeout(within, get(at, certificate.clone(), "data", scheme)).await;
            assert!(found.expect("in time").expect("found") == contents, "{scheme}");
            for name in ["../data", "missing", "/etc/hostname"] {
                let refused = tokio::time::timeout(within, get(at, certificate.clone(), name, scheme)).await;
                assert!(refused.expect("in time").is_err(), "{name}");
            }
            endpoint.close(0_u32.into(), b"");
            serving.await.expect("the server ends");
        }
    });
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// A scheme that QUIC cannot run is refused before the server starts.
#[test]
fn unsuitable_scheme_is_refused_at_start() {
    let refused = server((Ipv4Addr::LOCALHOST, 0).into(), "rcp").map(|_| ()).expect_err("refused");
    assert!(refused.to_string().contains("cannot run on noq"), "{refused}");
}
