//! Parameters of schemes, described as data and checked before a run.

type Text = &'static str;

/// Minimum and maximum accepted value.
type Range = (f64, f64);

/// The kind of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A number in the stated unit.
    Number,
    /// A whole number, in the stated unit.
    Count,
    /// On or off (1 or 0).
    Flag,
    /// One of these words; the value is the word's index in the list, from 0.
    Choice(&'static [&'static str]),
}

/// One parameter of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: ParamKind,
    /// The value if the scenario sets none.
    pub default: f64,
    /// Minimum accepted value.
    pub min: f64,
    /// Maximum accepted value.
    pub max: f64,
    /// The unit of the number, or empty.
    pub unit: &'static str,
    /// One line of help.
    pub help: &'static str,
}

impl Param {
    /// A dimensionless number with its range: a gain, a share, an exponent.
    pub const fn ratio(name: Text, default: f64, range: Range, help: Text) -> Self {
        Self::number(name, default, range, "", help)
    }

    /// A number with its range and unit.
    pub const fn number(name: Text, default: f64, range: Range, unit: Text, help: Text) -> Self {
        Self { name, kind: ParamKind::Number, default, min: range.0, max: range.1, unit, help }
    }

    /// A whole number with its range and unit.
    pub const fn count(name: Text, default: f64, range: Range, unit: Text, help: Text) -> Self {
        Self { kind: ParamKind::Count, ..Self::number(name, default, range, unit, help) }
    }

    /// One of `words`; the first word is the default.
    pub const fn choice(name: Text, words: &'static [Text], help: Text) -> Self {
        assert!(words.len() > 1);
        Self {
            name,
            kind: ParamKind::Choice(words),
            default: 0.0,
            min: 0.0,
            max: (words.len() - 1) as f64,
            unit: "",
            help,
        }
    }

    /// A flag.
    pub const fn flag(name: Text, default: bool, help: Text) -> Self {
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
    /// No parameter has that name.
    Unknown,
    /// The value lies outside the range.
    OutOfRange(Param),
    /// The value has a fraction, but the parameter takes a whole number or the index of a choice.
    Fraction(Param),
}

impl PartialEq for Param {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Maximum number of parameters of a scheme.
pub const MAX_PARAMS: usize = 48;

/// Checked values, one per parameter of the scheme.
#[derive(Clone, Debug)]
pub struct Params {
    specs: &'static [Param],
    values: [f64; MAX_PARAMS],
}

impl Params {
    /// The default values of all parameters.
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
    /// If no parameter has that name, or if the value is out of range, not a number, or fractional for a parameter that
    /// takes whole numbers.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), ParamError> {
        let Some(i) = self.specs.iter().position(|p| p.name == name) else {
            return Err(ParamError::Unknown);
        };
        let spec = self.specs[i];
        if !(spec.min..=spec.max).contains(&value) {
            return Err(ParamError::OutOfRange(spec));
        }
        let whole = matches!(spec.kind, ParamKind::Count | ParamKind::Choice(_));
        if whole && libm::trunc(value) != value {
            return Err(ParamError::Fraction(spec));
        }
        self.values[i] = value;
        Ok(())
    }

    /// The value of a parameter, or its default in `base` if the scheme has removed the parameter.
    ///
    /// # Panics
    /// If `base` has no parameter of that name either.
    pub fn number_or_default(&self, name: &str, base: &[Param]) -> f64 {
        match base.iter().find(|param| param.name == name) {
            Some(_) if self.specs.iter().any(|param| param.name == name) => self.number(name),
            Some(param) => param.default,
            None => panic!("the list has no parameter of this name"),
        }
    }

    /// The parameters that differ from their defaults, in the order of the scheme's list.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Param, f64)> {
        self.specs.iter().zip(self.values).filter(|(spec, value)| *value != spec.default)
    }

    /// The value of a number.
    ///
    /// # Panics
    /// If the scheme declares no parameter of that name: an error in the scheme's file.
    pub fn number(&self, name: &str) -> f64 {
        match self.specs.iter().position(|p| p.name == name) {
            Some(i) => self.values[i],
            None => panic!("the scheme declares no parameter `{name}`"),
        }
    }

