//! Settings of a switch.

use narrows_cc::{Nanos, ParamError, Params, Rate};
use narrows_host::HostError;
use narrows_host::netlink::Netlink;
use narrows_net::config::{Htb, Queue};
use narrows_routers::controller::Config;
use narrows_routers::{Brf, FiveTuple, Router, RouterSetup};

use super::state::AttachedPort;
use super::tc::{self, Side};

/// Minimum patience: on a busy machine decisions are some milliseconds late.
const PATIENCE_LEAST: Nanos = Nanos::from_millis(20);

/// Traffic of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Acknowledgements arrive through the port.
    Acks,
    /// Data leaves through the port into the bottleneck, and acknowledgements arrive through it.
    Bottleneck,
    /// Acknowledgements leave through the port to the senders. With such ports, acknowledgements get their rates only
    /// there. A user-space switch, such as Open vSwitch's user-space datapath, receives packets before a program on the
    /// ingress could change them.
    Senders,
}

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// The interface.
    pub name: String,
    /// The port's traffic.
    pub role: Role,
}

/// Settings of a switch.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The switch's ports, of which one is the bottleneck.
    pub ports: Vec<PortSettings>,
    /// Capacity of the bottleneck, counted in IP packets.
    pub rate: Rate,
    /// Packets that may wait in each class.
    pub buffer: u32,
    /// Parameters of the router algorithm.
    pub params: Params,
    /// The minimum of Δt.
    pub period_min: Nanos,
    /// Age of the last decision beyond which programs write no rates.
    pub patience: Nanos,
    /// The built-in controller; `None`: an external controller.
    pub controller: Option<Config>,
    /// Address for an external controller: `host:port` or `unix:PATH`.
    pub control: Option<String>,
}

impl Settings {
    /// A switch with the defaults of real ports: Δt of at least 5 ms, a patience of 500 ms, a built-in controller that
    /// polls once per second, and queues drained at every allocation.
    pub fn new(ports: Vec<PortSettings>, rate: Rate) -> Self {
        let mut params = Params::defaults(Brf::INFO.params);
        // Senders on real hosts pace less exactly than simulated ones.
        let set = params.set("drain", 1.0);
        debug_assert!(set.is_ok(), "the router has this parameter");
        Self {
            ports,
            rate,
            buffer: 1000,
            params,
            period_min: Nanos::from_millis(5),
            patience: Nanos::from_millis(500),
            controller: Some(Config::default()),
            control: None,
        }
    }

