//! Parameters of schemes: described as data, checked before a run.

/// What a parameter's value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A number in the stated unit.
    Number,
    /// On or off (1 or 0).
    Flag,
}

/// One parameter of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Number or flag.
    pub kind: ParamKind,
    /// The value where nothing is said.
    pub default: f64,
    /// The least accepted value.
    pub min: f64,
    /// The greatest accepted value.
    pub max: f64,
    /// The unit of the number, or empty.
    pub unit: &'static str,
    /// One line of help.
    pub help: &'static str,
}

impl Param {
    /// A number with its range and unit.
    pub const fn number(
        name: &'static str,
        default: f64,
        range: (f64, f64),
        unit: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, kind: ParamKind::Number, default, min: range.0, max: range.1, unit, help }
    }

    /// A flag.
    pub const fn flag(name: &'static str, default: bool, help: &'static str) -> Self {
        Self {
            name,
            kind: ParamKind::Flag,
            default: if default { 1.0 } else { 0.0 },
            min: 0.0,
            max: 1.0,
            unit: "",
            help,
        }
    }
}

/// Why a parameter was refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamError {
    /// No parameter of that name.
    Unknown,
    /// The value lies outside the range.
    OutOfRange(Param),
}

impl PartialEq for Param {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The most parameters one scheme may have.
pub const MAX_PARAMS: usize = 48;

/// Checked values, one per parameter of the scheme.
#[derive(Clone, Debug)]
pub struct Params {
    specs: &'static [Param],
    values: [f64; MAX_PARAMS],
}

impl Params {
    /// All defaults.
    pub const fn defaults(specs: &'static [Param]) -> Self {
        assert!(specs.len() <= MAX_PARAMS);
        let mut values = [0.0; MAX_PARAMS];
        let mut i = 0;
        while i < specs.len() {
            values[i] = specs[i].default;
            i += 1;
        }
        Self { specs, values }
    }

    /// Sets one value.
    ///
    /// # Errors
    /// If no parameter has that name, or the value is out of its range or not a number.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), ParamError> {
        let Some(i) = self.specs.iter().position(|p| p.name == name) else {
            return Err(ParamError::Unknown);
        };
        let spec = self.specs[i];
        if !(spec.min..=spec.max).contains(&value) {
            return Err(ParamError::OutOfRange(spec));
        }
        self.values[i] = value;
        Ok(())
    }

    /// The value of a number.
    ///
    /// # Panics
    /// If the scheme does not declare a parameter of that name: a slip in the scheme's file.
    pub fn number(&self, name: &str) -> f64 {
        match self.specs.iter().position(|p| p.name == name) {
            Some(i) => self.values[i],
            None => panic!("the scheme declares no parameter of this name"),
        }
    }

    /// The value of a flag. Panics as [`Params::number`].
    pub fn flag(&self, name: &str) -> bool {
        self.number(name) != 0.0
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn position(list: &[Param], name: &str) -> Option<usize> {
    let mut i = 0;
    while i < list.len() {
        if same(list[i].name, name) {
            return Some(i);
        }
        i += 1;
    }
    None
}

/// How many parameters `base` and `own` are together, names that occur in both counted once.
pub const fn merged_len(base: &[Param], own: &[Param]) -> usize {
    let mut n = base.len();
    let mut i = 0;
    while i < own.len() {
        if position(base, own[i].name).is_none() {
            n += 1;
        }
        i += 1;
    }
    n
}

/// `base` followed by `own`; where both have a name, the definition of `own` stands in the place of that of `base`.
pub const fn merge<const N: usize>(base: &[Param], own: &[Param]) -> [Param; N] {
    assert!(N == merged_len(base, own));
    let mut all = [base[0]; N];
    let mut n = 0;
    while n < base.len() {
        all[n] = base[n];
        n += 1;
    }
    let mut i = 0;
    while i < own.len() {
        match position(base, own[i].name) {
            Some(at) => all[at] = own[i],
            None => {
                all[n] = own[i];
                n += 1;
            }
        }
        i += 1;
    }
    all
}

/// A parameter list made of another and of some of its own, which replace those of the same name:
/// `merged_params!(BASE; Param::number(…), …)`.
#[macro_export]
macro_rules! merged_params {
    ($base:expr; $($param:expr),* $(,)?) => {{
        const OWN: &[$crate::Param] = &[$($param),*];
        const ALL: [$crate::Param; $crate::merged_len($base, OWN)] = $crate::merge($base, OWN);
        &ALL
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[Param] =
        &[Param::number("gain", 1.25, (0.0, 4.0), "", "a gain"), Param::flag("paced", false, "pace")];

    #[test]
    fn values_are_checked_and_defaults_kept() {
        let mut params = Params::defaults(SPECS);
        assert_eq!(params.set("gain", 2.0), Ok(()));
        assert_eq!(params.number("gain"), 2.0);
        assert!(!params.flag("paced"));
        assert_eq!(params.set("gani", 2.0), Err(ParamError::Unknown));
        assert!(matches!(params.set("gain", 5.0), Err(ParamError::OutOfRange(_))));
        assert!(params.set("gain", f64::NAN).is_err());
    }
}
