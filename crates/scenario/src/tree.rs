//! A scenario as written: values with their locations, and keys in file order. TOML, JSON and command-line
//! values are all converted to this tree, so that they share one reader and its messages.

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Diagnostic, Location, unknown};
use crate::schema;

/// A value and its location.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) node: Node,
    pub(crate) at: Location,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Null,
    Text(String),
    Integer(i128),
    Float(f64),
    Bool(bool),
    List(Vec<Tree>),
    Table(Vec<KeyValue>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct KeyValue {
    pub(crate) key: String,
    pub(crate) at: Location,
    pub(crate) value: Tree,
}

impl Tree {
    /// Parses a scenario's text, as JSON if its first character is a brace, and otherwise as TOML.
    pub(crate) fn parse(text: &str) -> Result<Self, Diagnostic> {
        if text.trim_start().starts_with('{') {
            return Self::parse_json(text);
        }
        // A JSON list of one string could also be the header of a TOML table.
        match serde_json::from_str::<Vec<Self>>(text).as_deref() {
            Err(_) | Ok([Self { node: Node::Text(_) | Node::List(_), .. }]) => Self::parse_toml(text),
            Ok(_) => {
                let start = text.len() - text.trim_start().len();
                Err(Diagnostic::new("", "found a list")
                    .accepted("an object: {\"network\": {\"rate\": \"100mbit\"}, \"flows\": [{…}]}")
                    .at(Location::Text(start)))
            }
        }
    }

    fn parse_toml(text: &str) -> Result<Self, Diagnostic> {
        let table = DeTable::parse(text).map_err(|error| {
            let start = error.span().map(|span| span.start);
            let at = start.map_or(Location::Unknown, Location::Text);
            let message = match start.is_some_and(|start| lacks_value(text, start)) {
                true => "there is no value after `=`",
                false => error.message(),
            };
            Diagnostic::new("", format!("invalid TOML: {message}"))
                .accepted("TOML: [tables], each key once, and values such as \"100mbit\", 10, true or [1, 2]")
                .at(at)
        })?;
        let at = Location::Text(table.span().start);
        Ok(Self { node: from_table(table.get_ref())?, at })
    }

    fn parse_json(text: &str) -> Result<Self, Diagnostic> {
        serde_json::from_str(text).map_err(|error| {
            let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
            let offset = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            Diagnostic::new("", format!("invalid JSON: {message}"))
                .accepted("JSON: {objects}, and values such as \"100mbit\", 10, true or [1, 2]")
                .at(Location::Text(offset.min(text.len())))
        })
    }

    /// Parses a value from the command line: as TOML if the text is valid TOML, otherwise as a string.
    pub(crate) fn from_command_line(text: &str) -> Self {
        let value = DeValue::parse(text).ok().and_then(|value| match value.get_ref() {
            DeValue::Datetime(_) => None,
            DeValue::Float(float) if !float.as_str().starts_with(|c: char| c.is_ascii_digit() || c == '-') => None,
            value => from_value(value, 0).ok(),
        });
        let mut tree = Self { node: value.unwrap_or_else(|| Node::Text(text.to_owned())), at: Location::CommandLine };
        tree.move_to(Location::CommandLine);
        tree
    }

    /// Sets the location of all values in the tree.
    fn move_to(&mut self, location: Location) {
        self.at = location;
        match &mut self.node {
            Node::List(items) => items.iter_mut().for_each(|item| item.move_to(location)),
            Node::Table(entries) => entries.iter_mut().for_each(|entry| {
                entry.at = location;
                entry.value.move_to(location);
            }),
            _ => {}
        }
    }

    /// The entry of a key, if this value is a table.
    pub(crate) fn get(&self, key: &str) -> Option<&KeyValue> {
        match &self.node {
            Node::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Removes and returns an entry of a table.
    pub(crate) fn take(&mut self, key: &str) -> Option<KeyValue> {
        let Node::Table(entries) = &mut self.node else { return None };
        let index = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(index))
    }

    /// The location of the value at a dotted key; if the key is not stated, the location of the nearest parent that is.
    pub(crate) fn location(&self, key: &str) -> Location {
        let mut here = self;
        for segment in key.split('.') {
            let Some(next) = here.child(segment) else { break };
            here = next;
        }
        here.at
    }

    /// The value of a key in a table, or the item with this number in a list.
    pub(crate) fn child(&self, segment: &str) -> Option<&Self> {
        match &self.node {
            Node::List(items) => items.get(segment.parse::<usize>().ok()?),
            _ => self.get(segment).map(|entry| &entry.value),
        }
    }

    /// Sets the value at a dotted key, and creates missing tables. A list without an index stands for all its items.
    pub(crate) fn set(&mut self, key: &str, value: &Tree, at: Location) -> Result<(), Diagnostic> {
        let path: Vec<&str> = key.split('.').collect();
        if path.iter().any(|segment| segment.is_empty()) {
            return Err(Diagnostic::new(key, "a part of the key is empty")
                .accepted("a dotted key such as network.buffer")
                .at(at));
        }
        self.set_path(&path, 0, value, at)
    }

    fn set_path(&mut self, path: &[&str], depth: usize, value: &Tree, at: Location) -> Result<(), Diagnostic> {
        let Some(&segment) = path.get(depth) else {
            *self = value.clone();
            return Ok(());
        };
        let whole = || path.join(".");
        // `queue = "codel"` is the short form of a table, so `network.queue.target` can be set in it.
        if let (Node::Text(kind), "queue" | "app") = (&self.node, path[depth.saturating_sub(1)]) {
            let value = Tree { node: Node::Text(kind.clone()), at: self.at };
            self.node = Node::Table(vec![KeyValue { key: "kind".into(), at: self.at, value }]);
        }
        match &mut self.node {
            Node::Table(entries) => {
                let index = match entries.iter().position(|entry| entry.key == segment) {
                    Some(index) => index,
                    None if depth + 1 < path.len() && matches!(segment, "flows" | "links") => {
                        return Err(Diagnostic::new(whole(), format!("the scenario has no {segment}"))
                            .accepted("a key of the scenario's own tables")
                            .at(at));
                    }
                    None => {
                        let value = Tree { node: Node::Table(Vec::new()), at };
                        entries.push(KeyValue { key: segment.to_owned(), at, value });
                        entries.len() - 1
                    }
                };
                if depth + 1 == path.len() {
                    entries[index].at = at;
                }
                entries[index].value.set_path(path, depth + 1, value, at)
            }
            Node::List(items) => match segment.parse::<usize>() {
                Ok(index) => {
                    let known = items.len();
                    let item = items.get_mut(index).ok_or_else(|| {
                        Diagnostic::new(whole(), format!("there is no item {index}"))
                            .accepted(format!("an index from 0 to {}", known.saturating_sub(1)))
                            .at(at)
                    })?;
                    item.set_path(path, depth + 1, value, at)
                }
                Err(_) => {
                    let table = path[..depth].join(".");
                    let keys = schema::keys_of_items(&table).unwrap_or_default();
                    if !items.is_empty() && !keys.is_empty() && !keys.contains(&segment) {
                        let last = items.len() - 1;
                        let item = table.trim_end_matches('s');
                        let message = format!("`{segment}` is neither an index (0 to {last}) nor a key of a {item}");
                        return Err(unknown(&message, segment, keys.iter().copied()).within(&whole()).at(at));
                    }
                    items.iter_mut().try_for_each(|item| item.set_path(path, depth, value, at))
                }
            },
            _ => {
                let parent = path[..depth].join(".");
                Err(Diagnostic::new(whole(), "this value has no keys").accepted(format!("`{parent}` itself")).at(at))
            }
        }
    }

    /// The value as written, for labels of swept points.
    pub(crate) fn label(&self) -> String {
        match &self.node {
            Node::Text(text) => text.clone(),
            _ => self.to_string(),
        }
    }

    /// The type of the value, with an article, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.node {
            Node::Null => "nothing",
            Node::Text(_) => "a string",
            Node::Integer(_) | Node::Float(_) => "a number",
            Node::Bool(_) => "true or false",
            Node::List(_) => "a list",
            Node::Table(_) => "a table",
        }
    }
}

impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.node {
            Node::Null => f.write_str("null"),
            Node::Text(text) => write!(f, "{text:?}"),
            Node::Integer(value) => write!(f, "{value}"),
            Node::Float(value) => write!(f, "{value}"),
            Node::Bool(value) => write!(f, "{value}"),
            Node::List(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Node::Table(entries) => {
                let entries: Vec<_> = entries.iter().map(|entry| format!("{} = {}", entry.key, entry.value)).collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
        }
    }
}

/// The names in a dotted key, without the numbers of list items: `flows` and `rtt` for `flows.0.rtt`.
pub(crate) fn names_in(key: &str) -> impl Iterator<Item = &str> {
    key.split('.').filter(|segment| segment.parse::<usize>().is_err())
}

/// Whether the text before `start` ends with an equals sign without a value.
fn lacks_value(text: &str, start: usize) -> bool {
    let blank = [' ', '\t'];
    text.split_at_checked(start).is_some_and(|(before, after)| {
        let rest = after.trim_start_matches(blank);
        before.trim_end_matches(blank).ends_with('=')
            && (rest.is_empty() || rest.starts_with(['\n', '\r', '#', ',', '}']))
    })
}

fn from_table(table: &DeTable<'_>) -> Result<Node, Diagnostic> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        // The span of a table covers only its header, and covers nothing if the table is implied, so use the
        // span of its key.
        let key_at = key.span().start;
        let at = if value.get_ref().is_table() { key_at } else { value.span().start };
        let node =
            from_value(value.get_ref(), value.span().start).map_err(|diagnostic| diagnostic.within(key.get_ref()))?;
        let value = Tree { node, at: Location::Text(at) };
        entries.push((key_at, KeyValue { key: key.get_ref().to_string(), at: Location::Text(key_at), value }));
    }
    entries.sort_by_key(|&(at, _)| at);
    Ok(Node::Table(entries.into_iter().map(|(_, entry)| entry).collect()))
}

