//! The example file server, over loopback.

#[path = "../examples/file_server.rs"]
mod file_server;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use file_server::{get, run, serve, server, status, trusting};

/// Runs `work` with a folder that contains the file `data` and a link to the file `secret` outside the folder.
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

/// Both endpoints run the scheme that the argument selects. The file arrives completely, and a request for a
/// file outside the folder is refused with that file's name.
#[test]
#[ignore = "real time: `make test`"]
fn file_server_serves_its_folder_only() {
    let contents: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    with_folder("serves", &contents, async |folder| {
        for scheme in ["bbr-gc", "cubic"] {
            let (endpoint, certificate) = server((Ipv4Addr::LOCALHOST, 0).into(), scheme).expect("a server");
            let at = endpoint.local_addr().expect("an address");
            let trusted = trusting(certificate).expect("a certificate");
            let serving = tokio::spawn(serve(endpoint.clone(), folder.clone()));
            let mut found = Vec::new();
            let length = get(at, trusted.clone(), "data", scheme, &mut found).await.expect("found");
            assert!(found == contents && length == contents.len() as u64, "{scheme}");
            let refused = ["../secret", "link", "inner", "inner/data", ".", "..", "", "data/", "missing", "a\0b"];
            for name in refused {
                let mut found = Vec::new();
                let refused = get(at, trusted.clone(), name, scheme, &mut found).await.expect_err("refused");
                assert_eq!(refused.to_string(), format!("the server has no file `{name}`"));
                assert!(found.is_empty(), "{name:?}");
            }
            let long = get(at, trusted, &"a".repeat(256), scheme, &mut Vec::new()).await;
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

/// The error for an argument that is not accepted names the argument (status 2), and the error for a server
/// that does not answer names its address (status 1).
#[test]
#[ignore = "real time: `make test`"]
fn errors_name_the_argument_or_the_server() {
    with_folder("errors", b"data", async |folder| {
        let at = |name: &str| folder.join(name).display().to_string();
        let (here, missing, data, good) = (at(""), at("missing"), at("data"), at("cert.der"));
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(&good, certified.cert.der()).expect("written");
        let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let silent = silent.local_addr().expect("an address").to_string();
        for (words, expected, part) in [
            (vec!["serve", &missing, "127.0.0.1:0", &good], 2, &*missing),
            (vec!["serve", &data, "127.0.0.1:0", &good], 2, &*data),
            (vec!["serve", &here, "foo", &good, "cubic"], 2, "`foo` is no address; accepted: IP:PORT"),
            (vec!["serve", &here, "127.0.0.1:0", &good, "nosuch"], 2, "nosuch"),
            (vec!["get", "127.0.0.1", &good, "data"], 2, "`127.0.0.1` is no address"),
            (vec!["get", &silent, &missing, "data"], 2, &*missing),
            (vec!["get", &silent, &data, "data"], 2, "data is no certificate in DER: "),
            (vec!["get"], 2, "accepted: serve FOLDER"),
            (vec!["get", &silent, &good, "data"], 1, &*format!("connect to {silent}: no answer within 5 s")),
        ] {
            let ended = tokio::time::timeout(Duration::from_secs(60), run(&words)).await;
            let error = ended.expect("it does not run on").expect_err("refused");
            assert!(error.to_string().contains(part), "{words:?}: {error}");
            assert_eq!(status(&error), expected, "{words:?}: {error}");
        }
    });
}
