//! Expands a scenario to runs: overrides, axes, cases and seeds.

use crate::diagnostic::{COMMAND_LINE, Diagnostic, Location, ScenarioError};
use crate::tree::{KeyValue, Node, Tree, names_in};

/// Maximum number of runs of a sweep; a larger number is certainly a mistake.
pub(crate) const MAX_RUNS: u64 = 100_000;

/// One value of an axis, with its label and the keys that it sets.
#[derive(Clone, Debug)]
struct Choice {
    label: String,
    sets: Vec<Setting>,
}

/// A dotted key, its location, and its value.
#[derive(Clone, Debug)]
struct Setting {
    key: String,
    at: Location,
    value: Tree,
}

/// One dimension of the grid.
#[derive(Clone, Debug)]
struct Axis {
    name: String,
    choices: Vec<Choice>,
}

impl Axis {
    /// The keys that the values of the axis set.
    fn sets(&self) -> impl Iterator<Item = &Setting> {
        self.choices.iter().flat_map(|choice| &choice.sets)
    }
}

/// The grid of all points of a scenario's sweep.
pub(crate) struct Grid {
    base: Tree,
    axes: Vec<Axis>,
    /// Overrides of single list items whose lists are swept; applied after all axes.
    last: Vec<Setting>,
}

/// Name of the axis that `cases` defines.
const CASE: &str = "case";

impl Grid {
    /// Removes `[sweep]` from the scenario and applies the overrides.
    pub(crate) fn new(mut base: Tree, overrides: &[(String, String)]) -> Result<Self, Diagnostic> {
        let mut axes = Vec::new();
        if let Some(sweep) = base.take("sweep") {
            let Node::Table(entries) = &sweep.value.node else {
                return Err(Diagnostic::new("sweep", format!("found {}", sweep.value.kind()))
                    .accepted("a table of keys and lists: \"network.buffer\" = [\"1bdp\", \"5bdp\"]")
                    .at(sweep.value.at));
            };
            for entry in entries {
                if entry.key == "cases" { axes.push(cases(entry)?) } else { read_axes(&entry.key, entry, &mut axes)? }
            }
        }
        check_distinct(&axes)?;
        let mut grid = Self { base, axes, last: Vec::new() };
        for (key, text) in overrides {
            grid.apply(key, text)?;
        }
        grid.axes.iter().try_for_each(check_different)?;
        grid.axes.iter().try_for_each(|axis| grid.check_runs(axis))?;
        Ok(grid)
    }

    /// Rejects an axis over all items of a list if every item also has a separate value, because the axis would
    /// then have no effect.
    fn check_runs(&self, axis: &Axis) -> Result<(), Diagnostic> {
        let Some((list, key)) = axis.name.split_once('.') else { return Ok(()) };
        let Some(Node::List(items)) = self.base.get(list).map(|entry| &entry.value.node) else {
            return Ok(());
        };
        let own = |item: usize| {
            let own = format!("{list}.{item}.{key}");
            self.last.iter().chain(self.sets()).any(|set| set.key == own)
        };
        if (0..items.len()).all(own) {
            let at = axis.sets().next().map_or(Location::Unknown, |set| set.at);
            let message = format!("every item of {list} has its own `{key}`, so these values have no effect");
            return Err(Diagnostic::new(swept_key(&axis.name, at), message)
                .accepted(format!("one value for `{}`, or no own value for one of {list}", axis.name))
                .at(at));
        }
        Ok(())
    }

