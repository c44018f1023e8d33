//! Runs a script: events happen at the script's times, and the timers of the endpoint run between them.

mod compare;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use narrows_cc::Nanos;

use crate::python::{Block, Failure, Variables};
use crate::script::{Action, Call, Event, Options, Problem, Script, Segment, Time};
use crate::shell::{self, ReadFile};
use crate::stack::{Outcome, Sent, Stack, Waited, constant};
use compare::{difference, seconds, show};
use settings::Choices;

/// Maximum wait for a packet whose time is `*`.
const PATIENCE: Nanos = Nanos::from_secs(120);
/// Maximum number of steps between two events, a guard against a stack whose timers always expire again.
const MAX_STEPS: u32 = 1_000_000;

/// A system call that blocks.
struct Blocked {
    line: usize,
    call: Call,
    /// Expected return time.
    end: Nanos,
}

/// A running script.
pub(crate) struct Runner<'a, S> {
    stack: S,
    files: ReadFile<'a>,
    choices: Choices,
    now: Nanos,
    /// Time of the last event.
    last: Nanos,
    blocked: Vec<Blocked>,
    variables: Variables,
    /// Maps timestamps of the script to the timestamps that the endpoint sent.
    stamps: BTreeMap<u32, u32>,
    /// The first pair in `stamps`.
    first_stamp: Option<(u32, u32)>,
    /// Time and line of the events so far.
    history: Vec<(Nanos, usize)>,
    /// Times of arriving packets, calls and commands since the last expected packet.
    causes: Vec<Nanos>,
}

/// Runs a script on the stack that `open` creates for an MTU. Returns the calls whose results were not compared.
///
/// # Errors
/// The first event that fails or is not supported.
pub(crate) fn run<S: Stack>(
    script: &Script,
    files: ReadFile<'_>,
    open: impl FnOnce(u16) -> Result<S, Problem>,
) -> (Vec<String>, Result<(), Problem>) {
    let prepared = || {
        let mut choices = Choices::read(&script.options)?;
        let mut stack = open(choices.mtu)?;
        choices.widen(stack.lateness());
        let blocks = prepare(script, files, &mut stack)?;
        Ok((choices, stack, blocks))
    };
    let (choices, stack, blocks) = match prepared() {
        Ok(prepared) => prepared,
        Err(problem) => return (Vec::new(), Err(problem)),
    };
    let mut runner = Runner {
        stack,
        files,
        choices,
        now: Nanos::ZERO,
        last: Nanos::ZERO,
        blocked: Vec::new(),
        variables: Variables::new(),
        stamps: BTreeMap::new(),
        first_stamp: None,
        history: Vec::new(),
        causes: Vec::new(),
    };
    let result = runner.events(script, &blocks);
    (runner.stack.unchecked(), result)
}

/// Applies settings, and reports unsupported features before any event runs.
fn prepare<S: Stack>(script: &Script, files: ReadFile<'_>, stack: &mut S) -> Result<BTreeMap<usize, Block>, Problem> {
    if let Some((line, text)) = &script.setup {
        for words in shell::commands(*line, text, files)? {
            stack.command(*line, &words)?;
        }
    }
    let mut blocks = BTreeMap::new();
    for (at, event) in script.events.iter().enumerate() {
        match &event.action {
            Action::Call { call, .. } => {
                if let Some(reason) = stack.lacks_call(call) {
                    return Err(Problem::unsupported(event.line, reason));
                }
            }
            Action::Shell(text) => {
                for words in shell::commands(event.line, text, files)? {
                    stack.check_command(event.line, &words)?;
                }
            }
            Action::Code(text) => {
                let block = Block::parse(text)
                    .map_err(|reason| Problem::unsupported(event.line, format!("code block: {reason}")))?;
                let field = |name: &str| name.starts_with("tcpi_") || name.starts_with("narrows_");
                let unknown = |name: &String| field(name) && !stack.has_field(name);
                if let Some(name) = block.names().into_iter().find(unknown) {
                    return Err(Problem::unsupported(event.line, format!("there is no {name} here")));
                }
                blocks.insert(at, block);
            }
            Action::Inbound(_) | Action::Outbound(_) => {}
        }
    }
    Ok(blocks)
}

