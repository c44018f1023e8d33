//! Values with a short form, a text, and a long form, a table: `queue = "codel"` or
//! `queue = { kind = "codel", target = "1ms" }`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use narrows_routers as routers;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::class::Class;
use super::table::table;
use super::value::ParamValue;
use crate::quantity::{Amount, Rate, Share, Size, Time};

/// A table with a short form.
pub trait Short: Serialize + for<'de> Deserialize<'de> + JsonSchema {
    /// Accepted texts.
    fn accepted() -> String;
    /// Parses the short form.
    ///
    /// # Errors
    /// If the text is not a short form.
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E>;
    /// The short form, if it expresses the whole value.
    fn text(&self) -> Option<String>;
}

/// A text or a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TextOr<T>(pub T);

impl<T: Short> Serialize for TextOr<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.text() {
            Some(text) => serializer.serialize_str(&text),
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de, T: Short> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrVisitor(PhantomData)).map(Self)
    }
}

struct TextOrVisitor<T>(PhantomData<T>);

impl<'de, T: Short> Visitor<'de> for TextOrVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&T::accepted())
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text)
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        T::from_text(&value.to_string())
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        T::from_text(&value.to_string())
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<T, E> {
        T::from_text(&value.to_string())
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<T: Short> JsonSchema for TextOr<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("TextOr{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [{ "type": "string", "description": T::accepted() }, table] })
    }
}

/// Parses the name of a kind; errors list all names.
fn kind<T: for<'de> Deserialize<'de>, E: de::Error>(text: &str) -> Result<T, E> {
    T::deserialize(text.into_deserializer())
}

/// The name of a kind.
pub(crate) fn name_of<T: Serialize>(kind: &T) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("a kind is a plain name, not {other:?}"),
    }
}

/// The first key of `table` that is neither `kind` nor in `allowed`.
pub(crate) fn stray_key<T: Serialize>(table: &T, allowed: &[&str]) -> Option<String> {
    match serde_json::to_value(table) {
        Ok(serde_json::Value::Object(map)) => {
            map.into_iter().map(|(key, _)| key).find(|key| key != "kind" && !allowed.contains(&key.as_str()))
        }
        other => unreachable!("a table of keys, not {other:?}"),
    }
}

/// Queue discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QueueKind {
    /// First in, first out.
    #[default]
    #[serde(rename = "droptail")]
    DropTail,
    /// RFC 8289.
    #[serde(rename = "codel")]
    CoDel,
    /// RFC 8290.
    #[serde(rename = "fq-codel")]
    FqCoDel,
    /// RFC 8033.
    #[serde(rename = "pie")]
    Pie,
    /// Random early detection.
    #[serde(rename = "red")]
    Red,
    /// Marks arrivals at a queue above a threshold, RFC 8257.
    #[serde(rename = "step")]
    Step,
    /// RFC 9332: one queue for L4S, one for classic traffic.
    #[serde(rename = "dualpi2")]
    DualPi2,
    /// Hierarchical token bucket: classes with assured rates and ceilings, which lend unused rate.
    #[serde(rename = "htb")]
    Htb,
}

table! {
    /// A queue discipline with its parameters.
    #[derive(Default)]
    Queue {
        /// The queue discipline.
        kind: QueueKind,
        ; // optional:
        /// Mark ECN-capable packets instead of dropping them (off).
        ecn: bool,
        /// Acceptable delay (codel, fq-codel: 5ms; pie, dualpi2: 15ms).
        target: Time,
        /// Interval: time for which the delay may exceed the target (codel, fq-codel: 100ms).
        interval: Time,
        /// Number of flow queues (fq-codel: 1024).
        queues: u32,
        /// Quantum: bytes that a flow queue sends per turn (fq-codel: 1514B).
        quantum: Size,
        /// Average queue below which no packet is dropped (red: 5pkt).
        min: Amount,
        /// Average queue at which the probability is max_p (red: three times min).
        max: Amount,
        /// Drop probability at max (red: 10%).
        max_p: Share,
        /// Weight of the newest sample in the average (red: 0.002).
        weight: f64,
        /// Adapt max_p every half second (red: off).
        adaptive: bool,
        /// Queue length above which arrivals are marked, or dropped if not ECN-capable (step: 65pkt).
        above: Amount,
        /// Longest typical round-trip time, from which update, alpha and beta follow (dualpi2: 100ms).
        rtt_max: Time,
        /// Time between updates of the probabilities (dualpi2: the target, or a third of rtt_max if that is
        /// less).
        update: Time,
        /// Integral gain (dualpi2: 0.1 update / rtt_max^2).
        alpha: f64,
        /// Proportional gain (dualpi2: 0.3 / rtt_max).
        beta: f64,
        /// Ratio of the low-latency queue's marking probability to the square root of the classic queue's
        /// (dualpi2: 2).
        coupling: f64,
        /// Delay at which the low-latency queue's own ramp of marks begins (dualpi2: 0.8ms).
        ramp_min: Time,
        /// Width of the ramp from there to a marking probability of 1; 0ms makes a step (dualpi2: 0.4ms).
        ramp_range: Time,
        /// Time shift: the low-latency queue has priority until the classic queue has waited this much longer
        /// (dualpi2: 50ms).
        shift: Time,
        /// Its classes (htb).
        classes: Vec<Class>,
        /// Class of flows that match no class (htb: every flow must match one).
        default: String,
    }
}