fn from_value(value: &DeValue<'_>, at: usize) -> Result<Node, Diagnostic> {
    Ok(match value {
        DeValue::String(text) => Node::Text(text.to_string()),
        DeValue::Integer(integer) => {
            let digits = integer.as_str().replace('_', "");
            Node::Integer(i128::from_str_radix(&digits, integer.radix()).map_err(|_| {
                Diagnostic::new("", format!("`{digits}` is out of range"))
                    .accepted("a smaller number")
                    .at(Location::Text(at))
            })?)
        }
        DeValue::Float(float) => {
            let digits = float.as_str().replace('_', "");
            let value: f64 = digits.parse().unwrap_or(f64::NAN);
            if !value.is_finite() {
                return Err(Diagnostic::new("", format!("`{digits}` is not a finite number"))
                    .accepted("a finite number")
                    .at(Location::Text(at)));
            }
            Node::Float(value)
        }
        DeValue::Boolean(value) => Node::Bool(*value),
        DeValue::Datetime(datetime) => Node::Text(datetime.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| {
                let at = item.span().start;
                Ok(Tree { node: from_value(item.get_ref(), at)?, at: Location::Text(at) })
            });
            Node::List(items.collect::<Result<_, Diagnostic>>()?)
        }
        DeValue::Table(table) => from_table(table)?,
    })
}

struct TreeVisitor;

impl<'de> de::Deserialize<'de> for Tree {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree { node: Node::Bool(value), at: Location::Unknown })
    }
    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree { node: Node::Integer(value.into()), at: Location::Unknown })
    }
    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree { node: Node::Integer(value.into()), at: Location::Unknown })
    }
    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree { node: Node::Float(value), at: Location::Unknown })
    }
    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree { node: Node::Text(value.to_owned()), at: Location::Unknown })
    }
    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree { node: Node::Null, at: Location::Unknown })
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree { node: Node::List(items), at: Location::Unknown })
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Tree>()? {
            // Front ends may send null for keys that are not stated, so ignore null.
            if !matches!(value.node, Node::Null) {
                entries.push(KeyValue { key, at: Location::Unknown, value });
            }
        }
        Ok(Tree { node: Node::Table(entries), at: Location::Unknown })
    }
}
