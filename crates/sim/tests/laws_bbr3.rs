//! measure
mod law;
use law::run;

fn show(what: &str, text: &str) {
    let r = run(text);
    println!("{what}: util {:.4} q {:.1} jain {:.3} wall? ", r.links[0].utilization, r.links[0].queue_mean_pkt, r.jain);
    for f in &r.flows { println!("   {} gp {:.2} rtx {:.3} loss {:.3} sent {} rtt50 {:?}", f.scheme, f.goodput_mbit_s, f.retransmit_percent, f.loss_percent, f.packets_sent, f.rtt_p50_ms); }
}

#[test]
fn law_measure() {
    for s in ["bbr", "bbr3", "bbr2"] {
        show(&format!("alone {s}"), &format!("name=\"x\"\nduration=\"60s\"\n[network]\nrate=\"100mbit\"\nbuffer=\"2bdp\"\n[[flows]]\nscheme=\"{s}\"\nrtt=\"40ms\"\n"));
    }
    for s in ["bbr", "bbr3"] { for b in ["0.3bdp", "1bdp"] {
        show(&format!("five {s} {b}"), &format!("name=\"x\"\nduration=\"40s\"\nwarmup=\"10s\"\n[network]\nrate=\"100mbit\"\nbuffer=\"{b}\"\n[[flows]]\nscheme=\"{s}\"\nrtt=\"40ms\"\ncount=5\nstagger=\"300ms\"\n"));
    }}
    for s in ["bbr", "bbr3"] { for l in ["0.1", "1", "1.9", "3"] {
        show(&format!("loss {l} {s}"), &format!("name=\"x\"\nduration=\"40s\"\nwarmup=\"5s\"\n[network]\nrate=\"100mbit\"\nbuffer=\"2bdp\"\nloss=\"{l}%\"\nloss_at=\"ingress\"\n[tcp]\nreceive_window=\"20MB\"\n[[flows]]\nscheme=\"{s}\"\nrtt=\"40ms\"\n"));
    }}
    for s in ["bbr", "bbr3"] { for n in [1, 5] { for b in ["0.5bdp", "1bdp"] {
        show(&format!("cubic {n}+{n} {s} {b}"), &format!("name=\"x\"\nduration=\"80s\"\nwarmup=\"20s\"\n[network]\nrate=\"100mbit\"\nbuffer=\"{b}\"\n[[flows]]\nscheme=\"{s}\"\nrtt=\"40ms\"\ncount={n}\nstagger=\"300ms\"\n[[flows]]\nscheme=\"cubic\"\nrtt=\"40ms\"\ncount={n}\nstagger=\"300ms\"\n"));
    }}}
}
