//! Two sides agree.

use super::*;
use crate::{ack_vector, options};

const NOW: Nanos = Nanos::ZERO;

/// One side's packet `seq`, acknowledging `ack`, reaches the other.
fn carry(from: &mut Features, to: &mut Features, now: Nanos, seq: u64, ack: u64) -> Outcome {
    let mut bytes = vec![];
    let (seq, ack) = (Seq::new(seq), Some(Seq::new(ack)));
    from.write(now, seq, Nanos::from_millis(80), false, &mut bytes);
    let mut mandatory = false;
    for option in options(&bytes) {
        match option.expect("a well-formed option") {
            Opt::Mandatory => mandatory = true,
            Opt::ChangeL { feature, value } => {
                to.on_change(seq, true, feature, value, std::mem::take(&mut mandatory))?;
            }
            Opt::ChangeR { feature, value } => {
                to.on_change(seq, false, feature, value, std::mem::take(&mut mandatory))?;
            }
            Opt::ConfirmL { feature, value } => to.on_confirm(seq, ack, true, feature, value)?,
            Opt::ConfirmR { feature, value } => to.on_confirm(seq, ack, false, feature, value)?,
            other => panic!("{other:?}"),
        }
    }
    to.end_options(seq);
    Ok(())
}

#[test]
fn wishes_that_cross_lead_both_sides_to_the_servers_preference() {
    // The client wants its CCID to be 3 or 2 while the server wants it to be 2 or 3, or one that is not common at all.
    for (theirs, expected) in [(&[2, 3][..], 2), (&[3, 2], 3), (&[9, 3], 3), (&[9], 2)] {
        let (mut client, mut server) = (Features::new(false), Features::new(true));
        client.request(NOW, CCID, Side::Local, &[3, 2], false);
        server.request(NOW, CCID, Side::Remote, theirs, false);
        // Both Changes are on their way at once.
        let mut crossed = client.clone();
        carry(&mut crossed, &mut server, NOW, 10, 0).unwrap();
        let mut reply = Features::new(true);
        reply.request(NOW, CCID, Side::Remote, theirs, false);
        if reply.is_changing(CCID, Side::Remote) {
            carry(&mut reply, &mut crossed, NOW, 20, 9).unwrap();
        }
        let mut client = crossed;
        carry(&mut server, &mut client, NOW, 21, 10).unwrap();
        carry(&mut client, &mut server, NOW, 11, 21).unwrap();
        carry(&mut server, &mut client, NOW, 22, 11).unwrap();
        let values = (client.value(CCID, Side::Local), server.value(CCID, Side::Remote));
        assert_eq!(values, (expected, expected), "{theirs:?}");
        assert!(!client.is_changing(CCID, Side::Local) && !server.is_changing(CCID, Side::Remote));
    }
}

#[test]
fn a_confirm_of_an_older_change_is_not_taken_for_the_newer_ones() {
    let (mut a, mut b) = (Features::new(false), Features::new(true));
    a.set_local(NOW, SEQUENCE_WINDOW, 500);
    carry(&mut a, &mut b, NOW, 1, 0).unwrap();
    a.set_local(NOW, SEQUENCE_WINDOW, 900);
    let mut bytes = vec![];
    a.write(NOW, Seq::new(2), Nanos::from_millis(80), false, &mut bytes); // lost
    carry(&mut b, &mut a, NOW, 7, 1).unwrap();
    assert_eq!(
        (a.value(SEQUENCE_WINDOW, Side::Local), a.is_changing(SEQUENCE_WINDOW, Side::Local)),
        (100, true)
    );
    // After 80 ms the Change is repeated, then after 160 ms.
    assert!(!a.has_news(Nanos::from_millis(79)) && a.has_news(Nanos::from_millis(80)));
    carry(&mut a, &mut b, Nanos::from_millis(80), 3, 7).unwrap();
    assert_eq!(a.deadline(), Nanos::from_millis(240));
    carry(&mut b, &mut a, NOW, 8, 3).unwrap();
    assert_eq!((a.value(SEQUENCE_WINDOW, Side::Local), b.value(SEQUENCE_WINDOW, Side::Remote)), (900, 900));
    assert_eq!(a.deadline(), Nanos::MAX);
}

#[test]
fn a_value_that_was_not_offered_is_an_option_error() {
    let mut a = Features::new(false);
    a.request(NOW, CCID, Side::Local, &[3, 2], false);
    let mut bytes = vec![];
    a.write(NOW, Seq::new(1), Nanos::ZERO, true, &mut bytes);
    assert_eq!(bytes, [32, 5, CCID, 3, 2]);
    assert_eq!(ack_vector::runs(Seq::new(1), &bytes).count(), 0);
    let confirm = a.on_confirm(Seq::new(7), Some(Seq::new(1)), false, CCID, &[77]);
    assert_eq!(confirm, Err(ResetCode::OptionError));
}

#[test]
fn a_feature_that_everybody_has_is_not_unknown() {
    // Section 6.6.7: an empty Confirm says so; of those that every DCCP must know it is an error.
    for (number, outcome) in [
        (CCID, Err(ResetCode::OptionError)),
        (SHORT_NUMBERS, Err(ResetCode::OptionError)),
        (SEQUENCE_WINDOW, Err(ResetCode::OptionError)),
        (SEND_ACK_VECTOR, Ok(())),
        (CHECK_DATA, Ok(())),
    ] {
        let mut a = Features::new(false);
        if number == SEQUENCE_WINDOW {
            a.set_local(NOW, number, 500);
        } else {
            a.request(NOW, number, Side::Local, &[3, 1], false);
        }
        a.write(NOW, Seq::new(1), Nanos::ZERO, true, &mut vec![]);
        assert_eq!(a.on_confirm(Seq::new(7), Some(Seq::new(1)), false, number, &[]), outcome, "{number}");
    }
}
