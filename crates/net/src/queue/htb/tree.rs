//! The classes of a hierarchical token bucket.

use std::fmt;

use narrows_units::{Bytes, Rate};

use crate::limit::Limit;

/// A class of a hierarchical token bucket. Quantum, buffer limit and policing apply to leaves only.
#[derive(Clone, Debug, PartialEq)]
pub struct HtbClass {
    /// Name in results.
    pub name: String,
    /// Number of the parent class, from which the class borrows; `None`: the parent is the link, which always lends.
    pub parent: Option<u8>,
    /// Assured rate.
    pub rate: Rate,
    /// Maximum rate, borrowed or not; `None`: the rate of the link.
    pub ceil: Option<Rate>,
    /// Priority among classes that may send and among borrowers of the same class; the lowest number goes
    /// first.
    pub priority: u8,
    /// Bytes per turn; `None`: the bytes of a tenth of a second at `rate`, but at least 1500 and at most 200 000.
    pub quantum: Option<u32>,
    /// Depth of the bucket of `rate`; `None`: one packet plus the tokens of a millisecond and of the time in which the
    /// link sends two packets per leaf.
    pub burst: Option<Bytes>,
    /// Depth of the bucket of `ceil`, with the same default.
    pub ceil_burst: Option<Bytes>,
    /// Queue limit; a limit in time is converted to bytes at the class's rate. `None`: the link's limit, in which a
    /// time is converted at the link's rate.
    pub limit: Option<Limit>,
    /// Whether the class is policed: arrivals beyond its tokens are dropped, and the class never borrows.
    pub policed: bool,
}

impl HtbClass {
    /// Creates a child of the link with the highest priority and default values.
    pub fn new(name: impl Into<String>, rate: Rate) -> Self {
        Self {
            name: name.into(),
            parent: None,
            rate,
            ceil: None,
            priority: 0,
            quantum: None,
            burst: None,
            ceil_burst: None,
            limit: None,
            policed: false,
        }
    }
}

/// A valid tree of classes, and the class of each flow. A class's number is its index in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Htb {
    classes: Vec<HtbClass>,
    default: u8,
    flows: Vec<u8>,
    leaves: u64,
}

/// An error in a tree of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HtbError {
    /// There are no classes.
    NoClass,
    /// There are more than [`Htb::MAX_CLASSES`].
    TooManyClasses,
    /// The parent of this class does not exist.
    NoParent(u8),
    /// This class is its own ancestor.
    Cycle(u8),
    /// This class has more than [`Htb::MAX_DEPTH`] - 1 ancestors.
    TooDeep(u8),
    /// The priority of this class is not below [`Htb::PRIORITIES`].
    Priority(u8),
    /// This class is policed and has children; only leaves can be policed.
    PolicedParent(u8),
    /// The default class is not a leaf.
    Default(u8),
}

impl fmt::Display for HtbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClass => write!(f, "there are no classes"),
            Self::TooManyClasses => write!(f, "there are more than {} classes", Htb::MAX_CLASSES),
            Self::NoParent(class) => write!(f, "the parent of class {class} does not exist"),
            Self::Cycle(class) => write!(f, "class {class} is its own ancestor"),
            Self::TooDeep(class) => {
                write!(f, "class {class} has more than {} ancestors", Htb::MAX_DEPTH - 1)
            }
            Self::Priority(class) => {
                write!(f, "the priority of class {class} is not below {}", Htb::PRIORITIES)
            }
            Self::PolicedParent(class) => write!(f, "class {class} is policed and has children"),
            Self::Default(class) => write!(f, "class {class} is the default, but not a leaf"),
        }
    }
}

impl std::error::Error for HtbError {}

impl Htb {
    /// Maximum number of classes.
    pub const MAX_CLASSES: usize = 63;
    /// Maximum number of classes from a leaf to the link, the leaf included.
    pub const MAX_DEPTH: usize = 7;
    /// Number of priorities.
    pub const PRIORITIES: u8 = 8;

    /// Creates a tree of classes. Packets without a class join `default`, a leaf.
    ///
    /// # Errors
    /// If the classes do not form a tree within the limits, or the default class is not a leaf.
    pub fn new(classes: Vec<HtbClass>, default: u8) -> Result<Self, HtbError> {
        if classes.is_empty() {
            return Err(HtbError::NoClass);
        }
        if classes.len() > Self::MAX_CLASSES {
            return Err(HtbError::TooManyClasses);
        }
        let mut leaves = (1u64 << classes.len()) - 1;
        for (number, class) in (0u8..).zip(&classes) {
            let (mut depth, mut ancestor) = (1, class.parent);
            while let Some(parent) = ancestor {
                depth += 1;
                if parent == number || depth > classes.len() {
                    return Err(HtbError::Cycle(number));
                }
                ancestor = classes.get(usize::from(parent)).ok_or(HtbError::NoParent(number))?.parent;
            }
            if depth > Self::MAX_DEPTH {
                return Err(HtbError::TooDeep(number));
            }
            if class.priority >= Self::PRIORITIES {
                return Err(HtbError::Priority(number));
            }
            if let Some(parent) = class.parent {
                leaves &= !(1 << parent);
                if classes[usize::from(parent)].policed {
                    return Err(HtbError::PolicedParent(parent));
                }
            }
        }
        let htb = Self { classes, default, flows: Vec::new(), leaves };
        if htb.is_leaf(default) { Ok(htb) } else { Err(HtbError::Default(default)) }
    }

