//! Negotiation between two endpoints.

use super::*;
use crate::{ack_vector, options};

const NOW: Nanos = Nanos::ZERO;

/// Delivers packet `seq` with acknowledgement number `ack` from one endpoint to the other.
fn carry(from: &mut Features, to: &mut Features, now: Nanos, seq: u64, ack: u64) -> Outcome {
    let mut bytes = vec![];
    let (seq, ack) = (Seq::new(seq), Some(Seq::new(ack)));
    from.write(now, seq, Nanos::from_millis(80), false, &mut bytes);
    let mut mandatory = false;
    for option in options(&bytes) {
        match option.expect("a well-formed option") {
            Opt::Mandatory => mandatory = true,
            option => to
                .on_option(seq, ack, &option, std::mem::take(&mut mandatory))
                .expect("a feature option")
                .map_err(|(code, _)| code)?,
        }
    }
    to.end_options(seq);
    Ok(())
}

/// Both endpoints agree on the server's preference although their Changes cross.
#[test]
fn features_crossing_changes_agree_on_server_preference() {
    // The client prefers CCID 3, then CCID 2. The server's list has the same two CCIDs, or shares only one or none with
    // the client's list.
    for (theirs, expected) in [(&[2, 3][..], 2), (&[3, 2], 3), (&[9, 3], 3), (&[9], 2)] {
        let (mut client, mut server) = (Features::new(false), Features::new(true));
        client.request(NOW, CCID, Side::Local, &[3, 2], false);
        server.request(NOW, CCID, Side::Remote, theirs, false);
        // Both Changes are in flight at the same time.
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

/// A Confirm of an older Change does not end a newer Change, which is retransmitted with back-off.
#[test]
fn features_confirm_of_older_change_leaves_change_pending() {
    let (mut a, mut b) = (Features::new(false), Features::new(true));
    a.set_local(NOW, SEQUENCE_WINDOW, 500);
    carry(&mut a, &mut b, NOW, 1, 0).unwrap();
    a.set_local(NOW, SEQUENCE_WINDOW, 900);
    let mut bytes = vec![];
    a.write(NOW, Seq::new(2), Nanos::from_millis(80), false, &mut bytes); // lost
    carry(&mut b, &mut a, NOW, 7, 1).unwrap();
    assert_eq!((a.value(SEQUENCE_WINDOW, Side::Local), a.is_changing(SEQUENCE_WINDOW, Side::Local)), (100, true));
    // The Change is retransmitted after 80 ms, then after 160 ms.
    assert!(!a.has_news(Nanos::from_millis(79)) && a.has_news(Nanos::from_millis(80)));
    carry(&mut a, &mut b, Nanos::from_millis(80), 3, 7).unwrap();
    assert_eq!(a.deadline(), Nanos::from_millis(240));
    carry(&mut b, &mut a, NOW, 8, 3).unwrap();
    assert_eq!((a.value(SEQUENCE_WINDOW, Side::Local), b.value(SEQUENCE_WINDOW, Side::Remote)), (900, 900));
    assert_eq!(a.deadline(), Nanos::MAX);
}

/// A Confirm with a value outside the preference list is an option error.
#[test]
fn features_confirm_of_unoffered_value_is_option_error() {
    let mut a = Features::new(false);
    a.request(NOW, CCID, Side::Local, &[3, 2], false);
    let mut bytes = vec![];
    a.write(NOW, Seq::new(1), Nanos::ZERO, true, &mut bytes);
    assert_eq!(bytes, [32, 5, CCID, 3, 2]);
    assert_eq!(ack_vector::runs(Seq::new(1), &bytes).count(), 0);
    let confirm = a.on_confirm(Seq::new(7), Some(Seq::new(1)), false, CCID, &[77]);
    assert_eq!(confirm, Err(ResetCode::OptionError));
}

/// An empty Confirm means 'unknown feature' (section 6.6.7). For features that every DCCP must implement it
/// is an option error.
#[test]
fn features_empty_confirm_of_required_feature_is_option_error() {
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