impl<S: Stack> Runner<'_, S> {
    fn events(&mut self, script: &Script, blocks: &BTreeMap<usize, Block>) -> Result<(), Problem> {
        for (at, event) in script.events.iter().enumerate() {
            let (first, last) = self.interval(event);
            match &event.action {
                Action::Outbound(expected) => self.expect(event, expected, first, last)?,
                action => {
                    self.advance(event.line, first)?;
                    self.history.push((self.now, event.line));
                    if !matches!(action, Action::Code(_)) {
                        self.causes.push(self.now);
                    }
                    self.act(event, action, blocks.get(&at))?;
                    self.last = self.now;
                }
            }
            self.resume(false)?;
        }
        self.finish(script)
    }

    /// Earliest and latest time of an event; the two differ only for sent packets.
    fn interval(&self, event: &Event) -> (Nanos, Nanos) {
        match event.time {
            Time::Any => (Nanos::ZERO, self.now + PATIENCE),
            Time::At { first, last, relative, .. } => {
                let base = if relative { self.now } else { Nanos::ZERO };
                (base + Nanos::from_nanos(first), base + Nanos::from_nanos(last))
            }
        }
    }

    /// Lets the stack run until `time`.
    fn advance(&mut self, line: usize, time: Nanos) -> Result<(), Problem> {
        for _ in 0..MAX_STEPS {
            match self.stack.wait(self.now, line, time)? {
                Waited::Passed => {
                    self.now = self.now.max(time);
                    return Ok(());
                }
                Waited::Happened(at) => self.now = self.now.max(at),
            }
            self.resume(false)?;
        }
        Err(Problem::failure(line, format!("the stack's timers never rest at {}", seconds(self.now))))
    }

    fn act(&mut self, event: &Event, action: &Action, block: Option<&Block>) -> Result<(), Problem> {
        let line = event.line;
        match action {
            Action::Inbound(segment) => {
                let segment = self.arriving(segment);
                self.stack.on_packet(self.now, line, &segment)
            }
            Action::Call { call, end } => {
                let relative = matches!(event.time, Time::At { relative: true, .. });
                let base = if relative { self.last_start(event) } else { Nanos::ZERO };
                let end = end.map(|end| base + Nanos::from_nanos(end));
                self.start_call(line, call, end)
            }
            Action::Shell(text) => {
                let commands = shell::commands(line, text, self.files)?;
                commands.iter().try_for_each(|words| self.stack.command(line, words))
            }
            Action::Code(_) => block.map_or(Ok(()), |block| self.check(line, block)),
            Action::Outbound(_) => Ok(()),
        }
    }

    /// The time from which the times of a relative event are counted.
    fn last_start(&self, event: &Event) -> Nanos {
        match event.time {
            Time::At { first, .. } => self.now - Nanos::from_nanos(first),
            Time::Any => self.now,
        }
    }

    /// Replaces the timestamp echo of an arriving packet by the corresponding timestamp of the endpoint.
    fn arriving(&self, segment: &Segment) -> Segment {
        let mut segment = segment.clone();
        if let Some(Options { timestamps: Some((_, echo)), .. }) = &mut segment.options {
            *echo = match (self.stamps.get(echo), self.first_stamp) {
                (Some(live), _) => *live,
                (None, Some((script, live))) => {
                    let tick = if self.choices.tick.is_zero() { Nanos::from_millis(1) } else { self.choices.tick };
                    let passed = i64::from(echo.wrapping_sub(script) as i32) * tick.as_nanos() as i64;
                    live.wrapping_add((passed / self.stack.stamp_unit().as_nanos() as i64) as u32)
                }
                (None, None) => *echo,
            };
        }
        segment
    }

    fn start_call(&mut self, line: usize, call: &Call, end: Option<Nanos>) -> Result<(), Problem> {
        match (self.stack.call(self.now, line, call, end.is_some())?, end) {
            (Outcome::Blocks, Some(end)) => {
                self.blocked.push(Blocked { line, call: call.clone(), end });
                Ok(())
            }
            (outcome, _) => returned(line, call, &outcome),
        }
    }

    /// Lets blocked calls return. At the end of the script (`last`), all of them must return.
    fn resume(&mut self, last: bool) -> Result<(), Problem> {
        let mut at = 0;
        while let Some(blocked) = self.blocked.get(at) {
            let (line, call, end) = (blocked.line, blocked.call.clone(), blocked.end);
            let late = self.now > end + self.choices.tolerance;
            let outcome = self.stack.resume(self.now, line, &call)?;
            if outcome == Outcome::Blocks {
                if late || last {
                    let reason = format!("{call}: expected to return at {}; seen it block", seconds(end));
                    return Err(Problem::failure(line, reason));
                }
                at += 1;
                continue;
            }
            self.blocked.remove(at);
            returned(line, &call, &outcome)?;
            if late || self.now + self.choices.tolerance < end {
                let (end, now) = (seconds(end), seconds(self.now));
                let reason = format!("{call}: expected to return at {end}; seen to return at {now}");
                return Err(Problem::failure(line, reason));
            }
        }
        Ok(())
    }

    fn check(&mut self, line: usize, block: &Block) -> Result<(), Problem> {
        self.stack.observe(line)?;
        let Self { stack, variables, now, .. } = self;
        let look_up = |name: &str| constant(name).or_else(|| stack.info(*now, name));
        block.run(variables, &look_up).map_err(|failure| match failure {
            Failure::Asserted(reason) => Problem::failure(line, reason),
            Failure::Broken(reason) => Problem::failure(line, format!("code block: {reason}")),
            Failure::Unknown(name) => Problem::failure(line, format!("code block: nothing defines {name}")),
        })
    }

    /// Waits for a packet and compares it with the expected packet.
    fn expect(&mut self, event: &Event, expected: &Segment, first: Nanos, last: Nanos) -> Result<(), Problem> {
        let wait = first - self.last;
        let (tolerance, after) = match event.time {
            Time::Any => (Nanos::ZERO, Nanos::ZERO),
            Time::At { .. } => (self.choices.around(wait), self.choices.after(wait)),
        };
        let (earliest, latest) = (first - tolerance, last.saturating_add(after));
        let when = match event.time {
            Time::Any => "at any time".to_owned(),
            _ if first == last => format!("at {}", seconds(first)),
            _ => format!("from {} to {}", seconds(first), seconds(last)),
        };
        self.history.push((first, event.line));
        let fail = |seen: String| {
            let reason = format!("expected {} {when}; seen {seen}", show(expected, expected));
            Err(Problem::failure(event.line, reason))
        };
        let Some(mut seen) = self.next_sent(event.line, latest)? else {
            return fail(format!("nothing until {}", seconds(latest)));
        };
        let mut packets = vec![seen.clone()];
        while !self.choices.strict_segments && shall_grow(expected, &seen.segment) {
            let Some(more) = self.following(event.line, latest)? else { break };
            if !continues(&seen.segment, &more.segment) {
                break;
            }
            self.stack.sent().pop_front();
            seen = joined(seen, &more);
            packets.push(more);
        }
        let list = || {
            let shown = |sent: &Sent| format!("{} at {}", show(&sent.segment, expected), seconds(sent.at));
            packets.iter().map(shown).collect::<Vec<_>>().join(", ")
        };
        if let Some(what) = difference(expected, &seen.segment) {
            return fail(format!("{} ({what})", list()));
        }
        if packets.iter().any(|sent| sent.at < earliest || sent.at > latest) {
            return fail(format!("{} (time; tolerance {})", list(), seconds(after)));
        }
        if let Some(reason) = self.compare_stamp(expected, &seen) {
            return fail(format!("{} ({reason})", list()));
        }
        self.now = self.now.max(seen.at);
        // Arrivals and calls up to this packet may have caused it; later ones may cause further packets.
        self.causes.retain(|&at| at > seen.at);
        self.last = match event.time {
            Time::Any => self.now,
            Time::At { .. } => first,
        };
        Ok(())
    }

    /// The packet after the compared packet. If the stack's clock is inexact, waits once if no packet has left yet.
    fn following(&mut self, line: usize, latest: Nanos) -> Result<Option<Sent>, Problem> {
        if self.stack.lateness().is_some() && self.stack.sent().is_empty() {
            self.stack.wait(self.now, line, latest)?;
        }
        Ok(self.stack.sent().front().cloned())
    }

    /// The next sent packet, if one leaves by `latest`.
    fn next_sent(&mut self, line: usize, latest: Nanos) -> Result<Option<Sent>, Problem> {
        loop {
            if let Some(sent) = self.stack.sent().pop_front() {
                return Ok(Some(sent));
            }
            match self.stack.wait(self.now, line, latest)? {
                Waited::Passed => return Ok(None),
                Waited::Happened(at) => self.now = self.now.max(at),
            }
            self.resume(false)?;
            // Collect all packets that leave at the same time.
            self.advance(line, self.now)?;
        }
    }

    /// Records the timestamp of a packet, and compares the timestamp with the clock if the script states a tick.
    fn compare_stamp(&mut self, expected: &Segment, seen: &Sent) -> Option<String> {
        let stamp = |segment: &Segment| segment.options.as_ref()?.timestamps.map(|(value, _)| value);
        let (script, live) = (stamp(expected)?, stamp(&seen.segment)?);
        self.stamps.insert(script, live);
        let (first_script, first_live) = *self.first_stamp.get_or_insert((script, live));
        let (tick, unit) = (self.choices.tick, self.stack.stamp_unit());
        if tick.is_zero() {
            return None;
        }
        let passed = unit * u64::from(live.wrapping_sub(first_live));
        let wanted = tick * u64::from(script.wrapping_sub(first_script));
        // Both stamps are rounded to the unit.
        let tolerance = self.choices.around(seen.at) + if unit > Nanos::from_micros(1) { unit } else { Nanos::ZERO };
        let [wanted_us, passed_us] = [wanted, passed].map(|time| time.as_nanos() / 1000);
        (passed.max(wanted) - passed.min(wanted) > tolerance)
            .then(|| format!("timestamp: expected {wanted_us} us after the first; seen {passed_us} us"))
    }

    /// Ends the script: blocked calls return. Uncompared packets may remain only if they were caused by an arriving
    /// packet or a call after the last line with a sent packet.
    fn finish(&mut self, script: &Script) -> Result<(), Problem> {
        let line = script.events.last().map_or(0, |event| event.line);
        let end = self.now;
        if let Some(until) = self.blocked.iter().map(|blocked| blocked.end).max() {
            let late = self.stack.lateness().unwrap_or(Nanos::ZERO);
            self.advance(line, until + late)?;
        }
        self.resume(true)?;
        let data = |event: &Event| matches!(&event.action, Action::Outbound(segment) if segment.len > 0);
        if !script.events.iter().any(data) {
            // The script checks only state, not packets.
            return Ok(());
        }
        let late = self.stack.lateness().unwrap_or(Nanos::ZERO);
        let causes = std::mem::take(&mut self.causes);
        let caused = |sent: &&Sent| causes.iter().any(|&at| at <= sent.at && sent.at <= at + late);
        match self.stack.sent().front().filter(|sent| sent.at < end && !caused(sent)) {
            Some(sent) => {
                let before = self.history.iter().rev().find(|(at, _)| *at <= sent.at);
                let line = before.map_or(line, |&(_, line)| line);
                let (segment, at) = (show(&sent.segment, &sent.segment), seconds(sent.at));
                Err(Problem::failure(line, format!("expected no more packets; seen {segment} at {at}")))
            }
            None => Ok(()),
        }
    }
}

