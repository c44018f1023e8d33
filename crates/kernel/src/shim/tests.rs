//! Tests of the shim's parts without the kernel.

use narrows_cc::schemes;
use narrows_cc::{Bytes, IdleRule, Params, Phase};

use super::*;

const MSS: Bytes = Bytes::new(1_000);
/// `TCP_CA_*` plus one, as in `Record::transitions`.
const OPEN: u32 = 1;
const RECOVERY: u32 = 4;
const LOSS: u32 = 5;

fn of(scheme: &str) -> FlowSettings {
    let scheme = schemes::find(scheme).expect("registered");
    FlowSettings {
        scheme,
        params: Params::defaults(scheme.info.params),
        seed: 1,
        number: 0,
        mss: MSS,
        initial_window: 10,
        sack: true,
        precise_marks: false,
        idle: IdleRule::Linux,
        origin_ns: 0,
    }
}

/// The record of an established connection with an RTT of 10 ms and `sent` packets outstanding.
fn established(sent: u32) -> Record {
    Record {
        sequence: 1,
        kind: 1,
        mstamp_us: 10_000,
        time_ns: 10_000_000,
        srtt_us: 80_000,
        min_rtt_us: 10_000,
        rtt_us: u32::MAX,
        interval_us: u32::MAX,
        packets_out: sent,
        mss: 1_000,
        reordering: 3,
        ..Record::default()
    }
}

/// The record of the next acknowledgement after `before`: it delivers `acked` packets, and the sender sends as many.
fn ack(before: &Record, acked: u32) -> Record {
    let sent_at = before.mstamp_us;
    let delivered = before.delivered + acked;
    Record {
        sequence: before.sequence + 1,
        kind: 2,
        transitions: 0,
        flags: flag::SAMPLED | flag::CWND_LIMITED,
        mstamp_us: sent_at + 10_000,
        prior_mstamp_us: sent_at,
        first_tx_us: sent_at,
        prior_delivered: before.delivered,
        sample_delivered: acked,
        interval_us: 10_000,
        snd_interval_us: 0,
        rcv_interval_us: 10_000,
        rtt_us: 10_000,
        acked_sacked: acked,
        prior_in_flight: before.packets_out,
        delivered,
        max_packets_out: before.packets_out,
        snd_una: before.snd_una.wrapping_add(acked * 1_000),
        losses: 0,
        ..*before
    }
}

/// A record survives its codecs, and bytes that the kernel cannot have written are refused.
#[test]
fn record_survives_its_codecs() {
    let values: Vec<u64> = (0..Record::FIELDS.len() as u64).map(|n| n * 3 + 1).collect();
    let record = Record::of_values(&values).expect("as many");
    assert_eq!(record.values(), values);
    let mut bytes = Vec::new();
    for (place, value) in values.iter().enumerate() {
        // `struct record` in bpf/protocol.h has nine fields of 64 bits, then fields of 32 bits.
        if place < 9 {
            bytes.extend_from_slice(&value.to_ne_bytes());
        } else {
            bytes.extend_from_slice(&(*value as u32).to_ne_bytes());
        }
    }
    assert_eq!(bytes.len(), 208);
    assert_eq!(Record::read(&bytes), Some(record));
    assert_eq!(Record::read(&bytes[1..]), None);
    assert_eq!(Record::of_values(&values[1..]), None);
    let states = Record { transitions: 0x541, ..record };
    assert_eq!(states.states().collect::<Vec<_>>(), [4, 3, 0]);
}

/// A decision has the layout that the kernel reads.
#[test]
fn decision_has_the_kernels_layout() {
    let reduction = Some(Allowance { packets: 3, out: 7 });
    let decision = Decision { answers: 5, pacing_rate: Some(9), cwnd: 11, ssthresh: 13, reduction, burst: 2 };
    let bytes = decision.bytes();
    let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("four bytes"));
    assert_eq!([word(0), word(8), word(16), word(20)], [5, 9, 11, 13]);
    assert_eq!([word(24), word(28), word(32), word(36)], [3, 3, 7, 2]);
    for own in [decision, Decision::default()] {
        assert_eq!(Decision::of_values(&own.values()), Some(own));
    }
}

/// The handshake and acknowledgements reach the scheme: NewReno doubles in slow start.
#[test]
fn flow_slow_start_doubles() {
    let mut flow = Flow::new(of("newreno"));
    assert_eq!((flow.decision().answers, flow.decision().cwnd), (0, 10));
    let first = established(10);
    flow.on_record(&first);
    let second = ack(&first, 10);
    flow.on_record(&second);
    let decision = flow.decision();
    assert_eq!((decision.answers, decision.cwnd, decision.pacing_rate), (2, 20, None));
    assert_eq!(flow.driver().round(), 1);
}