    /// Sets a parameter of the router algorithm from text.
    ///
    /// # Errors
    /// If there is no such parameter, or the value is refused.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), HostError> {
        let number = match value {
            "true" => Ok(1.0),
            "false" => Ok(0.0),
            other => other.parse::<f64>().map_err(|_| ()),
        };
        let refused = |reason: String| HostError::Unsupported(format!("--set {name}={value}: {reason}"));
        let number = number.map_err(|()| refused("not a number; accepted: a number, true, false".to_owned()))?;
        self.params.set(name, number).map_err(|error| {
            refused(match error {
                ParamError::Unknown => {
                    let names: Vec<&str> = Brf::INFO.params.iter().map(|param| param.name).collect();
                    format!("no such parameter; accepted: {}", names.join(", "))
                }
                ParamError::OutOfRange(own) => format!("accepted: {} to {} {}", own.min, own.max, own.unit),
                ParamError::Fraction(own) => format!("accepted: whole numbers from {} to {}", own.min, own.max),
            })
        })
    }

    /// The bottleneck.
    pub(super) fn bottleneck(&self) -> Result<&PortSettings, HostError> {
        let mut found = self.ports.iter().filter(|port| port.role == Role::Bottleneck);
        match (found.next(), found.next()) {
            (Some(port), None) => Ok(port),
            _ => Err(HostError::Unsupported(format!(
                "{} ports are bottlenecks; accepted: one, as --port IF:bottleneck (a switch per bottleneck)",
                self.ports.iter().filter(|port| port.role == Role::Bottleneck).count()
            ))),
        }
    }

    /// Whether acknowledgements get their rates at the egress towards senders.
    fn is_written_towards_senders(&self) -> bool {
        self.ports.iter().any(|port| port.role == Role::Senders)
    }

    /// Inputs of the router algorithm, with space for the 5-tuples of all flows.
    pub(super) fn setup(&self) -> RouterSetup {
        let none = FiveTuple { source: 0, destination: 0, source_port: 0, destination_port: 0, protocol: 0 };
        RouterSetup {
            capacity: self.rate,
            params: self.params.clone(),
            flows: vec![none; self.flows() as usize].into(),
            learned: None,
        }
    }

    /// Maximum number of flows.
    pub(super) fn flows(&self) -> u32 {
        self.params.number("flows") as u32
    }

    /// The classes of the router's queue.
    pub(super) fn classes(&self) -> Result<Htb, HostError> {
        match Brf::queue(&self.setup()) {
            Some(Queue::Htb(htb)) => Ok((*htb).clone()),
            _ => Err(HostError::Unsupported(
                "--set classes=false: on ports of Linux the switch needs its classes; accepted: true".to_owned(),
            )),
        }
    }

    /// Refuses settings with which the switch cannot work.
    pub(super) fn check(&self) -> Result<(), HostError> {
        if self.patience >= PATIENCE_LEAST {
            return Ok(());
        }
        Err(HostError::Unsupported(format!(
            "--patience {}ms: the programs would give up between two decisions; accepted: {}ms or more",
            self.patience.as_millis_f64(),
            PATIENCE_LEAST.as_millis_f64()
        )))
    }

    /// The ports of this machine.
    ///
    /// # Errors
    /// If a port does not exist, or cannot be used.
    pub(super) fn resolve(&self) -> Result<Vec<AttachedPort>, HostError> {
        self.bottleneck()?;
        let mut netlink = Netlink::route().map_err(|error| HostError::step("open a netlink socket", error))?;
        let mut found: Vec<AttachedPort> = Vec::new();
        for port in &self.ports {
            let refused = |reason: String| HostError::Unsupported(format!("--port {}: {reason}", port.name));
            let (index, ethernet) = tc::interface(&port.name)
                .map_err(|error| refused(format!("no such interface in this network namespace ({error})")))?;
            if !ethernet {
                return Err(refused("not an Ethernet device; accepted: Ethernet, veth, TAP".to_owned()));
            }
            if found.iter().any(|other| other.index == index) {
                return Err(refused("stated twice".to_owned()));
            }
            if port.role == Role::Acks && self.is_written_towards_senders() {
                return Err(refused(
                    "rates are written at the ports IF:senders only; accepted: all ports towards senders as IF:senders"
                        .to_owned(),
                ));
            }
            let root = tc::root(&mut netlink, index).map_err(|error| HostError::step("list queues", error))?;
            if let (true, Some((kind, handle))) = (port.role == Role::Bottleneck, root)
                && handle != 0
                && handle != tc::HANDLE
            {
                return Err(refused(format!(
                    "it has a queue of its own (`{kind}`); accepted: the default queue (`tc qdisc del dev {} root`)",
                    port.name
                )));
            }
            found.push(AttachedPort {
                name: port.name.clone(),
                index,
                bottleneck: port.role == Role::Bottleneck,
                acks: match port.role {
                    Role::Senders => Some(Side::Egress),
                    _ if self.is_written_towards_senders() => None,
                    _ => Some(Side::Ingress),
                },
                hook: false,
            });
        }
        Ok(found)
    }

    /// See [`super::plan`].
    pub(super) fn plan(&self) -> Result<Vec<String>, HostError> {
        self.check()?;
        let htb = self.classes()?;
        let mut lines = Vec::new();
        let mbit = |rate: Rate| rate.as_bytes_per_sec() as f64 * 8e-6;
        for port in self.resolve()? {
            let name = &port.name;
            if let Some(side) = port.acks {
                lines.push(format!("{name}: filter brf_ack on {side} (clsact), writes rates into ACKs"));
            }
            if port.bottleneck {
                lines.push(format!("{name}: filter brf_data on egress (clsact), counts flows and selects classes"));
                lines.push(format!("{name}: root queue htb 4252: with {:.3} Mbit/s", mbit(self.rate)));
                for (i, class) in htb.classes().iter().enumerate() {
                    let parent = class.parent.map_or("4252:1".to_owned(), |parent| minor(usize::from(parent)));
                    let policed = if class.policed { ", policed" } else { "" };
                    lines.push(format!("{name}: class {} `{}` below {parent}{policed}", minor(i), class.name));
                }
            }
        }
        match (&self.controller, &self.control) {
            (Some(config), _) => lines.push(format!(
                "controller: the switch itself, every {:.3} s, from tc's counters",
                config.poll.as_secs_f64()
            )),
            (None, Some(address)) => lines.push(format!("controller: external, messages at {address}")),
            (None, None) => lines.push("controller: none".to_owned()),
        }
        Ok(lines)
    }
}

/// A class as `tc` writes it.
fn minor(class: usize) -> String {
    format!("4252:{:x}", tc::FIRST_MINOR + class as u32)
}
