//! `setsockopt` and `getsockopt`.

use narrows_cc::Nanos;

use super::{Host, Outcome};
use crate::connection::{mss_option, receive_space, size_of_option};
use crate::script::{Call, Problem, Value};

/// Options that are accepted and have no effect here: addresses, buffers, routes.
const HARMLESS: &str = "SO_REUSEADDR SO_REUSEPORT SO_SNDBUFFORCE SO_RCVBUFFORCE SO_KEEPALIVE SO_PRIORITY SO_MARK \
    IP_TOS IP_TTL IP_MTU_DISCOVER IP_FREEBIND TCP_QUICKACK TCP_NOTSENT_LOWAT TCP_SYNCNT TCP_KEEPIDLE \
    TCP_KEEPINTVL TCP_KEEPCNT TCP_DEFER_ACCEPT";

/// Options with an effect here.
const KEPT: &str = "TCP_NODELAY TCP_CORK TCP_MAXSEG TCP_CONGESTION TCP_INQ TCP_USER_TIMEOUT SO_TIMESTAMPING SO_ERROR \
    SO_SNDBUF SO_RCVBUF";

/// Whether the host knows a socket option.
pub(super) fn is_known(name: &str) -> bool {
    KEPT.split(' ').chain(HARMLESS.split(' ')).any(|own| own == name)
}

impl Host {
    /// Sets a socket option.
    pub(super) fn set_option(&mut self, now: Nanos, line: usize, file: i64, call: &Call) -> Result<Outcome, Problem> {
        let name = call.args.get(2).and_then(Value::word).unwrap_or("").to_owned();
        let value = call.args.get(3).and_then(|list| list.items().first().or(Some(list)));
        let number = value.and_then(Value::int).unwrap_or(0);
        let connected = self.role(file) == super::Role::Connected;
        let options = &mut self.descriptor(file).options;
        match name.as_str() {
            "SO_SNDBUF" => {
                options.send_buffer = Some(size_of_option(u64::try_from(number).unwrap_or(0)));
            }
            "SO_RCVBUF" => options.receive_space = Some(receive_space(u64::try_from(number).unwrap_or(0))),
            "TCP_NODELAY" => options.nodelay = number != 0,
            "TCP_CORK" => options.cork = number != 0,
            "TCP_MAXSEG" => options.max_segment = u16::try_from(number).ok().filter(|size| *size > 0),
            "TCP_CONGESTION" => {
                let text = match value {
                    Some(Value::Text(text)) => Some(text.clone()),
                    Some(Value::Words(words)) => words.first().cloned(),
                    _ => None,
                };
                options.congestion = text;
                if connected {
                    return Err(Problem::unsupported(line, "a change of congestion control while connected"));
                }
            }
            "SO_TIMESTAMPING" | "TCP_USER_TIMEOUT" if !connected => {
                return Err(Problem::unsupported(line, format!("{name} before the connection")));
            }
            "SO_TIMESTAMPING" | "TCP_USER_TIMEOUT" => {}
            _ => return Ok(Outcome::Done(Ok(0))),
        }
        if connected && let Some(connection) = &mut self.connection {
            let flag = Some(number != 0);
            match name.as_str() {
                "SO_SNDBUF" => connection.set_send_buffer(size_of_option(u64::try_from(number).unwrap_or(0))),
                "TCP_NODELAY" => connection.set_delay(now, flag, None),
                "TCP_CORK" => connection.set_delay(now, None, flag),
                "SO_TIMESTAMPING" => match value {
                    Some(Value::Words(flags)) => connection.begin_stamps(flags),
                    _ => return Err(Problem::unsupported(line, "SO_TIMESTAMPING without names of flags")),
                },
                // Zero selects the default of the system, which is longer than any script.
                "TCP_USER_TIMEOUT" => connection.set_patience(match number {
                    1.. => Nanos::from_millis(number as u64),
                    _ => Nanos::MAX,
                }),
                _ => return Err(Problem::unsupported(line, format!("{name} of a connection that is open"))),
            }
        }
        Ok(Outcome::Done(Ok(0)))
    }

    /// Reads a socket option, and compares its value if the host stores this option.
    pub(super) fn option(&mut self, line: usize, file: i64, call: &Call) -> Result<Outcome, Problem> {
        let name = call.args.get(2).and_then(Value::word).unwrap_or("").to_owned();
        let connected = self.role(file) == super::Role::Connected;
        let open = self.connection.as_ref().filter(|_| connected);
        let options = self.descriptors.get(&file).map(|own| &own.options);
        let seen = match name.as_str() {
            "TCP_MAXSEG" => match open {
                Some(connection) => i64::from(connection.agreed.segment),
                None => i64::from(mss_option(self.mtu, options.and_then(|own| own.max_segment))),
            },
            "TCP_NODELAY" => i64::from(options.is_some_and(|own| own.nodelay)),
            "TCP_CORK" => i64::from(options.is_some_and(|own| own.cork)),
            "SO_ERROR" => 0,
            "SO_SNDBUF" => match options.and_then(|own| own.send_buffer) {
                Some(bytes) => bytes as i64,
                None => return Ok(self.unchecked(call)),
            },
            _ => return Ok(self.unchecked(call)),
        };
        self.compare(line, &name, seen, call.args.get(3))?;
        Ok(Outcome::Done(Ok(0)))
    }
}
