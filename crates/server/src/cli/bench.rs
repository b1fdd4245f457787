//! `tidegate bench`
#![expect(clippy::float_arithmetic, reason = "figures for people, not decisions")]

use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_load::payload::{Check, EnvoyRateLimit, Payload};
use tidegate_load::{Endpoint, Keys, Length, Pace, Phase, Plan, Report, Status, run};

use super::admin::table::Table;
use super::{EXIT_CODES, out};
use crate::config::length;

const EXAMPLES: &str = "\
Examples:
  tidegate bench --domain api_platform --entry api_key
                                       maximum rate over gRPC, with zipf-distributed keys
  tidegate bench --api http --connections 32 --time 30s
  tidegate bench --rate 20000 --time 1m --pid $(pidof tidegate)
                                       open loop: latency is measured from when a call was due
  tidegate bench --keys hot --json | jq .latency.p99_us";

/// Measure a service under load.
///
/// Calls the rate limit service over gRPC, or POST /v1/check over HTTP. Without --rate the loop is closed: each stream
/// sends its next call after the previous response, which shows the maximum rate of the service. With --rate the loop is
/// open: calls are due at fixed times, and latency is measured from then, so that a stall affects all calls that were due
/// during it.
///
/// One thread sends all calls; if it was the bottleneck, the report says so. The command ends by itself. Use it only with
/// services of your own.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Bench {
    /// The address of the service: `host:port` or `unix:/path` [default: 127.0.0.1:8081, or :8080 for http]
    endpoint: Option<Endpoint>,
    /// The API to call.
    #[arg(long, value_enum, default_value = "grpc")]
    api: Api,
    /// The domain of the requests.
    #[arg(long, default_value = "api_platform")]
    domain: String,
    /// The key of the descriptor's entry, whose value varies.
    #[arg(long, default_value = "api_key")]
    entry: String,
    /// The number of connections.
    #[arg(long, short, default_value_t = 4)]
    connections: usize,
    /// Concurrent calls on each connection; HTTP has one [default: 32 for grpc]
    #[arg(long, short)]
    streams: Option<usize>,
    /// The distribution of values.
    #[arg(long, value_enum, default_value = "zipf")]
    keys: Draw,
    /// The number of different values.
    #[arg(long, short = 'n', default_value_t = 10_000)]
    key_count: u64,
    /// The exponent of the zipf distribution.
    #[arg(long, default_value_t = 1.0)]
    exponent: f64,
    /// Calls per second of an open loop.
    #[arg(long)]
    rate: Option<f64>,
    /// Use random instead of equal times between the calls of an open loop.
    #[arg(long, requires = "rate")]
    poisson: bool,
    /// How long to measure.
    #[arg(long, short, default_value = "10s", value_parser = some_time)]
    time: Duration,
    /// Measure this number of calls instead.
    #[arg(long, conflicts_with = "time")]
    requests: Option<u64>,
    /// How long to send calls before measuring.
    #[arg(long, default_value = "1s", value_parser = some_time)]
    warm_up: Duration,
    /// A process whose CPU time and memory to measure, such as the service. Can be given several times.
    #[arg(long)]
    pid: Vec<u32>,
    /// Reconnect lost connections, to measure restarts.
    #[arg(long)]
    reconnect: bool,
    /// The seed of the random values.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Api {
    /// Envoy's rate limit protocol.
    Grpc,
    /// POST /v1/check.
    Http,
}

#[derive(Clone, Copy, ValueEnum)]
enum Draw {
    /// One value.
    Hot,
    /// Some values far more often than others.
    Zipf,
    /// All values equally often.
    Uniform,
    /// One value after another.
    Sequential,
}

