//! System calls, except for `setsockopt` and `getsockopt`.

use narrows_cc::Nanos;

use super::{Descriptor, Host, Outcome, Role, messages, options};
use crate::connection::{Connection, Stage};
use crate::script::{Call, Problem, Value};

/// Flags of `send` and `recv` that the host supports or that have no effect here.
const FLAGS: &[&str] = &["MSG_NOSIGNAL", "MSG_DONTWAIT", "MSG_MORE", "MSG_EOR", "MSG_WAITALL", "MSG_ERRQUEUE", "0"];
/// Supported system calls.
const CALLS: &str = "socket bind listen accept connect write send sendto writev sendmsg read recv recvfrom readv \
    recvmsg close shutdown setsockopt getsockopt fcntl ioctl open sendfile poll epoll_ctl epoll_wait epoll_create \
    epoll_create1";
/// Errors of the system call interface.
const INTERFACE_ERRORS: &[&str] =
    &["EFAULT", "EINVAL", "EBADF", "ENOTSOCK", "EOPNOTSUPP", "ENOPROTOOPT", "EPROTONOSUPPORT"];
/// Supported requests of `ioctl`.
const REQUESTS: &[&str] = &["SIOCINQ", "FIONREAD", "SIOCOUTQ", "TIOCOUTQ", "SIOCOUTQNSD"];

/// Reason why the host cannot execute a call, if any.
pub(crate) fn unsupported(call: &Call) -> Option<String> {
    let word = |at: usize| call.args.get(at).and_then(Value::word).unwrap_or("");
    let (_, flags) = call.sizes();
    if let Some(error) = call.errno.as_deref().filter(|error| INTERFACE_ERRORS.contains(error)) {
        return Some(format!("the error {error} of {}(), which never reaches TCP", call.name));
    }
    if let Some(flag) = flags.iter().find(|flag| !FLAGS.contains(&flag.as_str())) {
        return Some(format!("{}() with {flag}", call.name));
    }
    match call.name.as_str() {
        "socket" if word(0) == "AF_INET6" => Some("IPv6".to_owned()),
        "socket" => {
            let stream = call.args.get(1).is_some_and(|kind| kind.has("SOCK_STREAM"));
            let tcp = call.args.get(2).is_none_or(|kind| kind.has("IPPROTO_TCP") || kind.int() == Some(0));
            (!stream || !tcp).then(|| "a socket that is not TCP".to_owned())
        }
        "setsockopt" | "getsockopt" => (!options::is_known(word(2))).then(|| format!("socket option {}", word(2))),
        "ioctl" => (!REQUESTS.contains(&word(1))).then(|| format!("ioctl() with {}", word(1))),
        "recvmsg" => {
            let known = |message: &&Value| {
                let kind = message.field("cmsg_type").and_then(Value::word).unwrap_or("");
                messages::KINDS.contains(&kind)
            };
            let unknown = call.ancillary().iter().find(|message| !known(message));
            unknown.map(|_| "ancillary data of recvmsg() of another kind".to_owned())
        }
        name => (!CALLS.split(' ').any(|own| own == name)).then(|| format!("system call {name}()")),
    }
}

type Result = std::result::Result<Outcome, Problem>;

impl Host {
    /// Executes a system call. A call that blocked is executed again until it returns.
    pub(super) fn attempt(&mut self, now: Nanos, line: usize, call: &Call) -> Result {
        let outcome = self.execute(now, line, call);
        self.collect(now);
        outcome
    }

