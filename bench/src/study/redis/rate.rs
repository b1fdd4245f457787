//! Measures decisions per second, and what each costs Redis.

use serde::Serialize;
use tidegate_load::payload::EnvoyRateLimit;
use tidegate_load::{Keys, Plan};

use super::bare::{Bare, PIPELINE};
use super::kind::{KINDS, Kind};
use super::ratelimit;
use super::world::{World, one_descriptor, pass, three_descriptors};
use super::{Programs, passes};
use crate::cli::Options;
use crate::error::Error;
use crate::finding::{Finding, Plot, Table, Target};
use crate::plot::{Bar, Bars, bar_chart, palette};
use crate::progress::Progress;
use crate::spread::Spread;
use crate::study::bed::Passes;

const PLOT: &str = "redis-rate.svg";
/// The smallest ratio of decisions per second to those of INCR.
const LEAST_ZIPF: f64 = 1.8;
const LEAST_HOT: f64 = 2.0;
/// The largest ratio of the CPU time of Redis for a decision to that for a separate script call.
const MOST_CPU: f64 = 0.4;
/// The largest ratios of the CPU time for a request of three descriptors to that for one: of Redis, and of the
/// service.
const MOST_REDIS_FOR_THREE: f64 = 2.0;
const MOST_SERVICE_FOR_THREE: f64 = 1.6;

