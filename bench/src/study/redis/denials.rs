//! Measures how many commands a flood of denied requests sends to Redis.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;
use tidegate_load::payload::EnvoyRateLimit;
use tidegate_load::{Keys, Plan, Report, Status};
use tidegate_testkit::redis::RedisServer;

use super::kind::{KINDS, Kind};
use super::passes;
use super::world::World;
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target, grouped};
use crate::progress::Progress;
use crate::spread::Spread;
use crate::study::bed::{Passes, USERS};

/// The largest ratio of Redis commands to requests, in percent.
const MOST_PERCENT: f64 = 1.0;
/// Commands of the test kit itself between two reads of the counts: the first read, and the login of the second.
const OWN_COMMANDS: u64 = 2;
/// The number of attackers. The target applies to the first case; the second shows how it scales.
const ATTACKERS: [u64; 2] = [100, USERS];

#[derive(Serialize)]
struct Row {
    kind: &'static str,
    attackers: u64,
    per_second: Spread,
    /// Script calls, in percent of the requests.
    script_percent: Spread,
    /// All commands, including those that scripts run, in percent of the requests.
    command_percent: Spread,
}

pub(super) fn run(options: &Options, world: &World) -> Result<Finding, Error> {
    let passes = passes(options);
    let all: Vec<_> =
        KINDS.iter().flat_map(|kind| ATTACKERS.iter().map(move |attackers| (kind, *attackers))).collect();
    let progress = Progress::new("redis denials", (all.len() * passes.count) as u64);
    let mut figures: Vec<Vec<[f64; 3]>> = all.iter().map(|_| Vec::new()).collect();
    for number in 0..passes.count {
        for ((kind, attackers), figures) in all.iter().zip(&mut figures) {
            progress.step(format!("pass {}: {}, {attackers} attackers", number + 1, kind.name));
            figures.push(flood(world, passes, kind, *attackers)?);
            progress.done(1);
        }
    }
    drop(progress);
    let rows: Vec<_> = all
        .iter()
        .zip(figures)
        .map(|((kind, attackers), figures)| {
            let [per_second, script_percent, command_percent] =
                [0, 1, 2].map(|at| Spread::of(figures.iter().map(|figures| figures[at]).collect()));
            Row { kind: kind.name, attackers: *attackers, per_second, script_percent, command_percent }
        })
        .collect();
    Ok(finding(&rows, passes))
}

/// Returns requests per second, and script calls and all commands in percent of the requests.
fn flood(world: &World, passes: Passes, kind: &Kind, attackers: u64) -> Result<[f64; 3], Error> {
    let plan = Plan { keys: Keys::Uniform(attackers), warm_up: Duration::ZERO, ..world.plan(passes) };
    // Uses up the limit of every attacker, so that the denials are known.
    let first = Plan { keys: Keys::Sequential(attackers), ..plan.clone() };
    let _ = denied(&first, kind)?;
    let before = commands(&world.store);
    let report = denied(&plan, kind)?;
    let mut given = commands(&world.store);
    for (command, count) in before {
        *given.entry(command).or_default() -= count;
    }
    ensure(report.denied == report.requests, || {
        let (denied, requests) = (report.denied, report.requests);
        format!("{denied} of {requests} requests were denied; all should be")
    })?;
    let all: u64 = given.values().sum::<u64>().saturating_sub(OWN_COMMANDS);
    let scripts: u64 = ["eval", "evalsha"].iter().filter_map(|name| given.get(*name)).sum();
    let percent = |count: u64| count as f64 * 100.0 / report.requests as f64;
    Ok([report.per_second, percent(scripts), percent(all)])
}

fn denied(plan: &Plan, kind: &Kind) -> Result<Report, Error> {
    let mut payload = EnvoyRateLimit::new("api", kind.strict);
    let report = tidegate_load::run(plan, &mut payload, &mut |_: Status| ControlFlow::Continue(()))?;
    ensure(report.errors == 0, || {
        format!("{} calls failed, which none should: {:?}", report.errors, report.error_texts)
    })?;
    Ok(report)
}

/// Returns how often each command was run so far, by clients and by scripts.
fn commands(server: &RedisServer) -> HashMap<String, u64> {
    let said = server.command(&["INFO", "commandstats"]).text();
    let count = |line: &str| {
        let (command, numbers) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = numbers.split(',').next()?.parse().ok()?;
        Some((command.to_owned(), calls))
    };
    said.lines().filter_map(count).collect()
}

fn finding(rows: &[Row], passes: Passes) -> Finding {
    let caption = format!("A flood of denied requests: median (least-most) of {} passes", passes.count);
    let columns =
        ["", "attackers", "denials/s", "script calls, % of requests", "all commands of Redis, % of requests"];
    let mut table = Table::new(caption, columns);
    for row in rows {
        table.row([
            row.kind.to_owned(),
            grouped(row.attackers),
            row.per_second.to_string(),
            format!("{:.3}", row.script_percent),
            format!("{:.3}", row.command_percent),
        ]);
    }
    let note = "Each attacker has one request an hour, which is spent before; then all of them, evenly, ask as \
                often as they get answers, on 4 connections x 32 streams. What Redis counts of its commands \
                meanwhile (`INFO commandstats`) is held against the requests: the calls of scripts alone, and all \
                commands with those that scripts give, the service's heartbeats among them. A denial is \
                remembered for a second.";
    let what = format!("commands of Redis in a flood of denied requests by {} attackers", rows[0].attackers);
    let target = Target::below(what, rows[0].command_percent.median, MOST_PERCENT, " %");
    Finding {
        study: "redis denials",
        title: "The service on Redis: denied requests",
        notes: vec![note.to_owned()],
        tables: vec![table],
        targets: vec![target],
        plots: Vec::new(),
        data: serde_json::json!(rows),
    }
}
