//! The event loop that runs a plan.
//!
//! - `pool`: opens, serves and replaces connections
//! - this file: when to send, when to wait, when to stop

mod pool;

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use mio::Events;

use crate::clock::{RunClock, seconds};
use crate::dispatcher::Dispatcher;
use crate::error::LoadError;
use crate::payload::Payload;
use crate::plan::Plan;
use crate::progress::{Phase, Progress, Status};
use crate::report::Report;
use crate::tally::Tally;
use crate::traffic::Traffic;
use crate::usage::Usage;

use self::pool::Pool;

/// How often timeouts and lost connections are checked.
const TICK: Duration = Duration::from_millis(50);
/// How often they are checked while a connection is missing.
const TICK_AWAY: Duration = Duration::from_millis(5);
/// How often progress is reported.
const PROGRESS_NS: u64 = 200_000_000;
/// Setting a timer for less than this costs more than polling again.
const LEAST_TIMER_NS: u64 = 2_000;

/// Runs a plan on this thread, and returns the report.
///
/// # Errors
///
/// Returns an error if the plan is invalid, the server cannot be reached, or a connection is lost for good.
/// Single calls that fail are counted in the report.
pub fn run(plan: &Plan, payload: &mut dyn Payload, progress: &mut dyn Progress) -> Result<Report, LoadError> {
    let speaks = payload.speaks();
    plan.validate(&speaks)?;
    let clock = RunClock::new(quanta::Clock::new());
    let dispatcher = Dispatcher::new(payload, Tally::new()?, Traffic::new(plan, 0));
    let mut events = Events::with_capacity(1024);
    let mut pool = Pool::new(plan, speaks, clock, dispatcher)?;
    pool.open_all(&mut events)?;
    Run { plan, pool, usage: None, start_ns: 0, ticked_ns: 0, reported_ns: 0, reported_settled: 0, unsent: 0 }
        .carry_out(&mut events, progress)
}

struct Run<'a> {
    plan: &'a Plan,
    pool: Pool<'a>,
    /// Counters at the start of the measured part.
    usage: Option<Usage>,
    start_ns: u64,
    ticked_ns: u64,
    /// When progress was last reported, and how many calls were finished then.
    reported_ns: u64,
    reported_settled: u64,
    unsent: u64,
}

impl Run<'_> {
    fn carry_out(mut self, events: &mut Events, progress: &mut dyn Progress) -> Result<Report, LoadError> {
        self.start_ns = self.pool.clock.now_ns();
        (self.reported_ns, self.ticked_ns) = (self.start_ns, self.start_ns);
        self.pool.dispatcher.traffic = Traffic::new(self.plan, self.start_ns);
        self.pool.is_started = true;
        self.measure(self.start_ns)?;
        self.pool.dispatch()?;
        let mut over_ns = None;
        loop {
            let now_ns = self.pool.clock.now_ns();
            self.measure(now_ns)?;
            if now_ns - self.ticked_ns >= self.tick().as_nanos() as u64 {
                self.pool.look_after(now_ns)?;
                self.ticked_ns = now_ns;
                if self.report_progress(now_ns, progress).is_break() {
                    break;
                }
            }
            self.pool.dispatch_due()?;
            // Every call that is due has been sent, if there was a free stream.
            if self.pool.dispatcher.traffic.is_over(now_ns) {
                let since_ns = *over_ns.get_or_insert(now_ns);
                if since_ns == now_ns {
                    self.unsent += self.pool.dispatcher.traffic.count_unsent(now_ns);
                }
                if self.pool.dispatcher.tally.pending == 0 {
                    break;
                }
                if now_ns - since_ns > 2 * self.plan.call_timeout.as_nanos() as u64 {
                    self.pool.dispatcher.fail_refused("refused, and not sent again before the end");
                    break;
                }
            }
            self.wait(events)?;
            for event in events.iter() {
                self.pool.attend(event)?;
            }
        }
        self.report()
    }

    /// Waits for responses, or until the next call is due.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let mut timeout = self.tick();
        let now_ns = self.pool.clock.now_ns();
        let traffic = &self.pool.dispatcher.traffic;
        // A call that is due but was not sent waits for a stream, not for the timer.
        if traffic.is_open_loop()
            && let Some(due_ns) = traffic.next_due_ns(now_ns)
            && due_ns > self.pool.dispatcher.now_ns
        {
            let wait_ns = due_ns.saturating_sub(now_ns);
            if wait_ns < LEAST_TIMER_NS {
                timeout = Duration::ZERO;
            } else {
                self.pool.wake_at(due_ns, wait_ns)?;
            }
        }
        self.pool.poll(events, timeout)
    }

    fn tick(&self) -> Duration {
        if self.pool.is_complete() { TICK } else { TICK_AWAY }
    }

    /// Begins the measured phase once the warm-up has ended.
    fn measure(&mut self, now_ns: u64) -> Result<(), LoadError> {
        if self.usage.is_none() && now_ns >= self.pool.dispatcher.traffic.measure_from_ns {
            self.usage = Some(Usage::read(&self.plan.pids, now_ns)?);
        }
        Ok(())
    }

    fn report_progress(&mut self, now_ns: u64, progress: &mut dyn Progress) -> ControlFlow<()> {
        let since_ns = now_ns - self.reported_ns;
        if since_ns < PROGRESS_NS {
            return ControlFlow::Continue(());
        }
        let Dispatcher { tally, traffic, .. } = &self.pool.dispatcher;
        let elapsed_ns = now_ns - self.start_ns;
        let (phase, done) = if self.usage.is_some() {
            (Phase::Measured, traffic.done(now_ns))
        } else {
            (Phase::WarmUp, seconds(elapsed_ns) / self.plan.warm_up.as_secs_f64())
        };
        let status = Status {
            phase,
            elapsed: Duration::from_nanos(elapsed_ns),
            done,
            requests: tally.requests(),
            errors: tally.errors,
            per_second: (tally.settled - self.reported_settled) as f64 / seconds(since_ns),
        };
        (self.reported_ns, self.reported_settled) = (now_ns, tally.settled);
        progress.update(status)
    }

    fn report(self) -> Result<Report, LoadError> {
        let now_ns = self.pool.clock.now_ns();
        let usage = match self.usage {
            Some(usage) => usage,
            // The run ended during the warm-up: nothing was measured.
            None => Usage::read(&self.plan.pids, now_ns)?,
        };
        let Dispatcher { tally, traffic, .. } = &self.pool.dispatcher;
        let requests = tally.requests();
        let elapsed_s = seconds(now_ns.saturating_sub(traffic.measure_from_ns));
        let answered = tally.allowed + tally.denied;
        Ok(Report {
            requests,
            allowed: tally.allowed,
            denied: tally.denied,
            errors: tally.errors,
            error_texts: tally.error_texts.clone(),
            unsent: self.unsent,
            resent: tally.resent,
            reconnects: self.pool.reconnects,
            elapsed_s,
            per_second: if answered == 0 { 0.0 } else { answered as f64 / elapsed_s },
            latency: tally.latency(),
            send_delay: traffic.is_open_loop().then(|| tally.send_delay()),
            generator: usage.generator(now_ns, requests),
            processes: usage.processes(requests),
        })
    }
}
