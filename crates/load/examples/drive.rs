//! Drives a server by hand, and prints what it found as JSON.
//!
//! ```sh
//! cargo run --release -p tidegate-load --example drive -- 127.0.0.1:8081 --connections 4 --streams 32
//! cargo run --release -p tidegate-load --example drive -- 127.0.0.1:8080 --ask check --connections 32
//! ```

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tidegate_load::payload::{Check, EnvoyRateLimit, Get, Payload, Throttlecrab};
use tidegate_load::{Endpoint, Keys, Length, Pace, Plan, Status, run};

#[derive(Parser)]
struct Options {
    /// `host:port` or `unix:/path`.
    endpoint: Endpoint,
    #[arg(long, value_enum, default_value = "envoy")]
    ask: Ask,
    #[arg(long, default_value_t = 4)]
    connections: usize,
    #[arg(long, default_value_t = 1)]
    streams: usize,
    /// Requests per second of an open loop; else the loop is closed.
    #[arg(long)]
    rate: Option<f64>,
    /// Keys drawn by a zipf law.
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Processes to measure.
    #[arg(long)]
    pid: Vec<u32>,
    #[arg(long)]
    reconnect: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ask {
    Envoy,
    Check,
    Throttlecrab,
    Get,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let plan = Plan {
        connections: options.connections,
        streams: options.streams,
        pace: options.rate.map_or(Pace::Closed, |per_second| Pace::Open { per_second, poisson: true }),
        keys: Keys::Zipf { n: options.keys, exponent: 1.0 },
        warm_up: Duration::from_secs(1),
        length: Length::Time(Duration::from_secs_f64(options.seconds)),
        pids: options.pid,
        reconnect: options.reconnect,
        ..Plan::new(options.endpoint)
    };
    let mut payload: Box<dyn Payload> = match options.ask {
        Ask::Envoy => Box::new(EnvoyRateLimit::new("api", "user")),
        Ask::Check => Box::new(Check::new("localhost", "api", "user")),
        Ask::Throttlecrab => Box::new(Throttlecrab::new(100, 1000, 60)),
        Ask::Get => Box::new(Get::new("localhost", "/", "key")),
    };
    let mut progress = |status: Status| {
        eprint!("\r{:?} {:.2} {:8.0}/s ", status.phase, status.done, status.per_second);
        ControlFlow::Continue(())
    };
    let report = run(&plan, &mut *payload, &mut progress)?;
    eprintln!();
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
