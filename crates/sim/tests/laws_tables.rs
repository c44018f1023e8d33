//! What becomes of flows that find no room in the table of a switch.

mod law;

use law::{goodputs, run};

/// 100 Mbit/s with a table for two flows, which two BRF flows fill; a CUBIC flow and a third BRF flow come later.
fn crowded(late: &[&str]) -> Vec<f64> {
    let mut text = "name = \"full table\"\nduration = \"20s\"\nwarmup = \"6s\"\n[network]\nrate = \"100mbit\"\n\
        router = { kind = \"brf\", flows = 2 }\n[[flows]]\nscheme = \"brf\"\nrtt = \"40ms\"\ncount = 2\nstagger = \"500ms\"\n"
        .to_owned();
    for scheme in late {
        text += &format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\nstart = \"1s\"\n");
    }
    goodputs(&run(&text))
}

/// Who is not in the table counts as one flow of the others' class: a third of the link beside two flows that are.
#[test]
fn a_full_table_leaves_the_others_a_share() {
    for late in [&["cubic"][..], &["brf"]] {
        let goodputs = crowded(late);
        let third = 100.0 / 3.0 * 1448.0 / 1500.0;
        for (flow, goodput) in goodputs.iter().enumerate() {
            // CUBIC in a class of a third of the link, with a buffer of one BDP of the whole link, fills it.
            let least = if flow == 2 { 0.85 } else { 0.98 };
            assert!(
                (least * third..1.02 * third).contains(goodput),
                "{late:?}: {goodputs:?}, a third is {third}"
            );
        }
    }
}

/// The same with two latecomers, which share that third.
#[test]
fn flows_without_a_place_share_what_is_left_to_them() {
    let goodputs = crowded(&["cubic", "cubic"]);
    let third = 100.0 / 3.0 * 1448.0 / 1500.0;
    let late = goodputs[2] + goodputs[3];
    assert!((0.85 * third..1.02 * third).contains(&late), "{goodputs:?}");
    assert!(goodputs[2].min(goodputs[3]) > 0.25 * late, "{goodputs:?}");
}