/// Compares the result of a call with the script's.
fn returned(line: usize, call: &Call, outcome: &Outcome) -> Result<(), Problem> {
    let Outcome::Done(result) = outcome else {
        if *outcome == Outcome::Blocks {
            return Err(Problem::failure(line, format!("{call}: expected to return at once; seen it block")));
        }
        return Ok(());
    };
    let (value, error) = match result {
        Ok(value) => (*value, None),
        Err(error) => (-1, Some(*error)),
    };
    let equal = call.result.is_none_or(|expected| expected == value)
        && call.errno.as_deref().is_none_or(|expected| error.is_none_or(|error| error == expected))
        && (error.is_none() || call.result.is_none_or(|expected| expected < 0));
    if equal {
        return Ok(());
    }
    let show = |value: i64, error: Option<&str>| error.map_or(value.to_string(), |error| format!("{value} {error}"));
    let expected = show(call.result.unwrap_or(0), call.errno.as_deref());
    Err(Problem::failure(line, format!("expected {call} = {expected}; seen {}", show(value, error))))
}

/// Whether the expected packet is longer than the sent packet, or ends with a FIN that the sent packet does not have.
fn shall_grow(expected: &Segment, seen: &Segment) -> bool {
    expected.len > seen.len || (expected.flags.fin && !seen.flags.fin && expected.len > 0)
}

/// Whether `next` begins where `seen` ends.
fn continues(seen: &Segment, next: &Segment) -> bool {
    let data = next.len > 0 || next.flags.fin;
    data && next.seq == seen.seq + seen.len && !next.flags.syn && !next.flags.rst && !seen.flags.fin
}

/// Joins two packets, like the parts of a TSO packet before segmentation.
fn joined(seen: Sent, next: &Sent) -> Sent {
    let mut segment = next.segment.clone();
    segment.seq = seen.segment.seq;
    segment.len += seen.segment.len;
    segment.flags.cwr |= seen.segment.flags.cwr;
    Sent { at: seen.at, segment }
}