/// What is measured in turn in each pass.
#[derive(Clone, Copy)]
enum Turn {
    Incr,
    Pipelined(&'static Kind),
    Zipf(&'static Kind),
    Hot(&'static Kind),
    /// Requests of three descriptors, with the limits of the first kind.
    Three,
    /// envoyproxy/ratelimit with one descriptor, or with three.
    Ratelimit {
        three: bool,
    },
}

/// The result of one pass.
struct Figures {
    per_second: f64,
    redis_us: f64,
    service: Option<Service>,
}

struct Service {
    cpu_us: f64,
    /// CPU use of the service, as a share of the pass.
    core: f64,
    /// CPU use of Redis and the generator, as a share of the pass.
    other_core: f64,
}

#[derive(Serialize)]
struct Row {
    what: String,
    per_second: Spread,
    /// The ratio to INCR, computed per pair of passes.
    to_incr: Spread,
    redis_us: Spread,
    /// The ratio to a pipelined script call of the same algorithm, computed per pair of passes.
    to_script: Option<Spread>,
    service_us: Option<Spread>,
    service_core: Option<Spread>,
    other_core: Option<Spread>,
    #[serde(skip)]
    turn: Turn,
}

/// Runs the study. Returns the finding, and the most decisions per second.
pub(super) fn run(options: &Options, programs: &Programs, world: &World) -> Result<(Finding, f64), Error> {
    let passes = passes(options);
    let progress = Progress::new("redis rate", passes.count as u64);
    let turns: Vec<_> = std::iter::once(Turn::Incr)
        .chain(KINDS.iter().flat_map(|kind| [Turn::Pipelined(kind), Turn::Zipf(kind), Turn::Hot(kind)]))
        .chain([Turn::Three])
        .chain(
            [false, true]
                .map(|three| Turn::Ratelimit { three })
                .into_iter()
                .filter(|_| world.ratelimit.is_some()),
        )
        .collect();
    let mut figures: Vec<Vec<Figures>> = turns.iter().map(|_| Vec::new()).collect();
    for number in 0..passes.count {
        for turn in 0..turns.len() {
            // Each of them comes first about equally often.
            let at = (turn + number) % turns.len();
            progress.step(format!("pass {}: {}", number + 1, turns[at].name()));
            figures[at].push(turns[at].take(programs, world, passes)?);
        }
        progress.done(1);
    }
    drop(progress);
    let rows = rows(&turns, &figures);
    draw(options, &rows)?;
    let zipf = rows.iter().find(|row| matches!(row.turn, Turn::Zipf(_)));
    let most_per_second = zipf.map_or(0.0, |row| row.per_second.median);
    Ok((finding(&rows, programs, passes), most_per_second))
}

impl Turn {
    fn name(self) -> String {
        match self {
            Self::Incr => "INCR, 50 clients".to_owned(),
            Self::Pipelined(kind) => format!("{}: EVALSHA, {PIPELINE} at once", kind.name),
            Self::Zipf(kind) => format!("{}: Tidegate, zipf", kind.name),
            Self::Hot(kind) => format!("{}: Tidegate, one hot key", kind.name),
            Self::Three => format!("{}: Tidegate, zipf, 3 descriptors", KINDS[0].name),
            Self::Ratelimit { three: false } => "fixed_window: envoyproxy/ratelimit, zipf".to_owned(),
            Self::Ratelimit { three: true } => {
                "fixed_window: envoyproxy/ratelimit, zipf, 3 descriptors".to_owned()
            }
        }
    }

    fn take(self, programs: &Programs, world: &World, passes: Passes) -> Result<Figures, Error> {
        let served = match self {
            Self::Incr => programs.incr.run(&world.bare)?,
            Self::Pipelined(kind) => Bare::new(&world.bare, kind).pipelined(passes)?,
            Self::Zipf(kind) => return service(&world.plan(passes), one_descriptor(kind.generous)),
            Self::Hot(kind) => {
                let plan = Plan { keys: Keys::Hot, ..world.plan(passes) };
                return service(&plan, one_descriptor(kind.generous));
            }
            Self::Three => return service(&world.plan(passes), three_descriptors()),
            Self::Ratelimit { three } => {
                let server =
                    world.ratelimit.as_ref().ok_or_else(|| Error::Wrong("it does not run".to_owned()))?;
                let requests = if three { three_descriptors() } else { one_descriptor("user") };
                return service(&ratelimit::plan(server, world, &world.plan(passes)), requests);
            }
        };
        Ok(Figures { per_second: served.per_second, redis_us: served.redis_us, service: None })
    }

    /// Returns whether this is the script call that `other` is compared with.
    fn is_script_of(self, other: Self) -> bool {
        match (self, other) {
            (Self::Pipelined(one), Self::Zipf(two) | Self::Hot(two)) => one.name == two.name,
            _ => false,
        }
    }
}

fn service(plan: &Plan, requests: EnvoyRateLimit) -> Result<Figures, Error> {
    let report = pass(plan, requests)?;
    let [service, redis] = [0, 1].map(|at| &report.processes[at]);
    Ok(Figures {
        per_second: report.per_second,
        redis_us: redis.us_per_request,
        service: Some(Service {
            cpu_us: service.us_per_request,
            core: service.cpu_s / report.elapsed_s,
            other_core: (redis.cpu_s + report.generator.cpu_s) / report.elapsed_s,
        }),
    })
}

fn rows(turns: &[Turn], figures: &[Vec<Figures>]) -> Vec<Row> {
    let ratio = |ours: &[Figures], theirs: &[Figures], of: fn(&Figures) -> f64| {
        Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| of(ours) / of(theirs)).collect())
    };
    let row = |(turn, ours): (&Turn, &Vec<Figures>)| {
        let spread = |of: fn(&Figures) -> f64| Spread::of(ours.iter().map(of).collect());
        let of_service = |of: fn(&Service) -> f64| {
            let values: Vec<_> = ours.iter().filter_map(|figures| figures.service.as_ref()).map(of).collect();
            (!values.is_empty()).then(|| Spread::of(values))
        };
        let script = turns.iter().position(|other| other.is_script_of(*turn));
        Row {
            what: turn.name(),
            per_second: spread(|figures| figures.per_second),
            to_incr: ratio(ours, &figures[0], |figures| figures.per_second),
            redis_us: spread(|figures| figures.redis_us),
            to_script: script.map(|script| ratio(ours, &figures[script], |figures| figures.redis_us)),
            service_us: of_service(|service| service.cpu_us),
            service_core: of_service(|service| service.core),
            other_core: of_service(|service| service.other_core),
            turn: *turn,
        }
    };
    turns.iter().zip(figures).map(row).collect()
}

fn draw(options: &Options, rows: &[Row]) -> Result<(), Error> {
    let bars = |title: &str, value: fn(&Row) -> Spread| Bars {
        title: title.to_owned(),
        bars: rows
            .iter()
            .map(|row| {
                let ours = row.service_us.is_some() && !matches!(row.turn, Turn::Ratelimit { .. });
                let colour = if ours { palette::TIDEGATE } else { palette::PEER };
                Bar { name: row.what.clone(), value: value(row), colour }
            })
            .collect(),
    };
    let title = "Decisions or calls per second: median, least and most";
    bar_chart(&options.plot(PLOT), title, &[bars("", |row| row.per_second)])
}

fn finding(rows: &[Row], programs: &Programs, passes: Passes) -> Finding {
    let columns = [
        "",
        "per second",
        "to INCR",
        "Redis CPU µs each",
        "to EVALSHA",
        "service CPU µs each",
        "service's core",
        "Redis' and generator's core",
    ];
    let mut table = Table::new(format!("Median (least-most) of {} passes", passes.count), columns);
    let told = |spread: Option<Spread>, digits: usize| {
        spread.map(|spread| format!("{spread:.digits$}")).unwrap_or_default()
    };
    for row in rows {
        table.row([
            row.what.clone(),
            row.per_second.to_string(),
            format!("{:.2}", row.to_incr),
            format!("{:.2}", row.redis_us),
            told(row.to_script, 2),
            told(row.service_us, 1),
            told(row.service_core, 2),
            told(row.other_core, 2),
        ]);
    }
    let notes = vec![
        format!(
            "The service has core 0; its Redis and the load generator share core 1. The other lines are of a \
             second Redis, on core 0 while the service has nothing to do, and asked from core 1: INCR by \
             redis-benchmark with 50 clients and no pipeline, and a script call for each decision (GCRA with \
             `SET PX`; two counters in a hash), {PIPELINE} in a pipeline. All take turns, in {} passes of \
             {:.1} s after {:.1} s of warm-up, in a closed loop of gRPC on 4 connections x 32 streams, over \
             10,000 keys by a zipf law or one key. Nothing is denied, and whatever the store did not decide \
             would be. CPU is that of the whole process, kernel included.",
            passes.count,
            passes.length.as_secs_f64(),
            passes.warm_up.as_secs_f64(),
        ),
        "Each request of token_bucket counts for a second, each of sliding_window for up to two minutes, so \
         that counters are found when they are asked for again. Targets are about token_bucket. With 3 \
         descriptors, a request is charged to three counters at once: one for the API key and endpoint, one for the \
         address, one for all requests."
            .to_owned(),
        if rows.iter().any(|row| matches!(row.turn, Turn::Ratelimit { .. })) {
            "envoyproxy/ratelimit has the place of the service: the same core, the same Redis, the same requests, its \
             settings as they come."
        } else {
            "envoyproxy/ratelimit was not installed, which needs Go, and was not measured."
        }
        .to_owned(),
    ];
    Finding {
        study: "redis rate",
        title: "The service on Redis: decisions per second",
        notes,
        tables: vec![programs.table(), table],
        targets: targets(rows),
        plots: vec![Plot { file: PLOT, shows: "Decisions per second on Redis, and calls of Redis alone" }],
        data: serde_json::json!(rows),
    }
}

fn targets(rows: &[Row]) -> Vec<Target> {
    let judged = |kind: &Kind| kind.name == KINDS[0].name;
    let mut targets = Vec::new();
    for row in rows {
        match row.turn {
            Turn::Zipf(kind) if judged(kind) => {
                let what = "decisions/s on Redis beside INCR: zipf";
                targets.push(Target::at_least(what, row.to_incr.median, LEAST_ZIPF, "x"));
                if let Some(to_script) = row.to_script {
                    let what = "CPU of Redis per decision beside a pipelined EVALSHA each: zipf";
                    targets.push(Target::at_most(what, to_script.median, MOST_CPU, "x"));
                }
            }
            Turn::Hot(kind) if judged(kind) => {
                let what = "decisions/s on Redis beside INCR: one hot key";
                targets.push(Target::at_least(what, row.to_incr.median, LEAST_HOT, "x"));
            }
            _ => {}
        }
    }
    let find = |wanted: fn(Turn) -> bool| rows.iter().find(|row| wanted(row.turn));
    let one = find(|turn| matches!(turn, Turn::Zipf(kind) if kind.name == KINDS[0].name));
    if let (Some(one), Some(three)) = (one, find(|turn| matches!(turn, Turn::Three))) {
        let what = "CPU of Redis per request of 3 descriptors beside one of 1";
        targets.push(Target::at_most(
            what,
            three.redis_us.median / one.redis_us.median,
            MOST_REDIS_FOR_THREE,
            "x",
        ));
        if let (Some(one), Some(three)) = (one.service_us, three.service_us) {
            let what = "CPU of the service on Redis per request of 3 descriptors beside one of 1";
            targets.push(Target::at_most(what, three.median / one.median, MOST_SERVICE_FOR_THREE, "x"));
        }
    }
    targets
}
