//! The error of the fixed-point arithmetic against the C library, over the whole range of arguments; `docs/deploy.md`
//! states the bounds.

use crate::native::Native;

/// The numbers that a file of `bpf/native` prints, a line per setting; `None` without a C compiler.
fn measured(name: &str) -> Option<Vec<[f64; 4]>> {
    let out = Native::compile(name, None)?.run(&[], &[]);
    let row = |line: &str| {
        let numbers: Vec<f64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        numbers.try_into().expect("four numbers")
    };
    Some(String::from_utf8_lossy(&out).lines().map(row).collect())
}

/// Gamma correction errs by at most 4e-8 for every exponent; half a power, used as a gain, errs by at most one unit of
/// the gain's last bit more.
#[test]
fn gamma_correction_errs_by_less_than_stated() {
    let Some(rows) = measured("gamma") else { return };
    assert_eq!(rows.len(), 10);
    for [exponent, error, _, gain] in rows {
        assert!(error > 0.0 && error < 4e-8, "{exponent}: {error}");
        assert!(gain < 1.0 / f64::from(1 << 20) + 4e-8, "{exponent}: {gain}");
    }
}

/// The growth curve errs by less than 1e-5 of its value at the speeds of BBR-CWS and CUBIC.
#[test]
#[ignore = "seconds: `make test`"]
fn growth_curve_errs_by_less_than_stated() {
    let Some(rows) = measured("cubic") else { return };
    let own: Vec<_> = rows.into_iter().filter(|[speed, ..]| [0.32, 0.4].contains(speed)).collect();
    assert_eq!(own.len(), 2);
    for [speed, root, share, _] in own {
        assert!(root < 1e-5 && share > 0.0 && share < 1e-5, "{speed}: {root} {share}");
    }
}
