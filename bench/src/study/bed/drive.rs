//! Runs passes of the load generator, and checks whether they are valid.

use std::ops::ControlFlow;
use std::time::Duration;

use tidegate_load::payload::Payload;
use tidegate_load::{Endpoint, Keys, Length, Pace, Plan, Report, Status};

use super::server::Server;
use crate::error::{Error, ensure};

/// The number of users whose requests are decided, drawn by a Zipf distribution.
pub(crate) const USERS: u64 = 10_000;
/// How often an invalid pass is repeated.
const TRIES: usize = 10;
/// The share of the calls of an open loop that must be answered in time for a pass to be valid.
const LEAST_KEPT: f64 = 0.95;

/// How many calls are in flight at once.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    pub(crate) streams: usize,
}

/// Few connections with many calls on each, like a proxy.
pub(crate) const BATCHED: Shape = Shape { connections: 4, streams: 32 };
/// One call per connection.
pub(crate) const UNBATCHED: Shape = Shape { connections: 32, streams: 1 };

/// The length and number of passes.
#[derive(Clone, Copy)]
pub(crate) struct Passes {
    pub(crate) count: usize,
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
}

impl Passes {
    pub(crate) fn new(quick: bool) -> Self {
        let (count, warm_up_ms, length_ms) = if quick { (3, 150, 600) } else { (5, 400, 1_800) };
        Self { count, warm_up: Duration::from_millis(warm_up_ms), length: Duration::from_millis(length_ms) }
    }

    /// Returns many short passes, for latencies. If the machine itself stops for some milliseconds each second, most
    /// passes are free of it, and the median pass shows what the servers do. A stop within a long pass would be its
    /// 99th percentile for every server.
    pub(crate) fn short(quick: bool) -> Self {
        let count = if quick { 15 } else { 41 };
        Self { count, warm_up: Duration::from_millis(100), length: Duration::from_millis(250) }
    }

    /// Returns passes for changes that take a minute in total.
    pub(crate) fn with_changes(quick: bool) -> Self {
        let (count, length_ms) = if quick { (9, 500) } else { (41, 1_500) };
        Self { count, warm_up: Duration::from_millis(100), length: Duration::from_millis(length_ms) }
    }

    /// Returns the plan of a closed loop over Zipf-distributed keys.
    pub(crate) fn plan(&self, server: &Server, shape: Shape) -> Plan {
        Plan {
            connections: shape.connections,
            streams: shape.streams,
            keys: Keys::Zipf { n: USERS, exponent: 1.0 },
            warm_up: self.warm_up,
            length: Length::Time(self.length),
            pids: vec![server.child.pid()],
            ..Plan::new(Endpoint::Tcp(server.addr))
        }
    }
}

/// The CPU share from which a server counts as the bottleneck of a closed loop.
const SATURATED: f64 = 0.95;

/// Runs one pass against a server, and repeats it if it is invalid. Fails if no pass is valid.
pub(crate) fn pass(server: &mut Server, plan: &Plan) -> Result<Report, Error> {
    let name = server.child.name;
    let mut tries = 0;
    loop {
        tries += 1;
        let report = drive(name, plan, &mut *server.payload, |_| {})?;
        let Some(flaw) = flaw(plan, &report) else {
            return Ok(report);
        };
        ensure(tries < TRIES, || {
            format!(
                "{name}: {tries} passes do not count: {flaw}. Is something else running on this machine? Try \
                 again when it is calm."
            )
        })?;
    }
}

/// Returns why a pass is invalid: the figures would be those of the generator, or of a different load.
fn flaw(plan: &Plan, report: &Report) -> Option<String> {
    let (busy, starved) = (report.generator.share * 100.0, report.generator.starved * 100.0);
    let generator = format!(
        "the load generator was busy for {busy:.0} % of the time and kept from its core for {starved:.0} %"
    );
    let server = report.processes.first().map_or(0.0, |server| server.cpu_s / report.elapsed_s);
    match plan.pace {
        // A server that used its whole core is the bottleneck, however busy the generator was.
        Pace::Closed if report.generator.is_limit() && server < SATURATED => {
            let server = server * 100.0;
            Some(format!("{generator}, the server for {server:.0} %, so that the generator was the limit"))
        }
        Pace::Open { per_second, .. } if report.per_second < LEAST_KEPT * per_second => {
            let kept = report.per_second;
            Some(format!("{per_second:.0} calls per second were due and {kept:.0} came; {generator}"))
        }
        Pace::Closed | Pace::Open { .. } => None,
    }
}

/// Runs the generator, and fails if a call failed or was denied.
pub(crate) fn drive(
    name: &str,
    plan: &Plan,
    payload: &mut dyn Payload,
    mut tell: impl FnMut(Status),
) -> Result<Report, Error> {
    let report = tidegate_load::run(plan, payload, &mut |status: Status| {
        tell(status);
        ControlFlow::Continue(())
    })?;
    ensure(report.errors == 0 && report.denied == 0, || {
        let (errors, denied, texts) = (report.errors, report.denied, &report.error_texts);
        format!("{name}: {errors} calls failed and {denied} were denied, which none should: {texts:?}")
    })?;
    Ok(report)
}
