//! Measures how long a decision takes: one at a time, and at half of the maximum load.

use serde::Serialize;
use tidegate_load::{Endpoint, Latency, Pace, Plan};

use super::bare::Bare;
use super::kind::{KINDS, Kind};
use super::passes;
use super::ratelimit;
use super::world::{World, one_descriptor, pass, three_descriptors};
use crate::cli::Options;
use crate::error::Error;
use crate::finding::{Finding, Table, Target, grouped};
use crate::progress::Progress;
use crate::spread::Spread;
use crate::study::bed::{Launcher, P50, P99, PERCENTILES, Passes, Tidegate, percentiles};

/// The largest ratio of the median of one request at a time to that of a script call.
const MOST_ALONE: f64 = 1.5;
/// The bound that articles on rate limiters set for the 99th percentile with a shared store.
const BAR_US: f64 = 5_000.0;

/// The measured servers.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Tidegate,
    /// The service with threads that never poll for replies.
    Sleepy,
    /// Redis on another core than its client.
    Bare,
    /// Redis on the core of its client.
    BareSameCore,
    /// The service with requests of three descriptors.
    Three,
    /// envoyproxy/ratelimit with one descriptor, or with three.
    Ratelimit {
        three: bool,
    },
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "Tidegate",
            Self::Sleepy => "Tidegate, redis.busy_poll 0",
            Self::Bare => "bare EVALSHA",
            Self::BareSameCore => "bare EVALSHA, Redis on its client's core",
            Self::Three => "Tidegate, 3 descriptors",
            Self::Ratelimit { three: false } => "envoyproxy/ratelimit",
            Self::Ratelimit { three: true } => "envoyproxy/ratelimit, 3 descriptors",
        }
    }

    /// Returns whether it is measured with every kind of limit, or only with the first, to which targets apply.
    fn has_every_kind(self) -> bool {
        !matches!(self, Self::Three | Self::Ratelimit { .. })
    }
}

/// The result of one pass.
struct Pass {
    latency: Latency,
    /// The 99th percentile of how late the generator sent, if calls were due at certain times.
    send_delay_p99_us: Option<f64>,
}

impl Pass {
    /// Creates the result for a client that sends each call as soon as it can.
    fn without_delay(latency: Latency) -> Self {
        Self { latency, send_delay_p99_us: None }
    }
}

#[derive(Serialize)]
struct Row {
    kind: &'static str,
    who: &'static str,
    /// Latency by [`PERCENTILES`].
    latency_us: Vec<Spread>,
    /// The 99th percentile of how late the generator sent.
    send_delay_p99_us: Option<Spread>,
    /// The ratios of the latencies to those of bare EVALSHA, computed per pair of passes.
    to_bare: Vec<Spread>,
}

/// The latencies of all servers in one situation.
#[derive(Serialize)]
struct Found(Vec<Row>);

impl Found {
    /// Returns the row of a server with the first kind of limit, to which targets apply.
    fn of(&self, subject: Subject) -> &Row {
        self.0.iter().find(|row| row.who == subject.name()).expect("everybody has a row")
    }
}

