//! Sources, reports and messages.

use super::*;

/// A file is cut into datagrams, and a full queue delays the rest.
#[test]
fn source_file_is_cut_into_datagrams() {
    let app = App::new(AppConfig::File(Bytes::new(250)), Random::stream(1, "app", 0), Nanos::ZERO);
    let mut source = Source::new(app, 100);
    let config = Config { queue: 2, ..Config::default() };
    let mut connection = Connection::new(&config, Random::stream(1, "dccp", 0), Nanos::ZERO);
    source.write(Nanos::ZERO, &mut connection);
    assert_eq!((source.datagrams, source.is_done()), (2, false), "the queue is full");
    let config = Config { queue: 9, ..Config::default() };
    let mut other = Connection::new(&config, Random::stream(1, "dccp", 0), Nanos::ZERO);
    source.write(Nanos::ZERO, &mut other);
    assert_eq!((source.datagrams, source.is_done()), (3, true));
}

/// A report measures time from the opening of the connection, and has no delay without datagrams.
#[test]
fn report_without_datagrams_has_no_delay() {
    let connection = Connection::new(&Config::default(), Random::stream(1, "dccp", 0), Nanos::ZERO);
    let mut delays = Histogram::default();
    let report = Report::of(true, "there".into(), &connection, (SECOND, Nanos::ZERO), 7, &delays);
    assert_eq!((report.role, report.end, report.datagrams_written), ("sender", "open", 7));
    assert_eq!((report.throughput_mbit_s, report.loss_percent, report.rtt_ms), (0.0, Some(0.0), None));
    assert!(report.scheme.is_some() && report.delay.is_none());
    let receiver = Report::of(false, "there".into(), &connection, (SECOND, SECOND), 0, &delays);
    assert_eq!((receiver.role, receiver.scheme, receiver.lost), ("receiver", None, None));
    for ms in 1..=100 {
        delays.record(ms * 1_000_000);
    }
    let delay = Delay::of(&delays).expect("delays");
    assert_eq!((delay.min_ms, delay.mean_ms), (1.0, 50.5));
    // Quantiles have the resolution of a bucket.
    for (found, exact) in [(delay.p50_ms, 50.0), (delay.p95_ms, 95.0), (delay.p99_ms, 99.0)] {
        assert!((found / exact - 1.0_f64).abs() < 0.03, "{found} {exact}");
    }
}

/// Errors name the address, the reason and the accepted size.
#[test]
fn errors_name_address_reason_and_accepted() {
    let there: SocketAddr = "192.0.2.1:6511".parse().unwrap();
    let text = |error: LiveError| error.to_string();
    assert_eq!(
        text(LiveError::Rejected(there, ResetCode::TooBusy as u8)),
        "192.0.2.1:6511: the peer refused the connection: too busy (9): it serves its maximum of connections"
    );
    assert_eq!(
        text(LiveError::Reset(there, ResetCode::Aborted as u8)),
        "192.0.2.1:6511: the peer reset the connection: aborted (2)"
    );
    assert!(text(LiveError::Reset(there, 77)).ends_with(": unknown reason (77)"));
    let long = "192.0.2.1:6511: datagrams of 1400 bytes with their headers exceed the MTU of the path";
    assert_eq!(text(LiveError::TooLong(there, 1_400, Some(1_188))), format!("{long}; accepted: at most 1188 bytes"));
    assert_eq!(text(LiveError::TooLong(there, 1_400, None)), format!("{long}; accepted: shorter datagrams"));
    assert_eq!(text(LiveError::NoAnswer(there, Duration::from_secs(3))), "192.0.2.1:6511: no answer in 3s");
}