    /// Applies one override: a list of values adds or replaces an axis; a single value replaces the value in the file.
    fn apply(&mut self, key: &str, text: &str) -> Result<(), Diagnostic> {
        let at = Location::CommandLine;
        if key == "sweep" || key.starts_with("sweep.") {
            return Err(Diagnostic::new(key, "set the swept key itself")
                .accepted("network.buffer=0.1bdp,1bdp makes a sweep over network.buffer")
                .at(at));
        }
        let cases = self.axes.iter().filter(|axis| axis.name == CASE);
        if let Some(set) = cases.flat_map(Axis::sets).find(|set| covers(key, &set.key)) {
            let which = if set.key == key { "this key".to_owned() } else { format!("`{}`", set.key) };
            return Err(Diagnostic::new(key, format!("{which} is set by sweep.cases"))
                .accepted("a key that no case sets")
                .at(at));
        }
        // An override of all items of a list replaces the file's axis over one of these items.
        let ended = |axis: &Axis| axis.name != key && covers(key, &axis.name);
        let own = |axis: &&Axis| ended(axis) && axis.sets().any(|set| set.at == at);
        if let Some(axis) = self.axes.iter().find(own) {
            return Err(Diagnostic::new(key, format!("this would undo the sweep of {}", axis.name))
                .accepted(format!("{key} before {}", axis.name))
                .at(at));
        }
        self.axes.retain(|axis| !ended(axis));
        let values = split_list(text);
        let position = self.axes.iter().position(|axis| axis.name == key);
        if let [value] = values.as_slice() {
            if let Some(position) = position {
                self.axes.remove(position);
            }
            let value = Tree::from_command_line(value);
            let of_all = names_in(key).collect::<Vec<_>>().join(".");
            if self.sets().any(|set| set.key == of_all) {
                self.last.push(Setting { key: key.to_owned(), at, value });
                return Ok(());
            }
            return self.base.set(key, &value, at);
        }
        check_sweepable(key, at)?;
        let choices = values.iter().map(|value| {
            let value = Tree::from_command_line(value);
            Choice { label: value.label(), sets: vec![Setting { key: key.to_owned(), at, value }] }
        });
        let axis = Axis { name: key.to_owned(), choices: choices.collect() };
        match position {
            Some(position) => self.axes[position] = axis,
            None => {
                // Axes over keys inside this table must apply after the table's axis.
                let inside = self.axes.iter().position(|other| undoes(key, &other.name));
                self.axes.insert(inside.unwrap_or(self.axes.len()), axis);
            }
        }
        Ok(())
    }

    /// Prefixes the key of an error with `sweep.` if the file sweeps this key.
    pub(crate) fn prefix(&self, mut error: ScenarioError) -> ScenarioError {
        let mut swept = self.sets().filter(|set| set.at != Location::CommandLine);
        if let Some(key) = &mut error.key
            && error.source != COMMAND_LINE
            && swept.any(|set| undoes(&set.key, key))
        {
            key.insert_str(0, "sweep.");
        }
        error
    }

    /// The keys that the grid's axes set.
    fn sets(&self) -> impl Iterator<Item = &Setting> {
        self.axes.iter().flat_map(Axis::sets)
    }

    /// The scenario without its sweep, with the overrides applied.
    pub(crate) const fn base(&self) -> &Tree {
        &self.base
    }

    /// The number of points; `None` if it exceeds 64 bits.
    pub(crate) fn len(&self) -> Option<u64> {
        self.axes.iter().try_fold(1u64, |product, axis| product.checked_mul(axis.choices.len() as u64))
    }

    /// Returns the swept keys of point number `index` with their values, and the scenario. The last axis varies
    /// fastest.
    pub(crate) fn point(&self, index: u64) -> Result<(Vec<(String, String)>, Tree), Diagnostic> {
        let mut tree = self.base.clone();
        let mut point = Vec::with_capacity(self.axes.len());
        let mut rest = index;
        let mut stride = self.len().unwrap_or(u64::MAX);
        for axis in &self.axes {
            stride /= axis.choices.len() as u64;
            let choice = &axis.choices[(rest / stride) as usize];
            rest %= stride;
            for set in &choice.sets {
                tree.set(&set.key, &set.value, set.at)?;
            }
            point.push((axis.name.clone(), choice.label.clone()));
        }
        for set in &self.last {
            tree.set(&set.key, &set.value, set.at)?;
        }
        Ok((point, tree))
    }
}