impl Bench {
    pub(super) fn run(self) -> ExitCode {
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(error) => return out::fail(error),
        };
        let mut payload: Box<dyn Payload> = match self.api {
            Api::Grpc => Box::new(EnvoyRateLimit::new(&self.domain, &self.entry)),
            Api::Http => Box::new(Check::new("localhost", &self.domain, &self.entry)),
        };
        let bar = bar();
        let mut progress = |status: Status| {
            show(&bar, status);
            ControlFlow::Continue(())
        };
        let report = run(&plan, &mut *payload, &mut progress);
        bar.finish_and_clear();
        let report = match report {
            Ok(report) => report,
            Err(error) => return out::fail(error),
        };
        if self.json {
            out::print_json(&report);
        } else {
            out::print(&tell(&plan, &report));
        }
        if report.errors > 0 && report.allowed + report.denied == 0 {
            return out::fail("every call failed: nothing was measured");
        }
        ExitCode::SUCCESS
    }

    fn plan(&self) -> Result<Plan, String> {
        let default = if self.api == Api::Grpc { "127.0.0.1:8081" } else { "127.0.0.1:8080" };
        let endpoint = match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => default.parse().map_err(|error| format!("{default}: {error}"))?,
        };
        let n = self.key_count;
        Ok(Plan {
            connections: self.connections,
            streams: self.streams.unwrap_or(if self.api == Api::Grpc { 32 } else { 1 }),
            pace: match self.rate {
                Some(per_second) => Pace::Open { per_second, poisson: self.poisson },
                None => Pace::Closed,
            },
            keys: match self.keys {
                Draw::Hot => Keys::Hot,
                Draw::Zipf => Keys::Zipf { n, exponent: self.exponent },
                Draw::Uniform => Keys::Uniform(n),
                Draw::Sequential => Keys::Sequential(n),
            },
            warm_up: self.warm_up,
            length: self.requests.map_or(Length::Time(self.time), Length::Requests),
            pids: self.pid.clone(),
            seed: self.seed,
            reconnect: self.reconnect,
            ..Plan::new(endpoint)
        })
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    length(text, true).map_err(|remedy| format!("not a duration{remedy}"))
}

/// Returns a progress bar, which is hidden without a terminal.
fn bar() -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1_000);
    if let Ok(style) = ProgressStyle::with_template("{prefix:>9} [{bar:40}] {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

#[expect(clippy::cast_sign_loss, reason = "a share of 1 is not negative")]
fn show(bar: &ProgressBar, status: Status) {
    let phase = match status.phase {
        Phase::WarmUp => "warm-up",
        Phase::Measured => "measuring",
    };
    bar.set_prefix(phase);
    bar.set_position((status.done * 1_000.0) as u64);
    bar.set_message(format!("{:.0}/s, {} errors", status.per_second, status.errors));
}

/// Prints the report as text.
fn tell(plan: &Plan, report: &Report) -> String {
    let mut text = String::new();
    let latency = &report.latency;
    let mut table = Table::new(&["", ""]);
    let mut row = |name: &str, figures: String| table.row(vec![name.to_owned(), figures]);
    row("calls", format!("{} in {:.1} s, {:.0}/s", report.requests, report.elapsed_s, report.per_second));
    row("answers", format!("{} allowed, {} denied, {} errors", report.allowed, report.denied, report.errors));
    row(
        "latency",
        format!(
            "p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
            time(latency.p50_us),
            time(latency.p90_us),
            time(latency.p99_us),
            time(latency.p999_us),
            time(latency.max_us)
        ),
    );
    text.push_str(&table.render(false));
    for process in &report.processes {
        let (pid, us, bytes) = (process.pid, process.us_per_request, process.resident_after_bytes);
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "process {pid}: {us:.2} µs of CPU per call, {} MB resident", bytes / 1_000_000);
    }
    for error in &report.error_texts {
        let _ = writeln!(text, "error: {error}");
    }
    if report.unsent > 0 {
        let _ = writeln!(
            text,
            "{} calls were due but not sent before the end, and are not in the latencies: the rate is higher \
             than the service or the generator can reach",
            report.unsent
        );
    }
    if report.reconnects > 0 {
        let _ = writeln!(
            text,
            "{} connections were reopened, {} calls sent again",
            report.reconnects, report.resent
        );
    }
    if matches!(plan.pace, Pace::Closed) && report.errors == 0 && report.generator.is_limit() {
        let _ = writeln!(text, "the generator was the bottleneck: the service can reach a higher rate");
    }
    text
}

fn time(us: f64) -> String {
    if us < 1_000.0 { format!("{us:.0} µs") } else { format!("{:.2} ms", us / 1_000.0) }
}
