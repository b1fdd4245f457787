//! Measures ten thousand rules: how long the service takes to start, and how a reload affects decisions.

use std::fs;
use std::time::Duration;

use serde::Serialize;
use tidegate_load::payload::EnvoyRateLimit;
use tidegate_load::{Endpoint, Keys, Length, Pace, Phase, Plan, Status};

use super::programs::Programs;
use super::servers::{generous_rules, many_rules};
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target};
use crate::progress::Progress;
use crate::spread::Spread;
use crate::study::bed::{BATCHED, RULES, Tidegate, drive};

const RULE_COUNT: u64 = 10_000;
const MOST_START_MS: f64 = 200.0;
/// Decisions per second during the reload: few enough to leave the server's core mostly idle.
const PER_SECOND: f64 = 5_000.0;
/// The share of a pass after which the rules change; they are reloaded within a second.
const CHANGE_AT: f64 = 0.2;

#[derive(Serialize)]
struct Found {
    start_ms: Spread,
    start_with_one_rule_ms: Spread,
    calm_longest_us: Spread,
    calm_p99_us: Spread,
    reload_longest_us: Spread,
    reload_p99_us: Spread,
}

pub(super) fn run(options: &Options, programs: &Programs) -> Result<Finding, Error> {
    let (starts, passes) = if options.quick { (3, 2) } else { (7, 5) };
    let progress = Progress::new("service rules", (starts + passes) as u64);
    let (start_ms, start_with_one_rule_ms) = start(programs, starts, &progress)?;
    let [calm, reload] = reload(programs, passes, &progress)?;
    drop(progress);
    Ok(finding(&Found {
        start_ms,
        start_with_one_rule_ms,
        calm_longest_us: Spread::of(calm.longest_us),
        calm_p99_us: Spread::of(calm.p99_us),
        reload_longest_us: Spread::of(reload.longest_us),
        reload_p99_us: Spread::of(reload.p99_us),
    }))
}

/// Returns the start time in milliseconds with many rules, and with one.
fn start(programs: &Programs, starts: usize, progress: &Progress) -> Result<(Spread, Spread), Error> {
    let (many, one) = (many_rules(RULE_COUNT, 1_000_000), generous_rules());
    let (mut with_many, mut with_one) = (Vec::new(), Vec::new());
    for number in 0..starts {
        progress.step(format!("start {} with {RULE_COUNT} rules", number + 1));
        with_many.push(Tidegate::start(&programs.launcher, &many, &[])?.ready_after_s * 1e3);
        with_one.push(Tidegate::start(&programs.launcher, &one, &[])?.ready_after_s * 1e3);
        progress.done(1);
    }
    Ok((Spread::of(with_many), Spread::of(with_one)))
}

/// The longest decisions, one value for each pass.
#[derive(Default)]
struct Longest {
    longest_us: Vec<f64>,
    p99_us: Vec<f64>,
}

/// Returns the longest decisions without other work, and while rules are reloaded.
fn reload(programs: &Programs, passes: usize, progress: &Progress) -> Result<[Longest; 2], Error> {
    let tidegate = Tidegate::start(&programs.launcher, &many_rules(RULE_COUNT, 1_000_000), &[])?;
    let folder = tidegate.child.folder.path().to_owned();
    let plan = Plan {
        connections: BATCHED.connections,
        streams: BATCHED.streams,
        pace: Pace::Open { per_second: PER_SECOND, poisson: true },
        keys: Keys::Uniform(RULE_COUNT),
        warm_up: Duration::from_millis(300),
        length: Length::Time(Duration::from_millis(2_500)),
        ..Plan::new(Endpoint::Tcp(tidegate.grpc()))
    };
    let mut found = [Longest::default(), Longest::default()];
    for number in 0..passes {
        for (at, longest) in found.iter_mut().enumerate() {
            let changes = at == 1;
            progress.step(format!("pass {}{}", number + 1, if changes { " with a reload" } else { "" }));
            // Written before the pass, and renamed during it, which takes no time.
            let (next, rules) = (folder.join("next"), folder.join(RULES));
            fs::write(&next, many_rules(RULE_COUNT, 1_000_001 + number as u64)).map_err(Error::io(&next))?;
            let before = tidegate.says("/rules/generation")?;
            let mut due = changes;
            let report =
                drive("Tidegate", &plan, &mut EnvoyRateLimit::new("api", "user"), |status: Status| {
                    if due && status.phase == Phase::Measured && status.done >= CHANGE_AT {
                        due = false;
                        // If this failed, the generation would show it.
                        let _ = fs::rename(&next, &rules);
                    }
                })?;
            let loads = tidegate.says("/rules/generation")? - before;
            ensure(loads == u64::from(changes), || {
                format!(
                    "the rules were to be read {} times during a pass, and were {loads} times",
                    u8::from(changes)
                )
            })?;
            longest.longest_us.push(report.latency.max_us);
            longest.p99_us.push(report.latency.p99_us);
        }
        progress.done(1);
    }
    Ok(found)
}

fn finding(found: &Found) -> Finding {
    let mut start = Table::new("From the start of the process until `/readyz` answers 200", ["rules", "ms"]);
    start.row(["1", &format!("{:.0}", found.start_with_one_rule_ms)]);
    start.row(["10,000", &format!("{:.0}", found.start_ms)]);
    let columns = ["", "99 %, µs", "longest, µs"];
    let mut reload = Table::new("Decisions while 10,000 rules are read anew: median (least-most)", columns);
    let mut row =
        |what: &str, p99: Spread, longest: Spread| reload.row([what, &p99.to_string(), &longest.to_string()]);
    row("nothing beside", found.calm_p99_us, found.calm_longest_us);
    row("rules read anew once", found.reload_p99_us, found.reload_longest_us);
    let note = format!(
        "Each rule is a token bucket for one user. The service has one core for everything, so that reading \
         rules competes with deciding. For the second table {PER_SECOND:.0} decisions per second are asked for \
         over gRPC, at random times, in passes of 2.5 s; in every other one the rule file is replaced by one \
         with other numbers, and the service is asked afterwards whether it has read it."
    );
    let start_target =
        Target::at_most("start with 10,000 rules", found.start_ms.median, MOST_START_MS, " ms");
    Finding {
        study: "service rules",
        title: "The service: 10,000 rules",
        notes: vec![note],
        tables: vec![start, reload],
        targets: vec![start_target],
        plots: Vec::new(),
        data: serde_json::json!(found),
    }
}
