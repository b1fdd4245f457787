//! Waiting one's turn, in tokio's paused time.

mod cancelling;
mod lines;
mod queues;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate::{Clock, Domain, LimitSpec, Limiter, Micros, Request, Rule};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A clock that follows tokio's, which a test pauses and which then jumps to whatever is waited for.
#[derive(Clone)]
struct TokioClock {
    start: Instant,
    us: Arc<AtomicU64>,
}

impl TokioClock {
    fn new() -> Self {
        Self { start: Instant::now(), us: Arc::default() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Micros {
        // The limiter's own thread is outside the runtime, where time is not paused.
        if Handle::try_current().is_ok() {
            self.us.store(self.start.elapsed().as_micros() as u64, Ordering::SeqCst);
        }
        Micros(1_700_000_000_000_000 + self.us.load(Ordering::SeqCst))
    }
}

fn limiter_of(domain: Domain) -> Limiter {
    Limiter::builder().domain(domain).clock(TokioClock::new()).build().expect("good rules")
}

fn limited_by(limit: LimitSpec) -> Limiter {
    limiter_of(Domain::new("d").rule(Rule::by("k").limit(limit)))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Who came out and when, in milliseconds since the start; and whether they passed.
#[derive(Clone)]
struct Log {
    start: Instant,
    lines: Arc<Mutex<Vec<(u64, usize, bool)>>>,
}

impl Log {
    fn new() -> Self {
        Self { start: Instant::now(), lines: Arc::default() }
    }

    fn add(&self, who: usize, passed: bool) {
        self.lines.lock().push((self.start.elapsed().as_millis() as u64, who, passed));
    }

    fn lines(&self) -> Vec<(u64, usize, bool)> {
        self.lines.lock().clone()
    }
}

/// Starts somebody who waits for key `v`, and lets them get into line.
async fn wait_in_line(limiter: &Limiter, log: &Log, who: usize, patience: Duration) -> JoinHandle<()> {
    let (limiter, log) = (limiter.clone(), log.clone());
    let task = tokio::spawn(async move {
        let decision = limiter.until_ready(&Request::new("d", [("k", "v")]), patience).await;
        log.add(who, decision.allowed());
    });
    tokio::task::yield_now().await;
    task
}
