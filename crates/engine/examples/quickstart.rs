//! Runs two minutes of traffic against the rules in `examples/quickstart`, on a virtual clock: it ends at once, and
//! always prints the same.
//!
//! ```text
//! cargo run -q --example quickstart             a table for people
//! cargo run -q --example quickstart -- --json   one JSON object per decision
//! ```

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Zoned;
use serde_json::json;
use tidegate::{Clock, Decision, Explanation, Limiter, Micros, Request, VirtualClock};

/// Two minutes before midnight in Berlin, where the days of `api_platform` end.
const START: &str = "2026-06-12T23:58:00[Europe/Berlin]";

/// A part of the demonstration.
struct Scene {
    title: &'static str,
    domain: &'static str,
    events: &'static [Event],
    /// Whether to print the explanation of the last request.
    asks_why: bool,
}

/// A number of equal requests at the same time.
struct Event {
    at_ms: u64,
    entries: &'static [(&'static str, &'static str)],
    times: u32,
}

const ITEMS: (&str, &str) = ("endpoint", "GET /v1/items");
const ORDERS: (&str, &str) = ("endpoint", "POST /v1/orders");
const SALES: (&str, &str) = ("endpoint", "POST /v1/reports/sales");
const SEARCH: (&str, &str) = ("endpoint", "GET /v1/search");
const ACME: (&str, &str) = ("api_key", "acme");
const INITECH: (&str, &str) = ("api_key", "initech");
const GLOBEX: (&str, &str) = ("api_key", "globex");