impl Short for Queue {
    fn accepted() -> String {
        "droptail, codel, fq-codel, pie, red, step, dualpi2, or a table with `kind` and parameters".to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self { kind: kind(text)?, ..Self::default() })
    }
    fn text(&self) -> Option<String> {
        stray_key(self, &[]).is_none().then(|| name_of(&self.kind))
    }
}

/// A router algorithm with its parameters, each a key beside `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Router {
    /// The router algorithm, or none.
    pub kind: String,
    /// Time at which the algorithm fails (never).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dies: Option<Time>,
    /// Values of its parameters.
    #[serde(flatten)]
    pub params: BTreeMap<String, ParamValue>,
}

impl Router {
    /// The names of all router algorithms, and none.
    pub(crate) fn names() -> String {
        routers::ALL.iter().map(|entry| entry.info.name).chain(["none"]).collect::<Vec<_>>().join(", ")
    }
}

impl Short for Router {
    fn accepted() -> String {
        format!("{}, or a table with `kind` and parameters", Self::names())
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self { kind: text.to_owned(), dies: None, params: BTreeMap::new() })
    }
    fn text(&self) -> Option<String> {
        (self.params.is_empty() && self.dies.is_none()).then(|| self.kind.clone())
    }
}

/// Model of random loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Each packet independently.
    Bernoulli,
    /// Two states, good and bad.
    GilbertElliott,
    /// Every n-th packet.
    Periodic,
}

table! {
    /// Random loss with its parameters.
    Loss {
        /// The loss model.
        kind: LossKind,
        ; // optional:
        /// Loss probability (bernoulli).
        probability: Share,
        /// Probability of going from good to bad, per packet (gilbert-elliott).
        to_bad: Share,
        /// Probability of going from bad to good, per packet (gilbert-elliott).
        to_good: Share,
        /// Loss probability in the good state (gilbert-elliott: 0%).
        loss_good: Share,
        /// Loss probability in the bad state (gilbert-elliott: 100%).
        loss_bad: Share,
        /// Period in packets: one packet of each period is lost (periodic).
        every: u64,
    }
}

impl Loss {
    const fn bernoulli(probability: Share) -> Self {
        Self {
            kind: LossKind::Bernoulli,
            probability: Some(probability),
            to_bad: None,
            to_good: None,
            loss_good: None,
            loss_bad: None,
            every: None,
        }
    }
}

/// No random loss.
pub(crate) fn no_loss() -> Loss {
    match "0%".parse() {
        Ok(none) => Loss::bernoulli(none),
        Err(_) => unreachable!("0% is a share"),
    }
}

impl Short for Loss {
    fn accepted() -> String {
        "a percentage such as 0.1%, or a table with `kind` and parameters".to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        text.parse().map(Self::bernoulli).map_err(E::custom)
    }
    fn text(&self) -> Option<String> {
        let plain = self.kind == LossKind::Bernoulli && stray_key(self, &["probability"]).is_none();
        self.probability.as_ref().filter(|_| plain).map(ToString::to_string)
    }
}

/// Model of a radio path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RadioKind {
    /// A 5G cell seen from a vehicle: four cell states, handovers with outages, bursts of loss, steps of the
    /// delay.
    #[serde(rename = "5g")]
    FiveG,
}

