//! Throughput over loopback of the noq library's controllers and of our schemes, which take turns several
//! times; shown with the ratio to the library's first controller. Both endpoints share one thread, so the
//! result includes the cost of the whole stack.
//!
//!     cargo bench -p narrows-quic --bench loopback -- [--small] [SCHEME ...]
//!
//! The receiver's socket requests a buffer of 4 MiB, so that the stack is the bottleneck. With `--small` the
//! socket keeps the system's default buffer, which overflows if a scheme that ignores losses has a larger
//! window.

#![allow(clippy::disallowed_methods)] // a benchmark measures wall time

#[path = "../tests/support/mod.rs"]
mod support;
#[path = "../tests/tls.rs"]
mod tls;

use std::time::Instant;

use narrows_cc::schemes::ALL;
use narrows_quic::noq::{self, Factory};
use narrows_quic::{Scheme, Stack, controller, refusal};
use support::service::{count, pair};

const ROUNDS: usize = 5;
/// Requested size of the receive buffer in bytes.
const BUFFER: usize = 4 << 20;
/// Bytes of a measured transfer, and of the warm-up transfer.
const BYTES: usize = 300 << 20;
const WARM: usize = 20 << 20;

/// Throughput of one transfer in Mbit/s.
fn measure(factory: &Factory, buffer: Option<usize>) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (server, at, client) = pair(factory.clone(), buffer);
        let serving = tokio::spawn(count(server.clone()));
        let connection = client.connect(at, "localhost").expect("begins").await.expect("connects");
        let mut seconds = 0.0;
        for bytes in [WARM, BYTES] {
            let begun = Instant::now();
            let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
            let chunk = vec![7; 1 << 20];
            for _ in 0..bytes / chunk.len() {
                send.write_all(&chunk).await.expect("sent");
            }
            send.finish().expect("open");
            let mut answer = [0; 8];
            receive.read_exact(&mut answer).await.expect("an answer");
            assert_eq!(u64::from_be_bytes(answer), bytes as u64);
            seconds = begun.elapsed().as_secs_f64();
        }
        client.close(0_u32.into(), b"");
        server.close(0_u32.into(), b"");
        serving.await.expect("the server ends");
        BYTES as f64 * 8e-6 / seconds
    })
}

fn main() {
    let buffer = (!std::env::args().any(|word| word == "--small")).then_some(BUFFER);
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let own = noq::OWN.iter().filter_map(|name| Some((format!("noq:{name}"), noq::own(name)?)));
    // Skip `fixed`, because its throughput only reflects the window or rate that the user sets.
    let accepted = |entry: &&narrows_cc::schemes::Entry| {
        refusal(entry, Stack::Noq).is_none() && Scheme::of(entry, Stack::Noq).is_ok() && entry.info.name != "fixed"
    };
    let ours = ALL.iter().filter(accepted).filter_map(|entry| {
        let name = entry.info.name;
        (asked.is_empty() || asked.iter().any(|one| one == name)).then(|| (name.to_owned(), controller(name).ok()))
    });
    let ours = ours.filter_map(|(name, factory)| Some((name, factory?)));
    let rows: Vec<(String, Factory)> = own.chain(ours).collect();
    let mut found: Vec<Vec<f64>> = rows.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for ((_, factory), found) in rows.iter().zip(&mut found) {
            found.push(measure(factory, buffer));
        }
    }
    let median = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let first = median(&found[0]);
    println!("{:<18} {:>10} {:>12}", "controller", "Mbit/s", "to the first");
    for ((name, _), found) in rows.iter().zip(&found) {
        println!("{name:<18} {:>10.0} {:>12.3}", median(found), median(found) / first);
    }
}
