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
pub const MAX_PARAMS: usize = 32;

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