/// The name of an axis's key in messages: the key of `--set`, or the key below `[sweep]` in a file.
fn swept_key(key: &str, at: Location) -> String {
    if at == Location::CommandLine { key.to_owned() } else { format!("sweep.{key}") }
}

fn check_sweepable(key: &str, at: Location) -> Result<(), Diagnostic> {
    match key {
        "repeat" | "name" => Err(Diagnostic::new(format!("sweep.{key}"), format!("`{key}` cannot be swept"))
            .accepted("any other key of the scenario")
            .at(at)),
        _ => Ok(()),
    }
}

/// Whether setting `key` replaces the value at `other`, because `other` equals `key` or lies below it. A list
/// without an index covers each of its items.
fn undoes(key: &str, other: &str) -> bool {
    let mut rest = key.split('.').peekable();
    for segment in other.split('.') {
        match rest.peek() {
            None => return true,
            Some(next) if *next == segment => _ = rest.next(),
            Some(_) if segment.parse::<usize>().is_ok() => {}
            Some(_) => return false,
        }
    }
    rest.peek().is_none()
}

/// Like [`undoes`], but `other` must not lie below `key`.
fn covers(key: &str, other: &str) -> bool {
    undoes(key, other) && names_in(key).count() == names_in(other).count()
}

/// Rejects an axis that replaces a key set by an earlier axis: axes apply in order, so the labels of the
/// earlier axis would be wrong.
fn check_distinct(axes: &[Axis]) -> Result<(), Diagnostic> {
    let mut seen: Vec<&str> = Vec::new();
    for axis in axes {
        let mut of_axis: Vec<&Setting> = Vec::new();
        for set in axis.sets() {
            if let Some(earlier) = seen.iter().find(|earlier| undoes(&set.key, earlier)) {
                let diagnostic = Diagnostic::new(
                    format!("sweep.{}", set.key),
                    match *earlier == set.key {
                        true => "this key is swept twice".to_owned(),
                        false => format!("this undoes the earlier sweep of {earlier}"),
                    },
                );
                return Err(diagnostic.accepted("each key on one axis").at(set.at));
            }
            if !of_axis.iter().any(|other| other.key == set.key) {
                of_axis.push(set);
            }
        }
        seen.extend(of_axis.iter().map(|set| set.key.as_str()));
    }
    Ok(())
}

/// Rejects duplicate values of an axis, because their run would count twice in every mean.
fn check_different(axis: &Axis) -> Result<(), Diagnostic> {
    for (index, choice) in axis.choices.iter().enumerate() {
        if axis.choices[..index].iter().any(|earlier| earlier.label == choice.label) {
            let at = choice.sets.first().map_or(Location::CommandLine, |set| set.at);
            let of_cases = axis.name == CASE && at != Location::CommandLine;
            let key = if of_cases { "cases" } else { &axis.name };
            return Err(Diagnostic::new(swept_key(key, at), format!("`{}` is listed twice", choice.label))
                .accepted("each value of a sweep once; `repeat` runs more seeds")
                .at(at));
        }
    }
    Ok(())
}

/// Reads an axis, or several axes from a table: in TOML, `network.buffer` without quotes is a table.
fn read_axes(key: &str, entry: &KeyValue, axes: &mut Vec<Axis>) -> Result<(), Diagnostic> {
    let name = format!("sweep.{key}");
    match &entry.value.node {
        Node::Table(entries) => {
            entries.iter().try_for_each(|entry| read_axes(&format!("{key}.{}", entry.key), entry, axes))
        }
        Node::List(items) if items.is_empty() => {
            Err(Diagnostic::new(name, "the list is empty").accepted("at least one value").at(entry.value.at))
        }
        Node::List(items) => {
            check_sweepable(key, entry.at)?;
            let choices = items.iter().map(|item| {
                let set = Setting { key: key.to_owned(), at: item.at, value: item.clone() };
                Choice { label: item.label(), sets: vec![set] }
            });
            axes.push(Axis { name: key.to_owned(), choices: choices.collect() });
            Ok(())
        }
        _ => Err(Diagnostic::new(name, format!("found {}", entry.value.kind()))
            .accepted("a list of values such as [\"1bdp\", \"5bdp\"]")
            .at(entry.value.at)),
    }
}

