//! Measures the CPU time per decision of each server.

use serde::Serialize;

use super::programs::Programs;
use super::servers::{self, Stack};
use crate::cli::Options;
use crate::error::Error;
use crate::finding::{Finding, Plot, Table, Target};
use crate::plot::{Bar, Bars, bar_chart, palette};
use crate::progress::Progress;
use crate::spread::Spread;
use crate::study::bed::{BATCHED, Passes, Server, Shape, Tidegate, UNBATCHED, WITH_THREE, drive, pass};

const PLOT: &str = "service-cpu.svg";

/// Servers that get the same requests in turns. The first one is Tidegate.
struct Contest {
    what: &'static str,
    shape: Shape,
    start: fn(&Programs) -> Result<Vec<Server>, Error>,
    /// The largest ratios of Tidegate's CPU time to that of other servers, by name.
    targets: &'static [(&'static str, f64)],
}

const CONTESTS: [Contest; 3] = [
    Contest {
        what: "gRPC, 4 connections x 32 streams",
        shape: BATCHED,
        start: start_grpc,
        targets: &[("throttlecrab", 0.5), ("tonic, constant", 0.5)],
    },
    Contest {
        what: "gRPC, 32 connections x 1 stream",
        shape: UNBATCHED,
        start: start_grpc,
        targets: &[("throttlecrab", 0.75), ("tonic, constant", 0.75)],
    },
    Contest {
        what: "HTTP/1.1, 32 connections",
        shape: UNBATCHED,
        start: start_http,
        targets: &[("NGINX", 1.5)],
    },
];

/// The measurements of one server.
#[derive(Serialize)]
struct Row {
    server: &'static str,
    cpu_us: Spread,
    /// The ratio of Tidegate's CPU time to this server's, computed per pair of passes.
    ratio: Spread,
    per_second: Spread,
    /// CPU use of the server as a share of the pass. Far below 1, other processes used the core.
    server_share: Spread,
    /// Time for which the generator was busy or kept from its core, as a share of the pass.
    generator_share: Spread,
}

#[derive(Serialize)]
struct Found {
    what: &'static str,
    rows: Vec<Row>,
}

/// Runs the study. Returns the finding, and the most decisions per second over gRPC.
pub(super) fn run(options: &Options, programs: &Programs) -> Result<(Finding, f64), Error> {
    let passes = Passes::new(options.quick);
    let progress = Progress::new("service cpu", (CONTESTS.len() * passes.count) as u64);
    let mut founds = Vec::new();
    for contest in &CONTESTS {
        founds.push(race(contest, programs, passes, &progress)?);
    }
    drop(progress);
    draw(options, &founds)?;
    let most_per_second = founds[0].rows[0].per_second.median;
    Ok((finding(&founds, programs, passes), most_per_second))
}

fn start_grpc(programs: &Programs) -> Result<Vec<Server>, Error> {
    Ok(vec![
        Tidegate::start(&programs.launcher, &servers::generous_rules(), &[])?.over_grpc(),
        Tidegate::start(&programs.launcher, &servers::three_rules(), &[])?.with_three_over_grpc(),
        servers::throttlecrab(programs)?,
        servers::constant(programs, Stack::Tonic)?,
        servers::constant(programs, Stack::TonicMimalloc)?,
        servers::constant(programs, Stack::Own)?,
        servers::constant(programs, Stack::Hyper)?,
    ])
}

fn start_http(programs: &Programs) -> Result<Vec<Server>, Error> {
    Ok(vec![
        Tidegate::start(&programs.launcher, &servers::generous_rules(), &[])?.over_http(),
        Tidegate::start(&programs.launcher, &servers::three_rules(), &[])?.with_three_over_http(),
        servers::nginx(programs)?,
        servers::constant(programs, Stack::Http)?,
    ])
}

/// The figures of one server, a value for each pass.
#[derive(Default)]
struct Figures {
    cpu_us: Vec<f64>,
    per_second: Vec<f64>,
    server_share: Vec<f64>,
    generator_share: Vec<f64>,
}