const SCENES: [Scene; 6] = [
    Scene {
        title: "acme is on no tier: 20 at once, and one more every 600 ms",
        domain: "api_platform",
        events: &[
            Event { at_ms: 0, entries: &[ACME, ITEMS], times: 23 },
            Event { at_ms: 600, entries: &[ACME, ITEMS], times: 2 },
            Event { at_ms: 6_600, entries: &[ACME, ITEMS], times: 12 },
        ],
        asks_why: false,
    },
    Scene {
        title: "initech is on tier pro: the same burst passes",
        domain: "api_platform",
        events: &[Event { at_ms: 10_000, entries: &[INITECH, ITEMS], times: 23 }],
        asks_why: false,
    },
    Scene {
        title: "orders have a limit of their own, whatever the tier",
        domain: "api_platform",
        events: &[Event { at_ms: 20_000, entries: &[INITECH, ORDERS], times: 23 }],
        asks_why: true,
    },
    Scene {
        title: "search is on trial in shadow: counted, never denied",
        domain: "api_platform",
        events: &[Event { at_ms: 30_000, entries: &[GLOBEX, SEARCH], times: 35 }],
        asks_why: false,
    },
    Scene {
        title: "three reports a day, and the day ends at midnight in Berlin",
        domain: "api_platform",
        events: &[
            Event { at_ms: 110_000, entries: &[ACME, SALES], times: 4 },
            Event { at_ms: 120_000, entries: &[ACME, SALES], times: 1 },
        ],
        asks_why: false,
    },
    Scene {
        title: "webhooks leave evenly spaced; `until_ready` would wait where this is told to retry",
        domain: "webhooks",
        events: &[
            Event { at_ms: 130_000, entries: &[("host", "shop.example")], times: 3 },
            Event { at_ms: 130_200, entries: &[("host", "shop.example")], times: 1 },
            Event { at_ms: 130_300, entries: &[("host", "db.internal.example")], times: 3 },
        ],
        asks_why: false,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let played = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => play(&mut Table::new(io::stdout().lock())),
        ["--json"] => play(&mut JsonLines(io::stdout().lock())),
        _ => Err("usage: quickstart [--json]".into()),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe, as `head` does.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The output format.
trait Output {
    fn begin(&mut self, limiter: &Limiter) -> io::Result<()>;
    fn scene(&mut self, title: &str) -> io::Result<()>;
    fn decision(&mut self, now: &Zoned, domain: &str, event: &Event, decision: &Decision) -> io::Result<()>;
    fn end(&mut self, explanation: &Explanation) -> io::Result<()>;
}

fn play(output: &mut impl Output) -> Result<(), Box<dyn Error>> {
    let start: Zoned = START.parse()?;
    let start_us = u64::try_from(start.timestamp().as_microsecond())?;
    let clock = VirtualClock::at(Micros(start_us));
    let limiter = Limiter::builder().rules(rules()).clock(clock.clone()).build()?;
    output.begin(&limiter)?;
    let mut why = None;
    for scene in &SCENES {
        output.scene(scene.title)?;
        for event in scene.events {
            clock.set(Micros(start_us + event.at_ms * 1_000));
            let now = start.checked_add(Duration::from_micros(clock.now().0 - start_us))?;
            let request = Request::new(scene.domain, event.entries);
            for _ in 0..event.times {
                output.decision(&now, scene.domain, event, &limiter.check_now(&request))?;
            }
            if scene.asks_why {
                why = Some(limiter.explain(&request));
            }
        }
    }
    output.end(&why.ok_or("no scene asks why")?)?;
    Ok(())
}

/// Returns the path of the rules. It is relative if the example runs in the repository, so that messages are short.
fn rules() -> PathBuf {
    let near = Path::new("examples/quickstart");
    if near.is_dir() {
        near.to_owned()
    } else {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(near)
    }
}

/// Returns the limit in shadow mode that would have denied the request, if there is one.
fn shadow_denial(decision: &Decision) -> Option<String> {
    let mut denials = decision.limits().filter(|limit| limit.shadow && !limit.allowed);
    denials.next().map(|limit| format!("{} ({})", limit.rule, limit.name))
}

fn decided_by(decision: &Decision) -> Option<String> {
    decision.decided_by().map(|by| format!("{} ({})", by.rule, by.name))
}

struct JsonLines<W>(W);

impl<W: Write> Output for JsonLines<W> {
    fn begin(&mut self, _: &Limiter) -> io::Result<()> {
        Ok(())
    }

    fn scene(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn decision(&mut self, now: &Zoned, domain: &str, event: &Event, decision: &Decision) -> io::Result<()> {
        let entries: serde_json::Map<_, _> =
            event.entries.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let line = json!({
            "time": now.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
            "domain": domain,
            "descriptor": entries,
            "allowed": decision.allowed(),
            "shadow_denied_by": shadow_denial(decision),
            "decided_by": decided_by(decision),
            "remaining": decision.remaining(),
            "retry_after_us": decision.retry_after().map(|retry| retry.as_micros() as u64),
        });
        writeln!(self.0, "{line}")
    }

    fn end(&mut self, explanation: &Explanation) -> io::Result<()> {
        writeln!(self.0, "{}", json!({ "explain": explanation }))
    }
}

/// A table in which consecutive equal decisions share a line.
struct Table<W: Write> {
    out: W,
    coloured: bool,
    line: Option<Line>,
}

struct Line {
    what: What,
    times: u32,
    left: Option<u64>,
}

/// What consecutive decisions must have in common to share a line.
#[derive(PartialEq)]
struct What {
    time: String,
    who: &'static str,
    endpoint: &'static str,
    colour: &'static str,
    outcome: &'static str,
    retry_after: String,
    decided_by: String,
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "1;31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

impl<W: Write> Table<W> {
    fn new(out: W) -> Self {
        let coloured = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { out, coloured, line: None }
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.coloured { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn finish_line(&mut self) -> io::Result<()> {
        let Some(Line { what, times, left }) = self.line.take() else { return Ok(()) };
        let What { time, who, endpoint, colour, outcome, retry_after, decided_by } = what;
        let left = left.map_or(String::new(), |left| left.to_string());
        let outcome = self.painted(colour, &format!("{outcome:<8}"));
        let by = self.painted(DIM, &decided_by);
        writeln!(
            self.out,
            "  {time:<10}  {who:<19}  {endpoint:<22}  {times:>5}  {outcome}  {left:>5}  {retry_after:>11}  {by}"
        )
    }
}

impl<W: Write> Output for Table<W> {
    fn begin(&mut self, limiter: &Limiter) -> io::Result<()> {
        let named =
            |domain: tidegate::DomainListing| format!("{} ({} rules)", domain.domain, domain.rules.len());
        let domains: Vec<_> = limiter.listing().into_iter().map(named).collect();
        let head = format!(
            "  {:<10}  {:<19}  {:<22}  {:>5}  {:<8}  {:>5}  {:>11}  decided by",
            "time", "who", "endpoint", "times", "decision", "left", "retry after"
        );
        let head = self.painted(BOLD, &head);
        writeln!(self.out, "rules from {}: {}\n\n{head}", rules().display(), domains.join(", "))
    }

    fn scene(&mut self, title: &str) -> io::Result<()> {
        self.finish_line()?;
        let title = self.painted(BOLD, title);
        writeln!(self.out, "\n{title}")
    }

    fn decision(&mut self, now: &Zoned, _: &str, event: &Event, decision: &Decision) -> io::Result<()> {
        let entry = |index: usize| event.entries.get(index).map_or("", |(_, value)| *value);
        let by = decided_by(decision).unwrap_or_else(|| "no limit applies".to_owned());
        let (colour, outcome, decided_by) = match (decision.allowed(), shadow_denial(decision)) {
            (false, _) => (RED, "denied", by),
            (true, Some(shadow)) => (YELLOW, "allowed", format!("{shadow} would deny")),
            (true, None) => (GREEN, "allowed", by),
        };
        let what = What {
            time: now.strftime("%H:%M:%S%.1f").to_string(),
            who: entry(0),
            endpoint: entry(1),
            colour,
            outcome,
            retry_after: decision.retry_after().map_or(String::new(), |retry| format!("{retry:?}")),
            decided_by,
        };
        let times = match &self.line {
            Some(last) if last.what == what => last.times + 1,
            _ => {
                self.finish_line()?;
                1
            }
        };
        self.line = Some(Line { what, times, left: decision.remaining() });
        Ok(())
    }

    fn end(&mut self, explanation: &Explanation) -> io::Result<()> {
        self.finish_line()?;
        let title = self.painted(BOLD, "why was the last of initech's orders denied?");
        writeln!(self.out, "\n{title}")?;
        explanation.to_string().lines().try_for_each(|line| writeln!(self.out, "  {line}"))?;
        let title = self.painted(BOLD, "what next");
        writeln!(
            self.out,
            "\n{title}\n  \
             set burst: 20 to 5 in examples/quickstart/api_platform.yaml and run this again\n  \
             misspell a field there, and see how the file is refused\n  \
             docs/rules.md has every field; docs/library.md teaches the library in ten minutes\n  \
             with --json, every decision is one line for other programs"
        )
    }
}