/// Reads `cases`: one axis, each of whose values sets several keys.
fn cases(entry: &KeyValue) -> Result<Axis, Diagnostic> {
    let refuse = |found: String, at| {
        Diagnostic::new("sweep.cases", found)
            .accepted("a list of tables such as { label = \"slow\", \"network.rate\" = \"10mbit\" }")
            .at(at)
    };
    let items = match &entry.value.node {
        Node::List(items) if !items.is_empty() => items,
        Node::List(_) => return Err(refuse("the list is empty".into(), entry.value.at)),
        _ => return Err(refuse(format!("found {}", entry.value.kind()), entry.value.at)),
    };
    let choice = |item: &Tree| {
        let Node::Table(entries) = &item.node else {
            return Err(refuse(format!("found {}", item.kind()), item.at));
        };
        let (mut label, mut sets) = (None, Vec::new());
        for entry in entries {
            match (&entry.value.node, entry.key.as_str()) {
                (_, "label") => label = Some(entry.value.label()),
                // `network.rate = …` without quotes is a table. Enter one level of tables only, because a value
                // may be a table, too.
                (Node::Table(inner), "network" | "tcp" | "trace" | "flows" | "links") => {
                    sets.extend(inner.iter().map(|inner| setting(format!("{}.{}", entry.key, inner.key), inner)));
                }
                _ => sets.push(setting(entry.key.clone(), entry)),
            }
        }
        if sets.is_empty() {
            return Err(refuse("this case sets nothing".into(), item.at));
        }
        sets.iter().try_for_each(|set: &Setting| check_sweepable(&set.key, set.at))?;
        let values = || sets.iter().map(|set| set.value.label()).collect::<Vec<_>>().join(" ");
        Ok(Choice { label: label.unwrap_or_else(values), sets })
    };
    Ok(Axis { name: CASE.to_owned(), choices: items.iter().map(choice).collect::<Result<_, _>>()? })
}

fn setting(key: String, entry: &KeyValue) -> Setting {
    Setting { key, at: entry.value.at, value: entry.value.clone() }
}

/// Splits `a,b` at commas outside brackets and quotes. Parameters stay with their scheme: in
/// `bbr,cubic:beta=0.8,fast=off`, a part `name=value` that follows a part with a colon belongs to that part.
fn split_list(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut quote) = (vec![String::new()], 0u32, None);
    for c in text.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let mut joined: Vec<String> = Vec::with_capacity(parts.len());
    for part in parts {
        let continues = |last: &String| last.contains(':') && !last.starts_with(['{', '[', '"', '\'']);
        match joined.last_mut() {
            Some(last) if continues(last) && part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(&part);
            }
            _ => joined.push(part.trim().to_owned()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists are split at the commas between values, not at commas inside a value.
    #[test]
    fn split_list_keeps_commas_inside_values() {
        assert_eq!(split_list("0.1bdp, 1bdp"), ["0.1bdp", "1bdp"]);
        assert_eq!(split_list("{kind=\"red\",min=\"5pkt\"},codel"), ["{kind=\"red\",min=\"5pkt\"}", "codel"]);
        assert_eq!(split_list("[\"a,b\",\"c\"]"), ["[\"a,b\",\"c\"]"]);
        assert_eq!(split_list("bbr,cubic:beta=0.8,fast=off,reno"), ["bbr", "cubic:beta=0.8,fast=off", "reno"]);
        assert_eq!(split_list("fixed:window=1,fixed:window=2"), ["fixed:window=1", "fixed:window=2"]);
    }
}