fn race(contest: &Contest, programs: &Programs, passes: Passes, progress: &Progress) -> Result<Found, Error> {
    progress.step(format!("{}: starting the servers", contest.what));
    let mut servers = (contest.start)(programs)?;
    let mut figures: Vec<Figures> = servers.iter().map(|_| Figures::default()).collect();
    for number in 0..passes.count {
        for turn in 0..servers.len() {
            // Each server comes first, and after each other one, about equally often.
            let at = (turn + number) % servers.len();
            let server = &mut servers[at];
            progress.step(format!("{}, pass {}: {}", contest.what, number + 1, server.child.name));
            let plan = passes.plan(server, contest.shape);
            // Servers without a target may be faster than the generator: their figures show it.
            let name = server.child.name;
            let judged = name == "Tidegate"
                || name == WITH_THREE
                || contest.targets.iter().any(|(rival, _)| *rival == name);
            let report =
                if judged { pass(server, &plan)? } else { drive(name, &plan, &mut *server.payload, |_| {})? };
            figures[at].cpu_us.push(report.processes[0].us_per_request);
            figures[at].per_second.push(report.per_second);
            figures[at].server_share.push(report.processes[0].cpu_s / report.elapsed_s);
            figures[at].generator_share.push(report.generator.share + report.generator.starved);
        }
        progress.done(1);
    }
    let ours = figures[0].cpu_us.clone();
    let rows = servers.iter().zip(figures).map(|(server, figures)| Row {
        server: server.child.name,
        ratio: Spread::of(ours.iter().zip(&figures.cpu_us).map(|(ours, theirs)| ours / theirs).collect()),
        cpu_us: Spread::of(figures.cpu_us),
        per_second: Spread::of(figures.per_second),
        server_share: Spread::of(figures.server_share),
        generator_share: Spread::of(figures.generator_share),
    });
    Ok(Found { what: contest.what, rows: rows.collect() })
}

fn draw(options: &Options, founds: &[Found]) -> Result<(), Error> {
    let bars = founds.iter().map(|found| Bars {
        title: found.what.to_owned(),
        bars: found.rows.iter().enumerate().map(|(at, row)| bar(at, row)).collect(),
    });
    let title = "Server CPU per decision, µs: median, least and most";
    bar_chart(&options.plot(PLOT), title, &bars.collect::<Vec<_>>())
}

fn bar(at: usize, row: &Row) -> Bar {
    let colour = match row.server {
        name if at == 0 || name == WITH_THREE => palette::TIDEGATE,
        name if name.ends_with("constant") => palette::CONSTANT,
        _ => palette::PEER,
    };
    Bar { name: row.server.to_owned(), value: row.cpu_us, colour }
}

fn finding(founds: &[Found], programs: &Programs, passes: Passes) -> Finding {
    let mut tables = vec![programs.table()];
    for found in founds {
        let caption = format!("{}: median (least-most) of {} passes", found.what, passes.count);
        let columns = [
            "",
            "server CPU µs per decision",
            "Tidegate to it",
            "decisions/s",
            "server's core",
            "generator's core",
        ];
        let mut table = Table::new(caption, columns);
        for row in &found.rows {
            table.row([
                row.server.to_owned(),
                format!("{:.1}", row.cpu_us),
                format!("{:.2}", row.ratio),
                row.per_second.to_string(),
                format!("{:.2}", row.server_share),
                format!("{:.2}", row.generator_share),
            ]);
        }
        tables.push(table);
    }
    let targets = CONTESTS.iter().zip(founds).flat_map(|(contest, found)| {
        contest.targets.iter().filter_map(|(server, most)| {
            let row = found.rows.iter().find(|row| row.server == *server)?;
            let what = format!("CPU beside {server}: {}", contest.what);
            Some(Target::at_most(what, row.ratio.median, *most, "x"))
        })
    });
    let notes = vec![
        format!(
            "Each server has core 0 for itself, the generator core 1 (`taskset`). The servers of a table run \
             side by side and are asked in turns, in {} passes of {:.1} s after {:.1} s of warm-up: a closed \
             loop over 10,000 keys drawn by a zipf law, each with a token bucket that never runs dry. A pass \
             counts only if the generator waited for the server, and not the other way round. CPU is that of \
             the whole process, kernel included. The last columns tell which part of the time the server and the \
             generator had or wanted their cores: a server far below 1 shared its core with others.",
            passes.count,
            passes.length.as_secs_f64(),
            passes.warm_up.as_secs_f64(),
        ),
        "With 3 descriptors, a request is held against three limits at once, as Envoy and gateways ask: one for the \
         API key and endpoint, one for the address, one for all requests."
            .to_owned(),
        "The constants decide nothing and always allow: they show what the protocol alone costs. tonic's \
         decodes the request and runs on a multi-thread runtime, with the allocator of the system as it comes, \
         and once more with Tidegate's (mimalloc). The same stack is Tidegate's own HTTP/2; hyper's HTTP/2 is \
         what it replaced, and hyper's HTTP/1.1 is set up as Tidegate's listener. NGINX is asked by GET and \
         answers a GIF of one pixel."
            .to_owned(),
    ];
    Finding {
        study: "service cpu",
        title: "The service: CPU per decision beside others",
        notes,
        tables,
        targets: targets.collect(),
        plots: vec![Plot { file: PLOT, shows: "Server CPU per decision of Tidegate and of others" }],
        data: serde_json::json!(founds),
    }
}
