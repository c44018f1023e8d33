//! Waits for a socket or a time, whichever comes first. Tokio's timers have a resolution of a millisecond, which is
//! many loopback round trips, so paced packets would leave in bursts. On Linux, a system timer replaces them.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::socket::Socket;

/// A timer.
pub struct Alarm {
    timer: system::Timer,
    /// Expiry time.
    at: Option<Instant>,
}

impl Alarm {
    /// An unset timer.
    ///
    /// # Errors
    /// If the system has no timer.
    pub fn new() -> io::Result<Self> {
        Ok(Self { timer: system::Timer::new()?, at: None })
    }

    /// Waits until the socket is readable or `wait` has passed, and returns whether the socket is readable. The wait
    /// may end early.
    ///
    /// # Errors
    /// If the socket or the timer fails.
    pub async fn wait(&mut self, socket: &Socket, wait: Duration) -> io::Result<bool> {
        if wait.is_zero() {
            // The runtime has to poll the socket to know whether it is readable.
            tokio::task::yield_now().await;
        }
        let ready = poll_fn(|context| Poll::Ready(socket.poll_readable(context))).await;
        if let Poll::Ready(ready) = ready {
            return ready.map(|()| true);
        }
        if wait.is_zero() {
            return Ok(false);
        }
        // Setting the timer is the main cost here, above all on a virtual machine: keep a timer that is already set to
        // expire earlier.
        let now = Instant::now();
        let wanted = now + wait;
        if self.at.is_none_or(|at| at <= now || at > wanted) {
            self.timer.set(wait)?;
            self.at = Some(wanted);
        }
        let readable = poll_fn(|context| match socket.poll_readable(context) {
            Poll::Ready(ready) => Poll::Ready(ready.map(|()| true)),
            Poll::Pending => self.timer.poll(context).map(|expired| expired.map(|()| false)),
        })
        .await?;
        if !readable {
            self.at = None; // expired
        }
        Ok(readable)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    pub struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        pub fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            // The deprecated function is unsound only with types that do not own their descriptor.
            #[allow(deprecated)]
            Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
        }

        pub fn set(&mut self, wait: Duration) -> io::Result<()> {
            let wait = wait.max(Duration::from_nanos(1)); // zero would disarm it
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
            let times = Itimerspec { it_interval: zero, it_value: value };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &times)?;
            Ok(())
        }

        /// Leaves the expiration count unread: setting the timer again clears it.
        pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            ready!(self.0.poll_read_ready(context))?.clear_ready();
            Poll::Ready(Ok(()))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use tokio::time::{Sleep, sleep};

    pub struct Timer(Pin<Box<Sleep>>);

    impl Timer {
        pub fn new() -> io::Result<Self> {
            Ok(Self(Box::pin(sleep(Duration::ZERO))))
        }

        pub fn set(&mut self, wait: Duration) -> io::Result<()> {
            self.0.as_mut().reset(tokio::time::Instant::now() + wait);
            Ok(())
        }

        pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            ready!(self.0.as_mut().poll(context));
            Poll::Ready(Ok(()))
        }
    }
}
