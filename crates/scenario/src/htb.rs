//! The classes of a hierarchical token bucket, checked and resolved.

use narrows_cc::{Bytes, Nanos, Rate, schemes};
use narrows_net::config::{self, HtbClass, HtbError};

use crate::diagnostic::{Diagnostic, refuse, unknown};
use crate::keys;
use crate::quantity;
use crate::schema::class::Class;
use crate::schema::value::Protocol;

/// Properties by which a connection matches classes.
pub(crate) struct Member<'a> {
    /// The connection's label, and the label of its entry in `flows`.
    pub(crate) labels: [&'a str; 2],
    pub(crate) scheme: &'static schemes::Entry,
    pub(crate) protocol: Protocol,
    /// Whether any of the connection's paths uses the link.
    pub(crate) crosses: bool,
}

/// Properties of a queue's link.
pub(crate) struct Place<'a> {
    pub(crate) rate: Rate,
    /// The RTT from which the link's bandwidth-delay product is computed.
    pub(crate) rtt: Nanos,
    /// Size of a full packet.
    pub(crate) packet: Bytes,
    /// All connections, in order.
    pub(crate) members: Vec<Member<'a>>,
}

/// Resolves the classes of a queue.
struct Reader<'a> {
    table: &'a str,
    classes: &'a [Class],
    place: &'a Place<'a>,
}

/// Resolves the hierarchical token bucket in `table`.
pub(crate) fn queue(
    table: &str,
    classes: &[Class],
    default: Option<&str>,
    place: &Place<'_>,
) -> Result<config::Htb, Diagnostic> {
    let key = format!("{table}.classes");
    if classes.is_empty() || classes.len() > config::Htb::MAX_CLASSES {
        let accepted = format!("1 to {} tables such as {{ name = \"a\", rate = \"5mbit\" }}", config::Htb::MAX_CLASSES);
        return refuse(key, format!("{} classes", classes.len()), accepted);
    }
    let reader = Reader { table, classes, place };
    let parents = reader.parents()?;
    let resolved = (0..classes.len()).map(|class| reader.class(class, &parents));
    let resolved: Vec<HtbClass> = resolved.collect::<Result<_, _>>()?;
    reader.check_sums(&parents)?;
    let flows = reader.flows(&parents)?;
    let default = reader.default(default, &parents, &flows)?;
    let flows = flows.iter().map(|class| class.unwrap_or(default)).collect();
    let htb = config::Htb::new(resolved, default).map_err(|error| reader.refuse(error))?;
    Ok(htb.with_flows(flows))
}

