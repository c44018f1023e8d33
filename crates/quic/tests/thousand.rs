//! A thousand connections in one process.

use std::time::Duration;

use crate::support::service::{count, pair};
use narrows_quic::controller;

/// All connections are open simultaneously, each transfers its data, and none fails.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_thousand_connections_share_a_process() {
    const CONNECTIONS: usize = 1000;
    const BYTES: usize = 20_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let work = async {
        let (server, at, client) = pair(controller("bbr-gc").expect("registered"), None);
        let serving = tokio::spawn(count(server.clone()));
        let mut open = Vec::with_capacity(CONNECTIONS);
        // Open the connections in groups: a thousand simultaneous handshakes would time out on a busy machine.
        for _ in 0..CONNECTIONS / 50 {
            let group: Vec<_> = (0..50).map(|_| client.connect(at, "localhost").expect("begins")).collect();
            for connecting in group {
                open.push(connecting.await.expect("connects"));
            }
        }
        assert_eq!(client.open_connections(), CONNECTIONS);
        let transfers: Vec<_> = open
            .iter()
            .cloned()
            .map(|connection| {
                tokio::spawn(async move {
                    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
                    send.write_all(&[7; BYTES]).await.expect("sent");
                    send.finish().expect("open");
                    let mut answer = [0; 8];
                    receive.read_exact(&mut answer).await.expect("an answer");
                    u64::from_be_bytes(answer)
                })
            })
            .collect();
        for transfer in transfers {
            assert_eq!(transfer.await.expect("no panic"), BYTES as u64);
        }
        client.close(0_u32.into(), b"");
        server.close(0_u32.into(), b"");
        serving.await.expect("the server ends");
    };
    let done = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(300), work).await });
    done.expect("in time");
}