table! {
    /// A generated radio path with its long-run averages.
    Radio {
        /// The radio model.
        kind: RadioKind,
        ; // optional:
        /// The seed of the path (the run's).
        seed: u64,
        /// Length of the path, after which it repeats (60s).
        period: Time,
        /// Mean rate (150mbit).
        mean: Rate,
        /// Greatest rate, at least three times the mean (1gbit).
        peak: Rate,
        /// Mean loss (0.5%).
        loss: Share,
        /// Mean time to the next handover (12s).
        handovers: Time,
        /// Greatest additional delay of a cell (10ms).
        delay: Time,
    }
}

impl Short for Radio {
    fn accepted() -> String {
        "5g, or a table such as { kind = \"5g\", seed = 1, mean = \"150mbit\" }".to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self {
            kind: kind(text)?,
            seed: None,
            period: None,
            mean: None,
            peak: None,
            loss: None,
            handovers: None,
            delay: None,
        })
    }
    fn text(&self) -> Option<String> {
        stray_key(self, &[]).is_none().then(|| name_of(&self.kind))
    }
}

/// The kind of a flow's application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AppKind {
    /// Backlogged: always has data to send.
    #[default]
    Bulk,
    /// Alternates between busy and silent periods.
    OnOff,
    /// A constant bit rate.
    Cbr,
    /// A video of variable bit rate.
    Video,
}

table! {
    /// An application with its parameters.
    #[derive(Default)]
    App {
        /// The kind of application.
        kind: AppKind,
        ; // optional:
        /// Length of a busy period (on-off).
        on: Time,
        /// Length of a silent period (on-off).
        off: Time,
        /// Draw both lengths from exponential distributions with these means (on-off: false).
        random: bool,
        /// Payload rate; for a video its mean (cbr, video).
        rate: Rate,
        /// Size of one write (cbr: one segment).
        write: Size,
        /// Frames per second (video: 30).
        frames: f64,
        /// Interval of key frames in frames (video: 60).
        key_every: u32,
        /// Size of key frames relative to the others (video: 5).
        key_size: f64,
        /// Standard deviation of frame sizes relative to their mean (video: 0.2).
        variation: f64,
    }
}

impl Short for App {
    fn accepted() -> String {
        "bulk, or a table: { kind = \"on-off\", on = \"1s\", off = \"1s\" }, { kind = \"cbr\", rate = \"1mbit\" } or \
        { kind = \"video\", rate = \"1mbit\" }"
            .to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self { kind: kind(text)?, ..Self::default() })
    }
    fn text(&self) -> Option<String> {
        stray_key(self, &[]).is_none().then(|| name_of(&self.kind))
    }
}

table! {
    /// Variation of the delay.
    Jitter {
        /// Greatest additional delay (uniform from zero).
        max: Time,
        ; // optional:
        /// Allow reordering (false).
        reorder: bool,
    }
}

impl Short for Jitter {
    fn accepted() -> String {
        "a time such as 5ms, or { max = \"5ms\", reorder = true }".to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self { max: text.parse().map_err(E::custom)?, reorder: None })
    }
    fn text(&self) -> Option<String> {
        self.reorder.is_none().then(|| self.max.to_string())
    }
}

/// Distribution of file sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SizeKind {
    /// Equal sizes.
    Fixed,
    /// Exponentially distributed.
    Exponential,
    /// Pareto distributed: few files are very large.
    Pareto,
}

table! {
    /// Sizes of files.
    FileSize {
        /// Their distribution.
        kind: SizeKind,
        /// Their mean.
        mean: Size,
        ; // optional:
        /// The tail index, above 1 so that the mean exists (pareto: 1.2).
        shape: f64,
    }
}

impl Short for FileSize {
    fn accepted() -> String {
        "a size such as 100kB, or a table: { kind = \"exponential\", mean = \"100kB\" } or \
        { kind = \"pareto\", mean = \"100kB\", shape = 1.2 }"
            .to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self { kind: SizeKind::Fixed, mean: text.parse().map_err(E::custom)?, shape: None })
    }
    fn text(&self) -> Option<String> {
        (self.kind == SizeKind::Fixed && self.shape.is_none()).then(|| self.mean.to_string())
    }
}