impl Reader<'_> {
    fn key(&self, class: usize, name: &str) -> String {
        format!("{}.classes.{class}.{name}", self.table)
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.classes.iter().map(|class| class.name.as_str())
    }

    /// The index of each class's parent.
    fn parents(&self) -> Result<Vec<Option<usize>>, Diagnostic> {
        for (number, class) in self.classes.iter().enumerate() {
            if self.names().take(number).any(|name| name == class.name) {
                let message = format!("two classes have the name `{}`", class.name);
                return refuse(self.key(number, "name"), message, "a unique name");
            }
        }
        let parent = |(number, class): (usize, &Class)| {
            let Some(parent) = &class.parent else { return Ok(None) };
            self.names().position(|name| name == parent).map(Some).ok_or_else(|| {
                let others = self.names().filter(|name| *name != class.name);
                unknown(&format!("there is no class `{parent}`"), parent, others).within(&self.key(number, "parent"))
            })
        };
        let parents: Vec<_> = self.classes.iter().enumerate().map(parent).collect::<Result<_, _>>()?;
        for (number, class) in self.classes.iter().enumerate() {
            // Take at most as many steps as there are classes, because the parents may form a cycle.
            let above = std::iter::successors(parents[number], |&above| parents[above]);
            let mut steps = above.take(self.classes.len());
            if steps.any(|above| above == number) {
                let message = format!("`{}` is its own ancestor", class.name);
                return refuse(self.key(number, "parent"), message, "a class that is not below it, or omit this key");
            }
        }
        Ok(parents)
    }

    fn class(&self, number: usize, parents: &[Option<usize>]) -> Result<HtbClass, Diagnostic> {
        let class = &self.classes[number];
        let key = |name: &str| self.key(number, name);
        let packet = self.place.packet;
        let stray = |keys: &[(&str, bool)], message: String, accepted: &str| {
            let found = keys.iter().find(|(_, stated)| *stated);
            found.map_or(Ok(()), |(name, _)| refuse(key(name), message, accepted))
        };
        let policed = class.policed.unwrap_or(false);
        if parents.contains(&Some(number)) {
            let keys = [
                ("quantum", class.quantum.is_some()),
                ("buffer", class.buffer.is_some()),
                ("policed", policed),
                ("flows", class.flows.is_some()),
                ("schemes", class.schemes.is_some()),
                ("protocol", class.protocol.is_some()),
            ];
            let message = format!("`{}` has children, and only classes without children hold packets", class.name);
            stray(&keys, message, "this key in a class without children")?;
        }
        let rate = if policed {
            let keys = [("ceil", class.ceil.is_some()), ("ceil_burst", class.ceil_burst.is_some())];
            stray(&keys, format!("`{}` is policed and sends no more than its rate", class.name), "rate and burst")?;
            if class.burst.is_none() {
                return refuse(key("burst"), "a policed class requires this key", "a size such as 15kB");
            }
            keys::rate(&key("rate"), &class.rate)?
        } else {
            class.rate.value()
        };
        let at_least_a_packet = |name: &str, size: &quantity::Size| match size.value() {
            bytes if bytes < packet => {
                refuse(key(name), format!("`{size}` is less than a packet"), format!("at least {}B", packet.as_u64()))
            }
            bytes => Ok(bytes),
        };
        let size = |name: &str, size: &Option<quantity::Size>| {
            size.as_ref().map(|size| at_least_a_packet(name, size)).transpose()
        };
        let ceil = match &class.ceil {
            Some(ceil) if ceil.value() < rate => {
                let message = format!("`{ceil}` is less than the rate, `{}`", class.rate);
                return refuse(key("ceil"), message, "at least the rate");
            }
            Some(ceil) => Some(keys::rate(&key("ceil"), ceil)?),
            None => policed.then_some(rate),
        };
        let quantum = match size("quantum", &class.quantum)? {
            Some(bytes) => Some(u32::try_from(bytes.as_u64()).map_err(|_| {
                Diagnostic::new(key("quantum"), format!("`{}` bytes is out of range", bytes.as_u64()))
                    .accepted("less than 4GiB")
            })?),
            None => None,
        };
        if let Some(priority) = class.priority.filter(|&priority| priority >= config::Htb::PRIORITIES) {
            return refuse(key("priority"), format!("`{priority}` is out of range"), "0 to 7");
        }
        let burst = size("burst", &class.burst)?;
        let limit = class.buffer.as_ref();
        Ok(HtbClass {
            parent: parents[number].map(|parent| parent as u8),
            ceil,
            priority: class.priority.unwrap_or(0),
            quantum,
            burst,
            ceil_burst: if policed { burst } else { size("ceil_burst", &class.ceil_burst)? },
            limit: limit
                .map(|buffer| keys::limit(&key("buffer"), "in this class", buffer, rate, self.place.rtt, packet))
                .transpose()?,
            policed,
            ..HtbClass::new(class.name.clone(), rate)
        })
    }

    /// Rejects assured rates that add up to more than the parent's rate or, at the top level, the link's rate.
    fn check_sums(&self, parents: &[Option<usize>]) -> Result<(), Diagnostic> {
        let sum = |parent: Option<usize>| {
            let children = (0..parents.len()).filter(|&child| parents[child] == parent);
            children.map(|child| self.classes[child].rate.value()).fold(Rate::ZERO, |sum, rate| {
                Rate::from_bytes_per_sec(sum.as_bytes_per_sec().saturating_add(rate.as_bytes_per_sec()))
            })
        };
        let show = |rate: Rate| format!("{}mbit", rate.as_mbit_per_sec());
        for (number, class) in self.classes.iter().enumerate() {
            let children = sum(Some(number));
            if children > class.rate.value() {
                let message = format!("`{}` is less than the rates of its children, {}", class.rate, show(children));
                return refuse(self.key(number, "rate"), message, "at least their sum, or children with lower rates");
            }
        }
        let all = sum(None);
        if all > self.place.rate {
            let message = format!("rates of {} in total, but the link carries {}", show(all), show(self.place.rate));
            return refuse(
                format!("{}.classes", self.table),
                message,
                "top-level rates that add up to at most the link's rate",
            );
        }
        Ok(())
    }

    /// The class of each flow, according to the flow's properties; `None` if no class matches.
    fn flows(&self, parents: &[Option<usize>]) -> Result<Vec<Option<u8>>, Diagnostic> {
        let members = &self.place.members;
        for (number, class) in self.classes.iter().enumerate() {
            for (place, label) in class.flows.iter().flatten().enumerate() {
                if !members.iter().any(|member| member.labels.contains(&label.as_str())) {
                    let mut known: Vec<_> = members.iter().map(|member| member.labels[1]).collect();
                    known.dedup();
                    return Err(unknown(&format!("there is no flow `{label}`"), label, known.into_iter())
                        .within(&self.key(number, &format!("flows.{place}"))));
                }
            }
            for (place, name) in class.schemes.iter().flatten().enumerate() {
                if schemes::find(name).is_none() {
                    let known = schemes::ALL.iter().map(|entry| entry.info.name);
                    return Err(unknown(&format!("there is no scheme `{name}`"), name, known)
                        .within(&self.key(number, &format!("schemes.{place}"))));
                }
            }
        }
        let belongs = |member: &Member<'_>, number: usize| {
            let class = &self.classes[number];
            let states = class.flows.is_some() || class.schemes.is_some() || class.protocol.is_some();
            let labelled = |labels: &Vec<String>| labels.iter().any(|label| member.labels.contains(&label.as_str()));
            let of_scheme = |names: &Vec<String>| {
                let found = names.iter().filter_map(|name| schemes::find(name));
                found.into_iter().any(|entry| entry.info.name == member.scheme.info.name)
            };
            states
                && !parents.contains(&Some(number))
                && class.flows.as_ref().is_none_or(labelled)
                && class.schemes.as_ref().is_none_or(of_scheme)
                && class.protocol.is_none_or(|protocol| protocol == member.protocol)
        };
        let class_of = |member| (0..self.classes.len()).find(|&number| belongs(member, number));
        Ok(members.iter().map(|member| class_of(member).map(|number| number as u8)).collect())
    }

    /// The class of flows that match no class.
    fn default(&self, stated: Option<&str>, parents: &[Option<usize>], flows: &[Option<u8>]) -> Result<u8, Diagnostic> {
        let key = format!("{}.default", self.table);
        let leaf = |number: &usize| !parents.contains(&Some(*number));
        let mut leaves = (0..self.classes.len()).filter(leaf);
        let Some(name) = stated else {
            let mut lost =
                self.place.members.iter().zip(flows).filter(|(member, class)| member.crosses && class.is_none());
            return match lost.next() {
                Some((member, _)) => refuse(
                    key,
                    format!("flow `{}` belongs to no class", member.labels[0]),
                    "a class for such flows, or a class whose flows, schemes and protocol match it",
                ),
                None => Ok(leaves.next().unwrap_or(0) as u8),
            };
        };
        let names: Vec<_> = leaves.map(|number| self.classes[number].name.as_str()).collect();
        match self.names().position(|class| class == name) {
            Some(number) if leaf(&number) => Ok(number as u8),
            Some(_) => refuse(
                key,
                format!("`{name}` has children, and only classes without children hold packets"),
                names.join(", "),
            ),
            None => Err(unknown(&format!("there is no class `{name}`"), name, names.into_iter()).within(&key)),
        }
    }

    /// The diagnostic for a class tree that `narrows-net` refuses, for example because the tree is too deep.
    fn refuse(&self, error: HtbError) -> Diagnostic {
        let most = config::Htb::MAX_DEPTH;
        let (key, message) = match error {
            HtbError::TooDeep(class) => {
                let name = &self.classes[usize::from(class)].name;
                let message = format!("`{name}` has more than {} ancestors", most - 1);
                (self.key(usize::from(class), "parent"), message)
            }
            _ => (format!("{}.classes", self.table), error.to_string()),
        };
        Diagnostic::new(key, message).accepted(format!("at most {most} levels of classes"))
    }
}