    fn execute(&mut self, now: Nanos, line: usize, call: &Call) -> Result {
        let args = &call.args;
        let file = args.first().and_then(Value::int).unwrap_or(-1);
        match call.name.as_str() {
            "socket" => Ok(self.socket(call)),
            "bind" => Ok(Outcome::Done(Ok(0))),
            "listen" => {
                self.descriptor(file).role = Role::Listener;
                Ok(Outcome::Done(Ok(0)))
            }
            "accept" => Ok(self.accept(file, call)),
            "connect" => self.connect(now, line, file),
            "write" | "send" | "sendto" | "writev" | "sendmsg" | "sendfile" => Ok(self.write(now, file, call)),
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => self.read(line, file, call),
            "close" => Ok(self.close(now, file)),
            "shutdown" => Ok(self.shutdown(now, args)),
            "setsockopt" => self.set_option(now, line, file, call),
            "getsockopt" => self.option(line, file, call),
            "fcntl" => {
                if args.get(1).is_some_and(|command| command.has("F_SETFL")) {
                    self.descriptor(file).options.nonblocking = args[2].has("O_NONBLOCK");
                    return Ok(Outcome::Done(Ok(0)));
                }
                Ok(Outcome::Done(Ok(call.result.unwrap_or(0))))
            }
            "ioctl" => self.ioctl(line, call),
            "poll" | "epoll_ctl" | "epoll_wait" => Ok(self.unchecked(call)),
            "open" | "epoll_create" | "epoll_create1" => {
                let file = call.result.unwrap_or(-1);
                self.descriptors.insert(file, Descriptor { role: Role::Other, ..Descriptor::default() });
                Ok(Outcome::Done(Ok(file)))
            }
            name => Err(Problem::unsupported(line, format!("system call {name}()"))),
        }
    }

    /// The descriptor with this number.
    pub(super) fn descriptor(&mut self, file: i64) -> &mut Descriptor {
        self.descriptors.entry(file).or_default()
    }

    pub(super) fn role(&self, file: i64) -> Role {
        self.descriptors.get(&file).map_or(Role::Fresh, |own| own.role)
    }

    /// Records a call whose result is not compared.
    pub(super) fn unchecked(&mut self, call: &Call) -> Outcome {
        if !self.unchecked.contains(&call.name) {
            self.unchecked.push(call.name.clone());
        }
        Outcome::Unchecked
    }

    fn socket(&mut self, call: &Call) -> Outcome {
        let file = call.result.unwrap_or(-1);
        self.descriptors.insert(file, Descriptor::default());
        Outcome::Done(Ok(file))
    }

    /// Accepts the connection if its handshake is complete. The number of the new descriptor is the script's result.
    fn accept(&mut self, listener: i64, call: &Call) -> Outcome {
        if !self.waiting || !self.is_established() {
            return if self.descriptor(listener).options.nonblocking {
                Outcome::Done(Err("EAGAIN"))
            } else {
                Outcome::Blocks
            };
        }
        self.waiting = false;
        let options = self.descriptor(listener).options.clone();
        let file = call.result.unwrap_or(-1);
        self.descriptors.insert(file, Descriptor { options, role: Role::Connected });
        Outcome::Done(Ok(file))
    }

    fn connect(&mut self, now: Nanos, line: usize, file: i64) -> Result {
        let own = self.descriptor(file);
        let (options, role) = (own.options.clone(), own.role);
        if role == Role::Connected {
            return Ok(match self.connection.as_ref().map(|own| own.stage) {
                Some(Stage::SynSent) if options.nonblocking => Outcome::Done(Err("EALREADY")),
                Some(Stage::SynSent) => Outcome::Blocks,
                Some(Stage::Gone) | None => Outcome::Done(Err("ECONNREFUSED")),
                Some(_) => Outcome::Done(Ok(0)),
            });
        }
        own.role = Role::Connected;
        let setup = self.setup(line, &options)?;
        self.connection = Some(Connection::connect(now, setup));
        Ok(if options.nonblocking { Outcome::Done(Err("EINPROGRESS")) } else { Outcome::Blocks })
    }

    /// Writes as much as the send buffer accepts if its size was set, otherwise the script's number of bytes: a kernel
    /// sizes buffers according to its memory.
    fn write(&mut self, now: Nanos, file: i64, call: &Call) -> Outcome {
        let (bytes, flags) = call.sizes();
        let has = |flag: &str| flags.iter().any(|own| own == flag);
        let own = self.descriptor(file);
        let blocking = !own.options.nonblocking && !has("MSG_DONTWAIT");
        let (sized, connected) = (own.options.send_buffer.is_some(), own.role == Role::Connected);
        let Some(connection) = self.connection.as_mut().filter(|_| connected) else {
            return Outcome::Done(Err("EPIPE"));
        };
        if connection.is_writing() {
            // This is the blocked call, executed again.
            return connection.end_write(true).map_or(Outcome::Blocks, |taken| Outcome::Done(Ok(taken as i64)));
        }
        match connection.stage {
            Stage::Established if !connection.is_finished() => {}
            Stage::SynSent | Stage::SynReceived => return Outcome::Done(Err("EAGAIN")),
            _ if std::mem::take(&mut connection.timed_out) => return Outcome::Done(Err("ETIMEDOUT")),
            _ => return Outcome::Done(Err("EPIPE")),
        }
        if sized {
            connection.write(now, bytes, has("MSG_MORE"), has("MSG_EOR"));
            return match connection.end_write(blocking) {
                None => Outcome::Blocks,
                Some(0) if bytes > 0 => Outcome::Done(Err("EAGAIN")),
                Some(taken) => Outcome::Done(Ok(taken as i64)),
            };
        }
        let most = call.result.and_then(|result| u64::try_from(result).ok());
        let accepted = most.map_or(bytes, |most| most.min(bytes));
        connection.write(now, accepted, has("MSG_MORE"), has("MSG_EOR"));
        connection.end_write(false);
        if accepted < bytes {
            return self.unchecked(call);
        }
        Outcome::Done(Ok(accepted as i64))
    }

