//! System calls of a script on sockets of the kernel.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use narrows_packetdrill::script::{Call, Problem, Value};
use narrows_packetdrill::stack::Outcome;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::net::sockopt;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, ipproto};

use super::options;
use super::socket::{Socket, done, expect, limit, name_of, wake};
use super::wire::{LOCAL, PORT, REMOTE};

/// A call that the script does not expect to block ends after this time, so that the script can fail.
const GUARD: Duration = Duration::from_millis(100);
/// Maximum number of bytes that one call transfers.
const MAX_BYTES: u64 = 1 << 28;

/// Result of a call: a value, and the socket made by `accept`.
type Done = Result<(i64, Option<OwnedFd>), &'static str>;

/// A call that can block.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Accept(SocketFlags),
    Connect,
    Send { bytes: usize, flags: SendFlags },
    Receive { bytes: usize, flags: RecvFlags },
}

/// A call in a separate thread.
#[derive(Debug)]
struct Running {
    /// The socket of the call. The script may have closed it.
    socket: Socket,
    result: Arc<Mutex<Option<Done>>>,
    thread: JoinHandle<()>,
}

impl Running {
    /// The call's result, if the call has returned.
    fn result(&self) -> Option<Done> {
        self.result.lock().ok()?.take()
    }

    /// Ends the call and its thread.
    fn end(self) {
        wake(&self.socket);
        let _ = self.thread.join();
    }
}

/// The reason why the kernel's sockets cannot execute a call here, if any.
pub(super) fn lacks(call: &Call) -> Option<String> {
    let option = call.args.get(2).and_then(Value::word).unwrap_or("");
    match call.name.as_str() {
        "open" | "sendfile" => Some(format!("{}() on the kernel", call.name)),
        "setsockopt" | "getsockopt" if options::is_refused(option) => {
            Some(format!("socket option {option} on the kernel"))
        }
        _ => narrows_packetdrill::unsupported(call),
    }
}

/// The state of the script's run that calls need.
pub(super) struct Context<'a> {
    /// The scheme of new sockets.
    pub(super) scheme: &'a str,
    /// Wall-clock time at the start of the script.
    pub(super) started: SystemTime,
    /// Tolerance for timestamps.
    pub(super) lateness: Duration,
    /// Reads the number of bytes in the send queue, and how many of them are unsent.
    pub(super) outstanding: &'a mut dyn FnMut() -> Result<(u32, u32), Problem>,
}

/// The sockets of a script, and the calls on them.
#[derive(Debug)]
pub(super) struct Calls {
    sockets: BTreeMap<i64, Socket>,
    /// Calls that block, by line.
    running: BTreeMap<usize, Running>,
    /// Counts calls that have returned.
    returned: Arc<OwnedFd>,
    /// Calls whose results are not compared.
    unchecked: Vec<String>,
}

