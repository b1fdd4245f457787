//! `tidegate decide`, which the measurements in `bench/` count the instructions of. It is not shown in the help.

use std::process::ExitCode;
use std::thread;

use clap::Args;
use tidegate::{Domain, LimitSpec, Limiter, Rule, per};
use tidegate_core::VirtualClock;

use super::out;
use crate::bounds::Bounds;
use crate::config::settings::Warnings;
use crate::decider::Decider;
use crate::grpc::rate_limit::RateLimit;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::recorder::{Recorder, RecorderParts};
use crate::request_id::RequestId;

/// Keys that are asked for in turn.
const KEYS: usize = 10_000;
const DAY: std::time::Duration = std::time::Duration::from_hours(24);
const SECOND_US: u64 = 1_000_000;

/// Decide requests of Envoy's protocol in this process, on one thread, by a clock that moves with each of them.
#[derive(Args)]
pub(super) struct Decide {
    /// The number of decisions.
    #[arg(long)]
    decisions: usize,
    /// Decisions per second, by the clock of the limiter.
    #[arg(long, default_value_t = 50_000)]
    per_second: u64,
    /// Whether all of them are denied.
    #[arg(long)]
    denied: bool,
    /// Whether nothing is recorded.
    #[arg(long)]
    unrecorded: bool,
}

impl Decide {
    pub(super) fn run(self) -> ExitCode {
        match self.decide() {
            Ok(decided) => {
                out::print(&format!("{decided}\n"));
                ExitCode::SUCCESS
            }
            Err(failure) => out::fail(&failure),
        }
    }

    fn decide(&self) -> Result<usize, String> {
        let clock = VirtualClock::new();
        let limit: LimitSpec = if self.denied { per(1, DAY) } else { per(1_000_000, DAY) };
        let domain = Domain::new("api").rule(Rule::by("user").limit(limit.token_bucket()));
        let limiter = Limiter::builder().domain(domain).clock(clock.clone()).build();
        let limiter = limiter.map_err(|error| error.to_string())?;
        let metrics = Metrics::default();
        let recorder = if self.unrecorded { Recorder::default() } else { recorder(&limiter, &metrics)? };
        let decider = Decider::new("grpc", limiter, metrics).with_recorder(recorder);
        let rate_limit = RateLimit { decider, bounds: Bounds::default(), headers: None, body: None };
        let messages: Vec<_> = (0..KEYS).map(message).collect();
        let (mut count, mut answer, step_us) =
            (0, Vec::with_capacity(256), SECOND_US / self.per_second.max(1));
        // Every key once beforehand, so that its counter is there.
        for message in messages.iter().chain(messages.iter().cycle().take(self.decisions)) {
            clock.advance_us(step_us);
            answer.clear();
            count += usize::from(rate_limit.answer_now(message, RequestId::NONE, &mut answer).is_ok());
        }
        Ok(count - KEYS.min(count))
    }
}

/// Returns a recorder whose samples are taken in by another thread, as in the service.
fn recorder(limiter: &Limiter, metrics: &Metrics) -> Result<Recorder, String> {
    let recorder = Recorder::new(RecorderParts {
        limiter: limiter.clone(),
        metrics: metrics.clone(),
        health: Health::new(limiter.clone()),
        // Nothing is saved within the first minute.
        file: std::env::temp_dir().join("tidegate-decide-has-no-history"),
        secret: String::new(),
        max_bytes: 1 << 30,
        node: "decide".to_owned(),
        store: None,
        warnings: Warnings::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let started = recorder.clone();
    thread::spawn(move || {
        runtime.block_on(async {
            started.start();
            std::future::pending::<()>().await;
        });
    });
    Ok(recorder)
}

/// Returns the `RateLimitRequest` of a user.
fn message(user: usize) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        // The lengths are below 128, so that each is one byte.
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    };
    let value = format!("user-{user:06}");
    let entry = [field(1, b"user"), field(2, value.as_bytes())].concat();
    [field(1, b"api"), field(2, &field(1, &entry))].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_decided_recorded_or_not() {
        for (denied, unrecorded) in [(false, false), (true, false), (true, true)] {
            let decide = Decide { decisions: 1_000, per_second: 50_000, denied, unrecorded };
            assert_eq!(decide.decide(), Ok(1_000));
        }
    }
}