/// Recovery halves NewReno's cwnd by proportional rate reduction, and an undo restores it.
#[test]
fn flow_recovery_reduces_and_undo_restores() {
    let mut flow = Flow::new(of("newreno"));
    let mut record = established(20);
    flow.on_record(&record);
    record = ack(&record, 10);
    flow.on_record(&record);
    assert_eq!(flow.decision().cwnd, 20);
    // 20 packets outstanding: three are acknowledged selectively, one is lost.
    let lost = Record {
        sequence: 3,
        acked_sacked: 3,
        delivered: record.delivered + 3,
        snd_una: record.snd_una,
        sacked_out: 3,
        lost_out: 1,
        lost: 1,
        losses: 1,
        transitions: RECOVERY,
        ..ack(&record, 3)
    };
    flow.on_record(&lost);
    let decision = flow.decision();
    assert_eq!((decision.cwnd, decision.ssthresh), (10, 10));
    // PRR allows half of the packets delivered: two of three, rounded up.
    assert_eq!(decision.reduction, Some(Allowance { packets: 2, out: 0 }));
    let undone = Record {
        sequence: 4,
        sacked_out: 0,
        lost_out: 0,
        transitions: OPEN,
        flags: flag::UNDO | flag::SAMPLED,
        ..ack(&lost, 4)
    };
    flow.on_record(&undone);
    let decision = flow.decision();
    assert_eq!(decision.reduction, None);
    assert!(decision.cwnd >= 20 && decision.ssthresh > 20, "{decision:?}");
}

/// A timeout reduces cwnd to the data in flight plus one segment.
#[test]
fn flow_timeout_leaves_one_segment() {
    let mut flow = Flow::new(of("cubic"));
    let first = established(10);
    flow.on_record(&first);
    let expired = Record {
        sequence: 2,
        kind: 3,
        mstamp_us: 300_000,
        prior_in_flight: 0,
        lost: 10,
        lost_out: 10,
        transitions: LOSS,
        flags: flag::LOSS_EVENT,
        ..first
    };
    flow.on_record(&expired);
    assert_eq!(flow.decision().cwnd, 1);
    let after = Record { sequence: 3, lost: 10, lost_out: 0, packets_out: 0, ..ack(&expired, 1) };
    flow.on_record(&Record { transitions: OPEN, ..after });
    assert_eq!(flow.driver().scheme().info().name, "cubic");
    assert_eq!(flow.phase(), Phase::Open);
}

/// The delivery rate is that of the kernel's sample, and BBR paces by it.
#[test]
fn flow_takes_the_kernels_rate_sample() {
    let mut flow = Flow::new(of("bbr"));
    let mut record = established(10);
    flow.on_record(&record);
    for _ in 0..40 {
        record = ack(&record, 10);
        flow.on_record(&record);
    }
    // Ten packets of 1000 B per 10 ms are 1 MB/s; the gain is at most 1.25.
    let rate = flow.decision().pacing_rate.expect("paced") as f64;
    assert!((0.7e6..1.26e6).contains(&rate), "{rate}");
}

/// A tape keeps entries and settings, and a damaged tape is refused.
#[test]
fn tape_keeps_entries_and_settings() {
    let mut settings = of("bbr");
    settings.params.set("cwnd_gain", 3.0).expect("a parameter");
    let (mut flow, mut entries) = (Flow::new(settings.clone()), Vec::new());
    let mut record = established(10);
    for _ in 0..20 {
        flow.on_record(&record);
        entries.push(TapeEntry { flow: 0, record, decision: flow.decision() });
        record = ack(&record, 5);
    }
    let mut writer = TapeWriter::new(Vec::new(), &[(10_000, &settings)]).expect("memory");
    entries.iter().for_each(|entry| writer.push(entry).expect("memory"));
    let bytes = writer.finish().expect("memory");
    let mut tape = Tape::read(&bytes).expect("a tape");
    assert_eq!(tape.entries, entries);
    assert_eq!(tape.flows[0].0, 10_000);
    assert_eq!(tape.flows[0].1.params.number("cwnd_gain"), 3.0);
    tape.replay().expect("equal");
    tape.entries[7].decision.cwnd += 1;
    assert!(matches!(tape.replay(), Err(TapeError::Differs { entry: 7, .. })));
    assert!(matches!(Tape::read(&bytes[..bytes.len() - 1]), Err(TapeError::Entry(19))));
    assert!(matches!(Tape::read(&bytes[1..]), Err(TapeError::Format(_))));
}

/// On a tape of Linux 6.18 our schemes decide as they did in the recorded run, where the kernel applied the decisions.
///
/// A scheme that changes on purpose needs a new tape: as root, NARROWS_TAPE=FILE with the test
/// `tapes_of_this_kernel_replay`.
#[test]
fn tape_of_a_kernel_replays() {
    let tape = Tape::read(include_bytes!("tests/cubic-bbr.tape")).expect("a tape");
    let names: Vec<&str> = tape.flows.iter().map(|(_, own)| own.scheme.info.name).collect();
    assert_eq!(names, ["cubic", "bbr"]);
    tape.replay().expect("equal decisions");
    let mut applied = [0, 0];
    for (flow, applied) in applied.iter_mut().enumerate() {
        let entries: Vec<&TapeEntry> = tape.entries.iter().filter(|entry| entry.flow == flow).collect();
        // The program does not follow decisions that do not account for the last change of state.
        let mut barrier = 0;
        for entry in &entries {
            let record = &entry.record;
            if record.states().any(|state| state >= 2) || record.kind() == Some(Kind::Start) {
                barrier = record.sequence;
            }
            let decided = entries.iter().find(|own| own.record.sequence == record.applied);
            let Some(decision) = decided.map(|own| own.decision).filter(|own| own.answers >= barrier) else {
                continue;
            };
            if record.has(flag::FALLBACK) || decision.reduction.is_some() || record.kind() == Some(Kind::Close) {
                continue;
            }
            assert_eq!(record.snd_cwnd, decision.cwnd, "{record:?}");
            assert!(decision.pacing_rate.is_none_or(|rate| rate == record.pacing_rate), "{record:?}");
            *applied += 1;
        }
    }
    assert!(applied.iter().all(|count| *count > 200), "{applied:?}");
}