    /// Sets the class of each flow, in order of flow number. Flows beyond the list, and flows whose class is not a
    /// leaf, join the default class.
    #[must_use]
    pub fn with_flows(mut self, flows: Vec<u8>) -> Self {
        self.flows = flows;
        self
    }

    /// The classes.
    pub fn classes(&self) -> &[HtbClass] {
        &self.classes
    }

    /// Whether this class exists and has no children.
    pub const fn is_leaf(&self, class: u8) -> bool {
        class < u64::BITS as u8 && self.leaves & (1 << class) != 0
    }

    /// Number of classes without children.
    pub const fn leaves(&self) -> u32 {
        self.leaves.count_ones()
    }

    /// Returns the leaf of a packet of `flow` that is steered to `class`, if any.
    pub fn leaf_of(&self, flow: u32, class: Option<u8>) -> u8 {
        let listed = || self.flows.get(flow as usize).copied();
        class
            .filter(|&class| self.is_leaf(class))
            .or_else(|| listed().filter(|&class| self.is_leaf(class)))
            .unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(parent: Option<u8>) -> HtbClass {
        HtbClass { parent, ..HtbClass::new("class", Rate::from_mbit_per_sec(1.0)) }
    }

    /// `Htb::new` accepts only trees within the limits whose default class is a leaf.
    #[test]
    fn htb_config_accepts_only_sound_trees() {
        let tree = |parents: &[Option<u8>], default| {
            Htb::new(parents.iter().map(|&parent| class(parent)).collect(), default).map(|htb| htb.leaves())
        };
        assert_eq!(tree(&[None], 0), Ok(1));
        assert_eq!(tree(&[Some(2), Some(2), None, None], 3), Ok(3));
        assert_eq!(tree(&[], 0), Err(HtbError::NoClass));
        assert_eq!(tree(&[None; 63], 62), Ok(63));
        assert_eq!(tree(&[None; 64], 0), Err(HtbError::TooManyClasses));
        assert_eq!(tree(&[None, Some(2)], 0), Err(HtbError::NoParent(1)));
        assert_eq!(tree(&[None, Some(1)], 0), Err(HtbError::Cycle(1)));
        assert_eq!(tree(&[None, Some(2), Some(3), Some(2)], 0), Err(HtbError::Cycle(1)));
        assert_eq!(tree(&[Some(1), None], 1), Err(HtbError::Default(1)));
        assert_eq!(tree(&[None], 1), Err(HtbError::Default(1)));
        assert_eq!(tree(&[None], 200), Err(HtbError::Default(200)));
        let chain = |depth: u8| tree(&(0..depth).map(|n| n.checked_sub(1)).collect::<Vec<_>>(), depth - 1);
        assert_eq!(chain(7), Ok(1));
        assert_eq!(chain(8), Err(HtbError::TooDeep(7)));
        let late = HtbClass { priority: 8, ..class(None) };
        assert_eq!(Htb::new(vec![late], 0), Err(HtbError::Priority(0)));
        let policed = HtbClass { policed: true, ..class(None) };
        assert_eq!(Htb::new(vec![policed, class(Some(0))], 1), Err(HtbError::PolicedParent(0)));
    }

    /// A packet joins the leaf to which it is steered, otherwise the leaf of its flow, otherwise the default leaf.
    #[test]
    fn leaf_of_prefers_steered_then_flow_then_default() {
        let classes = vec![class(None), class(Some(0)), class(Some(0)), class(None)];
        let htb = Htb::new(classes, 3).unwrap().with_flows(vec![1, 0, 77]);
        assert_eq!(htb.leaf_of(0, None), 1);
        assert_eq!(htb.leaf_of(0, Some(2)), 2);
        // Class 0 is not a leaf, class 77 does not exist.
        assert_eq!([1, 2, 3].map(|flow| htb.leaf_of(flow, None)), [3, 3, 3]);
        assert_eq!([0, 77].map(|class| htb.leaf_of(0, Some(class))), [1, 1]);
    }
}