/// Runs the study at half of `most_per_second`, which is measured if it is `None`.
pub(super) fn run(
    options: &Options,
    launcher: &Launcher,
    world: &World,
    most_per_second: Option<f64>,
) -> Result<Finding, Error> {
    let (passes, short) = (passes(options), Passes::short(options.quick));
    let sleepy = world.start_sleepy(launcher)?;
    let progress = Progress::new("redis latency", (passes.count + short.count) as u64);
    let most_per_second = match most_per_second {
        Some(known) => known,
        None => most(world, passes, &progress)?,
    };
    let per_second = most_per_second / 2.0;
    let subjects = [Subject::Tidegate, Subject::Three, Subject::Sleepy, Subject::Bare];
    // At half the service's load, which exceeds its capacity, its queue would only grow.
    let ratelimit = [false, true].map(|three| Subject::Ratelimit { three });
    let ratelimit = ratelimit.into_iter().filter(|_| world.ratelimit.is_some());
    let one_by_one: Vec<_> = subjects.into_iter().chain([Subject::BareSameCore]).chain(ratelimit).collect();
    let one_at_a_time = measure(&one_by_one, passes, &progress, |subject, kind| {
        let plan = Plan { connections: 1, streams: 1, ..world.plan(passes) };
        match subject {
            Subject::Bare => Bare::new(&world.bare, kind).alone(passes).map(Pass::without_delay),
            Subject::BareSameCore => Bare::new(&world.store, kind).alone(passes).map(Pass::without_delay),
            _ => of_service(world, &sleepy, subject, kind, &plan),
        }
    })?;
    let half_load = measure(&subjects, short, &progress, |subject, kind| {
        let plan = Plan { pace: Pace::Open { per_second, poisson: true }, ..world.plan(short) };
        match subject {
            Subject::Bare | Subject::BareSameCore => {
                Bare::new(&world.bare, kind).open_loop(per_second, short).map(Pass::without_delay)
            }
            _ => of_service(world, &sleepy, subject, kind, &plan),
        }
    })?;
    drop(progress);
    Ok(finding(&one_at_a_time, &half_load, per_second, [passes, short]))
}

fn most(world: &World, passes: Passes, progress: &Progress) -> Result<f64, Error> {
    progress.step("the most decisions per second");
    let plan = world.plan(passes);
    let rates: Result<Vec<f64>, Error> =
        (0..passes.count).map(|_| Ok(pass(&plan, one_descriptor(KINDS[0].generous))?.per_second)).collect();
    Ok(Spread::of(rates?).median)
}

/// Runs a pass against a service.
fn of_service(
    world: &World,
    sleepy: &Tidegate,
    subject: Subject,
    kind: &Kind,
    plan: &Plan,
) -> Result<Pass, Error> {
    let one = one_descriptor(kind.generous);
    let report = match (subject, &world.ratelimit) {
        (Subject::Three, _) => pass(plan, three_descriptors()),
        (Subject::Sleepy, _) => pass(&to(sleepy, plan), one),
        (Subject::Ratelimit { three }, Some(server)) => {
            pass(&ratelimit::plan(server, world, plan), if three { three_descriptors() } else { one })
        }
        _ => pass(plan, one),
    }?;
    let send_delay_p99_us = report.send_delay.map(|delay| delay.p99_us);
    Ok(Pass { latency: report.latency, send_delay_p99_us })
}

/// Returns the same plan for another service.
fn to(service: &Tidegate, plan: &Plan) -> Plan {
    Plan { endpoint: Endpoint::Tcp(service.grpc()), pids: vec![service.child.pid()], ..plan.clone() }
}

fn measure(
    subjects: &[Subject],
    passes: Passes,
    progress: &Progress,
    once: impl Fn(Subject, &Kind) -> Result<Pass, Error>,
) -> Result<Found, Error> {
    let all: Vec<_> = KINDS
        .iter()
        .flat_map(|kind| subjects.iter().map(move |subject| (*subject, kind)))
        .filter(|(subject, kind)| subject.has_every_kind() || kind.name == KINDS[0].name)
        .collect();
    let mut latencies: Vec<Vec<Latency>> = all.iter().map(|_| Vec::new()).collect();
    let mut delays: Vec<Vec<f64>> = all.iter().map(|_| Vec::new()).collect();
    for number in 0..passes.count {
        for turn in 0..all.len() {
            let at = (turn + number) % all.len();
            let (subject, kind) = all[at];
            progress.step(format!("pass {}: {}: {}", number + 1, kind.name, subject.name()));
            let pass = once(subject, kind)?;
            latencies[at].push(pass.latency);
            delays[at].extend(pass.send_delay_p99_us);
        }
        progress.done(1);
    }
    let rows = all.iter().zip(&latencies).zip(delays).map(|(((subject, kind), theirs), delays)| {
        let bare = all.iter().position(|(who, what)| *who == Subject::Bare && what.name == kind.name);
        let bare = &latencies[bare.expect("bare EVALSHA takes part")];
        let to_bare = PERCENTILES.map(|(_, of)| {
            Spread::of(theirs.iter().zip(bare).map(|(theirs, bare)| of(theirs) / of(bare)).collect())
        });
        let (kind, who) = (kind.name, subject.name());
        let send_delay_p99_us = (!delays.is_empty()).then(|| Spread::of(delays));
        Row { kind, who, latency_us: percentiles(theirs), send_delay_p99_us, to_bare: to_bare.to_vec() }
    });
    Ok(Found(rows.collect()))
}