    /// The word of a choice. Panics like [`Params::number`], and if the parameter is not a choice.
    pub fn word(&self, name: &str) -> &'static str {
        match self.specs.iter().zip(self.values).find(|(spec, _)| spec.name == name) {
            Some((Param { kind: ParamKind::Choice(words), .. }, value)) => words[value as usize],
            _ => panic!("the scheme declares no choice of this name"),
        }
    }

    /// Returns these values with `printed` replacing the defaults if the flag `literal` is declared and on. Values that
    /// were set stay unchanged.
    ///
    /// # Panics
    /// If a value of `printed` is not declared or out of range, which is a bug in the scheme.
    #[must_use]
    pub fn as_printed(&self, printed: &[(&str, f64)]) -> Self {
        let mut params = self.clone();
        if self.specs.iter().any(|spec| spec.name == LITERAL.name) && self.flag(LITERAL.name) {
            let set = |name: &str| self.changed().any(|(spec, _)| spec.name == name);
            for (name, value) in printed.iter().filter(|(name, _)| !set(name)) {
                assert_eq!(params.set(name, *value), Ok(()), "{name}");
            }
        }
        params
    }

    /// The value of a flag. Panics like [`Params::number`].
    pub fn flag(&self, name: &str) -> bool {
        self.number(name) != 0.0
    }
}

/// The flag that selects the equations and algorithms of the paper as printed, without our corrections.
pub const LITERAL: Param =
    Param::flag("literal", false, "as printed in the paper: its values, without our corrections");

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

const fn contains(names: &[&str], name: &str) -> bool {
    let mut i = 0;
    while i < names.len() {
        if same(names[i], name) {
            return true;
        }
        i += 1;
    }
    false
}

/// The parameter `name` of `list`, with its default replaced by `default`.
///
/// # Panics
/// At compile time, if `list` has no parameter of that name.
pub(crate) const fn with_default(list: &[Param], name: &str, default: f64) -> Param {
    match position(list, name) {
        Some(at) => Param { default, ..list[at] },
        None => panic!("no parameter of that name"),
    }
}

/// Length of the list that [`merge`] returns: names in both `base` and `own` count once.
pub const fn merged_len(base: &[Param], gone: &[&str], own: &[Param]) -> usize {
    let mut n = base.len() - gone.len();
    let mut i = 0;
    while i < own.len() {
        if position(base, own[i].name).is_none() {
            n += 1;
        }
        i += 1;
    }
    n
}

/// `base` without `gone`, followed by `own`. A parameter in both lists keeps its position in `base` and takes its
/// definition from `own`.
///
/// # Panics
/// At compile time, if a name in `gone` is not in `base`, or is in `own`.
pub const fn merge<const N: usize>(base: &[Param], gone: &[&str], own: &[Param]) -> [Param; N] {
    assert!(N == merged_len(base, gone, own));
    let mut all = [base[0]; N];
    let mut n = 0;
    let mut i = 0;
    while i < base.len() {
        if !contains(gone, base[i].name) {
            all[n] = match position(own, base[i].name) {
                Some(at) => own[at],
                None => base[i],
            };
            n += 1;
        }
        i += 1;
    }
    i = 0;
    while i < own.len() {
        if position(base, own[i].name).is_none() {
            all[n] = own[i];
            n += 1;
        }
        i += 1;
    }
    assert!(n == N, "a removed parameter is not in the list, or is defined again");
    all
}