impl Calls {
    /// The state of a script without sockets.
    ///
    /// # Errors
    /// If the system has no event descriptor.
    pub(super) fn new() -> io::Result<Self> {
        let returned = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (sockets, running) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { sockets, running, returned: Arc::new(returned), unchecked: Vec::new() })
    }

    /// A descriptor that is readable when a call has returned.
    pub(super) fn returned(&self) -> &OwnedFd {
        &self.returned
    }

    pub(super) fn unchecked(&self) -> Vec<String> {
        self.unchecked.clone()
    }

    /// Executes a call, in a thread if the script expects it to block.
    pub(super) fn call(
        &mut self,
        line: usize,
        call: &Call,
        blocks: bool,
        context: Context<'_>,
    ) -> Result<Outcome, Problem> {
        match self.start(line, call, blocks)? {
            Some(running) => {
                self.running.insert(line, running);
                Ok(Outcome::Blocks)
            }
            None => self.execute(line, call, context),
        }
    }

    /// The outcome of a call that runs in a thread; [`Outcome::Blocks`] until the call returns.
    pub(super) fn resume(&mut self, line: usize, call: &Call) -> Result<Outcome, Problem> {
        let Some(result) = self.running.get(&line).and_then(Running::result) else {
            return Ok(Outcome::Blocks);
        };
        self.running.remove(&line);
        self.finish(line, call, result)
    }

    /// Starts a thread for a call that the script expects to block; returns `None` for other calls, which run in this
    /// thread.
    fn start(&self, line: usize, call: &Call, blocks: bool) -> Result<Option<Running>, Problem> {
        let Some(operation) = operation(call).filter(|_| blocks) else { return Ok(None) };
        let socket = self.socket(line, call)?.clone();
        limit(&socket, None);
        let result = Arc::new(Mutex::new(None));
        let (place, returned, own) = (result.clone(), self.returned.clone(), socket.clone());
        let thread = std::thread::Builder::new().name("packetdrill".to_owned()).spawn(move || {
            let done = perform(&own, operation);
            if let Ok(mut place) = place.lock() {
                *place = Some(done);
            }
            let _ = rustix::io::write(&*returned, &1_u64.to_ne_bytes());
        });
        let thread = thread.map_err(|error| Problem::failure(line, format!("a thread: {error}")))?;
        Ok(Some(Running { socket, result, thread }))
    }

    /// Executes a call in this thread.
    fn execute(&mut self, line: usize, call: &Call, context: Context<'_>) -> Result<Outcome, Problem> {
        if let Some(operation) = operation(call) {
            if let Operation::Receive { flags, .. } = operation
                && flags.contains(RecvFlags::ERRQUEUE)
            {
                let socket = self.socket(line, call)?;
                return options::read_stamp(socket, line, call, context.started, context.lateness);
            }
            let socket = self.socket(line, call)?;
            limit(socket, Some(GUARD));
            let done = perform(socket, operation);
            return self.finish(line, call, done);
        }
        let args = &call.args;
        match call.name.as_str() {
            "socket" => {
                let flags = flags_of(args.get(1));
                let made = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP));
                let done = made.map_err(name_of).map(|socket| (0, Some(socket)));
                if let Ok((_, Some(socket))) = &done {
                    let _ = sockopt::set_socket_reuseaddr(socket, true);
                    let scheme = context.scheme;
                    sockopt::set_tcp_congestion(socket, scheme).map_err(|error| {
                        let reason = format!("congestion control '{scheme}': this kernel refuses it: {error}");
                        Problem::unsupported(line, reason)
                    })?;
                }
                self.finish(line, call, done)
            }
            "bind" => {
                let address = SocketAddrV4::new(LOCAL, PORT);
                Ok(done(net::bind(self.socket(line, call)?, &address)))
            }
            "listen" => {
                let backlog = args.get(1).and_then(Value::int).unwrap_or(1) as i32;
                Ok(done(net::listen(self.socket(line, call)?, backlog)))
            }
            "close" => {
                let number = args.first().and_then(Value::int).unwrap_or(-1);
                self.sockets.remove(&number);
                Ok(Outcome::Done(Ok(0)))
            }
            "shutdown" => {
                let has = |word: &str| args.get(1).is_some_and(|how| how.has(word));
                let how = match () {
                    () if has("SHUT_RDWR") => Shutdown::Both,
                    () if has("SHUT_WR") => Shutdown::Write,
                    () => Shutdown::Read,
                };
                Ok(done(net::shutdown(self.socket(line, call)?, how)))
            }
            "fcntl" => {
                if args.get(1).is_some_and(|command| command.has("F_SETFL")) {
                    let on = args.get(2).is_some_and(|flags| flags.has("O_NONBLOCK"));
                    return Ok(done(rustix::io::ioctl_fionbio(self.socket(line, call)?, on)));
                }
                Ok(Outcome::Done(Ok(call.result.unwrap_or(0))))
            }
            "ioctl" => self.ioctl(line, call, context),
            "setsockopt" => options::set(self.socket(line, call)?, line, call),
            "getsockopt" => {
                let outcome = options::compare(self.socket(line, call)?, line, call)?;
                if outcome == Outcome::Unchecked {
                    self.note(call);
                }
                Ok(outcome)
            }
            "poll" | "epoll_ctl" | "epoll_wait" | "epoll_create" | "epoll_create1" => {
                self.note(call);
                Ok(Outcome::Unchecked)
            }
            name => Err(Problem::unsupported(line, format!("system call {name}() on the kernel"))),
        }
    }

    /// The socket whose number is the call's first argument.
    fn socket(&self, line: usize, call: &Call) -> Result<&Socket, Problem> {
        let number = call.args.first().and_then(Value::int).unwrap_or(-1);
        let known = self.sockets.get(&number);
        known.ok_or_else(|| Problem::failure(line, format!("{call}: no socket has the number {number}")))
    }

    /// Notes a call whose result is not compared.
    fn note(&mut self, call: &Call) {
        if !self.unchecked.contains(&call.name) {
            self.unchecked.push(call.name.clone());
        }
    }

    /// The outcome of a call that has returned. A new socket gets the number that the script gives it.
    fn finish(&mut self, line: usize, call: &Call, done: Done) -> Result<Outcome, Problem> {
        let (value, socket) = match done {
            Ok(done) => done,
            Err(error) => return Ok(Outcome::Done(Err(error))),
        };
        let Some(socket) = socket else { return Ok(Outcome::Done(Ok(value))) };
        let Some(number) = call.result.filter(|number| *number >= 0) else {
            return Err(Problem::failure(line, format!("{call}: expected an error; seen a new socket")));
        };
        self.sockets.insert(number, Arc::new(socket));
        Ok(Outcome::Done(Ok(number)))
    }

    fn ioctl(&self, line: usize, call: &Call, context: Context<'_>) -> Result<Outcome, Problem> {
        let has = |word: &str| call.args.get(1).is_some_and(|request| request.has(word));
        let seen = if has("SIOCINQ") || has("FIONREAD") {
            match rustix::io::ioctl_fionread(self.socket(line, call)?) {
                Ok(bytes) => bytes as i64,
                Err(error) => return Ok(Outcome::Done(Err(name_of(error)))),
            }
        } else {
            let (queued, unsent) = (context.outstanding)()?;
            i64::from(if has("SIOCOUTQNSD") { unsent } else { queued })
        };
        expect(line, "ioctl", seen, call.args.get(2))?;
        Ok(Outcome::Done(Ok(0)))
    }
}