fn table(caption: &str, found: &Found, passes: Passes) -> Table {
    let caption = format!("{caption}, µs: median (least-most) of {} passes", passes.count);
    // With one call at a time, no call is due before it is sent.
    let has_delays = found.0.iter().any(|row| row.send_delay_p99_us.is_some());
    let columns = ["", ""].into_iter().chain(PERCENTILES.map(|(name, _)| name));
    let mut table = Table::new(caption, columns.chain(has_delays.then_some("sent late, 99 %")));
    for row in &found.0 {
        let names = [row.kind, row.who].map(str::to_owned);
        let delay = row.send_delay_p99_us.map(|delay| delay.to_string()).unwrap_or_default();
        let latency = row.latency_us.iter().map(ToString::to_string);
        table.row(names.into_iter().chain(latency).chain(has_delays.then_some(delay)));
    }
    table
}

fn finding(alone: &Found, half_load: &Found, per_second: f64, [passes, short]: [Passes; 2]) -> Finding {
    let ours = half_load.of(Subject::Tidegate);
    let p99_us = ours.latency_us[P99].median;
    let late_us = ours.send_delay_p99_us.map_or(0.0, |delay| delay.median);
    let note = format!(
        "The service has core 0; its Redis and the load generator share core 1. Bare EVALSHA is a client on \
         core 1 that calls a script of the same algorithm for each decision, over a connection of its own; its \
         Redis has core 0. A second service has `redis.busy_poll: 0`: its threads do not look for answers and \
         requests but sleep until they come. With 3 descriptors, a request is charged to three counters: key and \
         endpoint, address, one for all. envoyproxy/ratelimit, where it is installed, has the place of the service. \
         One at a time: the next call leaves when the answer to the last has come; here also with client and \
         Redis on one core, where neither has to be woken on another. Half load: {} calls per second, half of \
         what the service reaches in a closed loop, at random times (Poisson) on 4 connections with at most 32 at \
         once on each, in short passes, most of which the machine does not interrupt; time counts from when a call \
         was due. \"Sent late\" is how long calls waited for the generator, whose core Redis has as well. A bare Redis that cannot do that many has a queue that grows for as long as the pass lasts. The \
         bar that articles on rate limiters set for 99 % with a shared store is {:.0} ms; Tidegate took {:.2} ms, \
         {:.2} times what bare EVALSHA did; 99 % of the calls were sent within {:.2} ms of when they were due.",
        grouped(per_second as u64),
        BAR_US / 1e3,
        p99_us / 1e3,
        ours.to_bare[P99].median,
        late_us / 1e3,
    );
    let targets = vec![
        Target::at_most(
            "median of one request at a time on Redis beside a bare EVALSHA",
            alone.of(Subject::Tidegate).to_bare[P50].median,
            MOST_ALONE,
            "x",
        ),
        Target::at_most("99th percentile on Redis at half load", p99_us / 1e3, BAR_US / 1e3, " ms"),
    ];
    Finding {
        study: "redis latency",
        title: "The service on Redis: latency",
        notes: vec![note],
        tables: vec![table("One at a time", alone, passes), table("Half load", half_load, short)],
        targets,
        plots: Vec::new(),
        data: serde_json::json!({ "per_second": per_second, "alone": alone, "half_load": half_load }),
    }
}