/// A parameter list derived from another: `merged_params!(BASE; Param::number(…), …)` adds parameters or replaces those
/// of the same name; `merged_params!(BASE, without "a", "b"; …)` also removes the named ones.
#[macro_export]
macro_rules! merged_params {
    ($base:path; $($param:expr),* $(,)?) => { $crate::merged_params!(@ $base, []; $($param),*) };
    ($base:path, without $($gone:literal),+; $($param:expr),* $(,)?) => {
        $crate::merged_params!(@ $base, [$($gone),+]; $($param),*)
    };
    (@ $base:path, [$($gone:literal),*]; $($param:expr),*) => {{
        const GONE: &[&str] = &[$($gone),*];
        const OWN: &[$crate::Param] = &[$($param),*];
        const ALL: [$crate::Param; $crate::merged_len($base, GONE, OWN)] = $crate::merge($base, GONE, OWN);
        &ALL
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[Param] = &[Param::ratio("gain", 1.25, (0.0, 4.0), "a gain"), Param::flag("paced", false, "pace")];
    const ROUNDS: &[Param] = &[Param::count("rounds", 3.0, (1.0, 1e6), "round", "rounds")];

    /// `set` checks values, and parameters that are not set keep their defaults.
    #[test]
    fn params_check_values_and_keep_defaults() {
        let mut params = Params::defaults(SPECS);
        assert_eq!(params.set("gain", 2.0), Ok(()));
        assert_eq!(params.number("gain"), 2.0);
        assert!(!params.flag("paced"));
        assert!(params.changed().map(|(spec, value)| (spec.name, value)).eq([("gain", 2.0)]));
        assert_eq!(params.set("gani", 2.0), Err(ParamError::Unknown));
        assert!(matches!(params.set("gain", 5.0), Err(ParamError::OutOfRange(_))));
        assert!(params.set("gain", f64::NAN).is_err());
    }

    /// The flag `literal` replaces defaults by the values printed in the paper.
    #[test]
    fn params_literal_puts_printed_values_in_place() {
        const WITH: &[Param] = &[Param::ratio("gain", 1.25, (0.0, 4.0), "a gain"), LITERAL];
        let mut params = Params::defaults(WITH);
        assert_eq!(params.as_printed(&[("gain", 3.0)]).number("gain"), 1.25);
        params.set("literal", 1.0).unwrap();
        assert_eq!(params.as_printed(&[("gain", 3.0)]).number("gain"), 3.0);
        params.set("gain", 2.0).unwrap();
        assert_eq!(params.as_printed(&[("gain", 3.0)]).number("gain"), 2.0, "a value that was set");
        // A scheme without the flag keeps its defaults.
        assert_eq!(Params::defaults(SPECS).as_printed(&[("gain", 3.0)]).number("gain"), 1.25);
    }

    /// A count is a whole number.
    #[test]
    fn params_count_refuses_fractions() {
        let mut params = Params::defaults(ROUNDS);
        for fraction in [2.5, 1.000_000_1, 999_999.5] {
            assert_eq!(params.set("rounds", fraction), Err(ParamError::Fraction(ROUNDS[0])));
        }
        assert!(matches!(params.set("rounds", 0.5), Err(ParamError::OutOfRange(_))));
        assert_eq!(params.number("rounds"), 3.0);
        assert_eq!(params.set("rounds", 1e6), Ok(()));
    }

    /// A choice maps an index to its word and refuses any other value.
    #[test]
    fn choice_gives_the_word_of_its_place() {
        const MODES: &[Param] = &[Param::choice("mode", &["up", "cruise", "drain"], "a mode")];
        let mut params = Params::defaults(MODES);
        assert_eq!(params.word("mode"), "up");
        assert_eq!(params.set("mode", 2.0), Ok(()));
        assert_eq!(params.word("mode"), "drain");
        assert_eq!(params.set("mode", 1.5), Err(ParamError::Fraction(MODES[0])));
        assert_eq!(params.set("mode", 3.0), Err(ParamError::OutOfRange(MODES[0])));
    }

    /// Merging adds, replaces and removes parameters; for a removed parameter, `number_or_default` returns its default.
    #[test]
    fn params_merged_lists_keep_values_of_removed_ones() {
        const MERGED: &[Param] = crate::merged_params!(SPECS, without "gain";
            Param::flag("paced", true, "pace"), Param::ratio("share", 0.5, (0.0, 1.0), "a share"));
        let params = Params::defaults(MERGED);
        assert_eq!([MERGED[0].name, MERGED[1].name], ["paced", "share"]);
        assert!(params.flag("paced"));
        assert_eq!(params.number_or_default("gain", SPECS), 1.25);
        assert_eq!(params.number_or_default("paced", SPECS), 1.0);
        assert_eq!(params.clone().set("gain", 1.0), Err(ParamError::Unknown));
    }
}