impl Drop for Calls {
    /// Ends calls that still block, so that their threads end.
    fn drop(&mut self) {
        for running in std::mem::take(&mut self.running).into_values() {
            running.end();
        }
    }
}

/// The operation of a call that can block.
fn operation(call: &Call) -> Option<Operation> {
    let (bytes, words) = call.sizes();
    let has = |word: &str| words.iter().any(|own| own == word);
    let bytes = bytes.min(MAX_BYTES) as usize;
    Some(match call.name.as_str() {
        "accept" => Operation::Accept(SocketFlags::CLOEXEC),
        "connect" => Operation::Connect,
        "write" | "send" | "sendto" | "writev" | "sendmsg" => {
            let all =
                [("MSG_DONTWAIT", SendFlags::DONTWAIT), ("MSG_MORE", SendFlags::MORE), ("MSG_EOR", SendFlags::EOR)];
            let flags = all.iter().filter(|(word, _)| has(word)).map(|(_, flag)| *flag);
            Operation::Send { bytes, flags: flags.fold(SendFlags::NOSIGNAL, |all, flag| all | flag) }
        }
        "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => {
            let all = [
                ("MSG_DONTWAIT", RecvFlags::DONTWAIT),
                ("MSG_WAITALL", RecvFlags::WAITALL),
                ("MSG_PEEK", RecvFlags::PEEK),
                ("MSG_ERRQUEUE", RecvFlags::ERRQUEUE),
            ];
            let flags = all.iter().filter(|(word, _)| has(word)).map(|(_, flag)| *flag);
            Operation::Receive { bytes, flags: flags.fold(RecvFlags::empty(), |all, flag| all | flag) }
        }
        _ => return None,
    })
}

fn perform(socket: &OwnedFd, operation: Operation) -> Done {
    let done = match operation {
        Operation::Accept(flags) => net::accept_with(socket, flags).map(|socket| (0, Some(socket))),
        Operation::Connect => {
            // Binds the socket to the address of the script's host; fails for a bound socket, which keeps its address.
            let _ = net::bind(socket, &SocketAddrV4::new(LOCAL, 0));
            net::connect(socket, &SocketAddrV4::new(REMOTE, PORT)).map(|()| (0, None))
        }
        Operation::Send { bytes, flags } => net::send(socket, &vec![0; bytes], flags).map(|sent| (sent as i64, None)),
        Operation::Receive { bytes, flags } => {
            let mut buffer = vec![0; bytes];
            net::recv(socket, buffer.as_mut_slice(), flags).map(|(_, read)| (read as i64, None))
        }
    };
    done.map_err(name_of)
}

fn flags_of(kind: Option<&Value>) -> SocketFlags {
    let nonblocking = kind.is_some_and(|kind| kind.has("SOCK_NONBLOCK"));
    if nonblocking { SocketFlags::CLOEXEC | SocketFlags::NONBLOCK } else { SocketFlags::CLOEXEC }
}
