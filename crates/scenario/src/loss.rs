//! Models of random loss: their tables of keys, and the resolution.

use narrows_net::config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de};

use crate::diagnostic::{Diagnostic, refuse};
use crate::quantity::{Share, parsed};
use crate::schema::short::tagged;
use crate::schema::table::table;

tagged! {
    /// Random loss with its parameters.
    Loss {
        /// Each packet independently.
        Bernoulli(Bernoulli) "bernoulli",
        /// Two states, good and bad.
        GilbertElliott(GilbertElliott) "gilbert-elliott",
        /// Every n-th packet.
        Periodic(Periodic) "periodic",
    }
    fn accepted() -> String {
        "a percentage such as 0.1%, or a table with `kind` and parameters".to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        text.parse().map(|probability| Self::Bernoulli(Bernoulli { probability })).map_err(E::custom)
    }
    fn text(&self) -> Option<String> {
        match self {
            Self::Bernoulli(Bernoulli { probability }) => Some(probability.to_string()),
            _ => None,
        }
    }
}

table! {
    /// Parameters of independent losses.
    Bernoulli {
        /// Loss probability.
        probability: Share,
        ; // optional:
    }
}

table! {
    /// Parameters of losses in two states.
    GilbertElliott {
        /// Probability of going from good to bad, per packet.
        to_bad: Share,
        /// Probability of going from bad to good, per packet.
        to_good: Share,
        ; // optional:
        /// Loss probability in the good state (0%).
        loss_good: Share,
        /// Loss probability in the bad state (100%).
        loss_bad: Share,
    }
}

table! {
    /// Parameters of periodic losses.
    Periodic {
        /// Period in packets: one packet of each period is lost.
        every: u64,
        ; // optional:
    }
}

impl Default for Loss {
    /// No loss.
    fn default() -> Self {
        Self::Bernoulli(Bernoulli { probability: parsed("0%") })
    }
}

/// Resolves the model of random loss.
pub(crate) fn loss(table: &str, loss: &Loss) -> Result<config::Loss, Diagnostic> {
    let share = |stated: &Option<Share>, default| stated.as_ref().map_or(default, Share::value);
    match loss {
        Loss::Bernoulli(own) => match own.probability.value() {
            0.0 => Ok(config::Loss::None),
            1.0 => refuse(table, "`100%` would lose every packet", "a percentage below 100%"),
            probability => Ok(config::Loss::Bernoulli(probability)),
        },
        Loss::GilbertElliott(own) => Ok(config::Loss::GilbertElliott {
            to_bad: own.to_bad.value(),
            to_good: own.to_good.value(),
            loss_good: share(&own.loss_good, 0.0),
            loss_bad: share(&own.loss_bad, 1.0),
        }),
        Loss::Periodic(Periodic { every: 0 | 1 }) => refuse(
            format!("{table}.every"),
            "every packet would be lost",
            "a whole number from 2: one packet in that many is lost",
        ),
        Loss::Periodic(own) => Ok(config::Loss::Periodic(own.every)),
    }
}