    fn read(&mut self, line: usize, file: i64, call: &Call) -> Result {
        let (bytes, flags) = call.sizes();
        if flags.iter().any(|flag| flag == "MSG_ERRQUEUE") {
            return self.read_stamp(line, call);
        }
        let outcome = self.take(file, bytes);
        if matches!(outcome, Outcome::Done(Ok(_))) {
            self.compare_readable(line, call)?;
        }
        Ok(outcome)
    }

    /// Reads up to `bytes` of the received data.
    fn take(&mut self, file: i64, bytes: u64) -> Outcome {
        let own = self.descriptor(file);
        let nonblocking = own.options.nonblocking;
        let connected = own.role == Role::Connected;
        let Some(connection) = self.connection.as_mut().filter(|_| connected) else {
            return Outcome::Done(Err("ENOTCONN"));
        };
        let taken = bytes.min(connection.readable);
        connection.readable -= taken;
        if taken > 0 || connection.peer_finished || connection.shut_for_reading {
            Outcome::Done(Ok(taken as i64))
        } else if connection.stage == Stage::Gone {
            Outcome::Done(Err("ECONNRESET"))
        } else if nonblocking {
            Outcome::Done(Err("EAGAIN"))
        } else {
            Outcome::Blocks
        }
    }

    fn close(&mut self, now: Nanos, file: i64) -> Outcome {
        let known = self.descriptors.remove(&file);
        if known.is_some_and(|own| own.role == Role::Connected)
            && let Some(connection) = &mut self.connection
        {
            connection.close(now);
        }
        Outcome::Done(Ok(0))
    }

    fn shutdown(&mut self, now: Nanos, args: &[Value]) -> Outcome {
        let Some(connection) = &mut self.connection else {
            return Outcome::Done(Err("ENOTCONN"));
        };
        let has = |word: &str| args.get(1).is_some_and(|how| how.has(word));
        if has("SHUT_RD") || has("SHUT_RDWR") {
            connection.shut_for_reading = true;
        }
        if has("SHUT_WR") || has("SHUT_RDWR") {
            connection.finish(now);
        }
        Outcome::Done(Ok(0))
    }

    fn ioctl(&mut self, line: usize, call: &Call) -> Result {
        let has = |word: &str| call.args.get(1).is_some_and(|request| request.has(word));
        let Some(connection) = &self.connection else {
            return Ok(Outcome::Done(Err("ENOTCONN")));
        };
        let seen = if has("SIOCINQ") || has("FIONREAD") {
            connection.readable
        } else if has("SIOCOUTQ") || has("TIOCOUTQ") {
            connection.queued()
        } else {
            connection.sender.info().unsent.as_u64()
        };
        self.compare(line, "ioctl", seen as i64, call.args.get(2))?;
        Ok(Outcome::Done(Ok(0)))
    }

    /// Compares a value that a call stores with the script's value.
    pub(super) fn compare(
        &self,
        line: usize,
        what: &str,
        seen: i64,
        expected: Option<&Value>,
    ) -> std::result::Result<(), Problem> {
        let value = expected.and_then(|value| value.items().first().or(Some(value))).and_then(Value::int);
        match value {
            Some(value) if value != seen => {
                Err(Problem::failure(line, format!("{what}: expected [{value}]; seen [{seen}]")))
            }
            _ => Ok(()),
        }
    }
}
