//! Laws of flows without an entry in a full reservation table.

use crate::law::{PAYLOAD, flows, goodputs, run, scenario};

/// Goodputs on 100 Mbit/s with a table for two flows, which two BRF flows fill; the flows of `late` start later.
fn crowded(late: &[&str]) -> Vec<f64> {
    let network = "rate = \"100mbit\"\nrouter = { kind = \"brf\", flows = 2 }";
    let late = late.iter().map(|scheme| flows(scheme, 40, "start = \"1s\"")).collect::<String>();
    let all = flows("brf", 40, "count = 2\nstagger = \"500ms\"") + &late;
    goodputs(&run(&scenario(20.0, 6.0, network, &all)))
}

/// Untracked flows count as one flow of the default class and keep a third of the link beside two tracked flows.
#[test]
fn brf_full_table_leaves_untracked_flow_a_share() {
    for late in [&["cubic"][..], &["brf"]] {
        let goodputs = crowded(late);
        let third = 100.0 / 3.0 * PAYLOAD;
        for (flow, goodput) in goodputs.iter().enumerate() {
            // CUBIC fills its third of the link with a buffer of one BDP of the whole link.
            let least = if flow == 2 { 0.85 } else { 0.98 };
            assert!((least * third..1.02 * third).contains(goodput), "{late:?}: {goodputs:?}, expected {third}");
        }
    }
}

/// Two untracked flows together get one third of the link.
#[test]
fn brf_untracked_flows_share_one_share() {
    let goodputs = crowded(&["cubic", "cubic"]);
    let third = 100.0 / 3.0 * PAYLOAD;
    let late = goodputs[2] + goodputs[3];
    assert!((0.85 * third..1.02 * third).contains(&late), "{goodputs:?}");
    assert!(goodputs[2].min(goodputs[3]) > 0.25 * late, "{goodputs:?}");
}
