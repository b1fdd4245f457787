//! Measures heap bytes per key, with an allocator that counts.

use std::time::Duration;

use serde::Serialize;
use tidegate::{Domain, LimitSpec, Limiter, Permit, Request, Rule, per_day};

use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Plot, Table, Target, round};
use crate::heap::{forget_peak, held_bytes, peak_bytes};
use crate::plot::{Axis, Line, line_chart, palette};
use crate::progress::Progress;
use crate::stream::write_name;
use crate::subject::{self, DAY, ask, ask_governor};

const MOST_BYTES: f64 = 48.0;
const TOKEN_BUCKET: &str = "token_bucket";
const PLOT: &str = "bytes-per-key.svg";
/// How often the heap is sampled while it grows.
const SAMPLES: usize = 400;

/// The memory of one key.
#[derive(Serialize)]
struct Row {
    subject: String,
    keys: usize,
    /// Bytes per key when all keys exist.
    bytes_per_key: f64,
    /// The peak while keys were added, divided by the final number of keys.
    peak_bytes_per_key: f64,
    /// Samples during growth: the number of keys, and bytes per key.
    #[serde(skip)]
    growth: Vec<(usize, f64)>,
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let sizes: &[usize] = if options.quick { &[1_000_000] } else { &[1_000_000, 10_000_000] };
    let limits = subject::every_algorithm(100, DAY);
    // The number of keys for limiters without a target.
    let others = if options.quick { 100_000 } else { sizes[0] };
    let work = 2 * sizes.iter().sum::<usize>() + limits.len() * others;
    let progress = Progress::new("bytes", work as u64);
    let mut rows = Vec::new();
    for keys in sizes {
        rows.push(of_governor(*keys, &progress));
        rows.push(of_limiter(TOKEN_BUCKET, *keys, per_day(100).token_bucket(), &progress)?);
    }
    for (name, limit) in limits.into_iter().filter(|(name, _)| *name != TOKEN_BUCKET) {
        rows.push(of_limiter(name, others, limit, &progress)?);
    }
    rows.push(of_concurrency(others, &progress)?);
    drop(progress);
    draw(options, &rows)?;
    Ok(finding(&rows))
}

fn of_limiter(name: &str, keys: usize, limit: LimitSpec, progress: &Progress) -> Result<Row, Error> {
    progress.step(format!("{name}, {} keys", round(keys)));
    let before = held_bytes();
    let limiter = subject::limiter(limit, keys)?;
    let row = grow(name, keys, before, progress, |name| {
        ask(&limiter, name);
    });
    let stats = limiter.stats();
    ensure(stats.keys == keys, || format!("{name} holds {} of {keys} keys", stats.keys))?;
    drop(limiter);
    wait_until_freed(before)?;
    Ok(row)
}

fn of_governor(keys: usize, progress: &Progress) -> Row {
    progress.step(format!("governor, {} keys", round(keys)));
    let before = held_bytes();
    let governor = subject::governor();
    grow("governor", keys, before, progress, |name| {
        ask_governor(&governor, name);
    })
}

/// Measures concurrency limits, with one holder per key. The permits themselves belong to the application, and have
/// no heap.
fn of_concurrency(keys: usize, progress: &Progress) -> Result<Row, Error> {
    progress.step(format!("concurrency, {} keys", round(keys)));
    let mut permits: Vec<Permit> = Vec::with_capacity(keys);
    let before = held_bytes();
    let domain = Domain::new("api").rule(Rule::by("user").concurrency(100, DAY));
    let limiter = Limiter::builder().domain(domain).max_keys(2 * keys).build()?;
    let row = grow("concurrency, one holder", keys, before, progress, |name| {
        permits.extend(limiter.acquire_now(&Request::new("api", [("user", name.as_str())])).permit());
    });
    ensure(permits.len() == keys, || format!("{} of {keys} slots were taken", permits.len()))?;
    Ok(row)
}

/// Waits until a dropped limiter is freed: its background thread may still be working, and then frees it a little
/// later.
fn wait_until_freed(before: usize) -> Result<(), Error> {
    const SLACK_BYTES: usize = 1 << 16;
    let freed = || held_bytes() < before + SLACK_BYTES;
    for _ in 0..1_000 {
        if freed() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    ensure(freed(), || format!("{} bytes were not freed", held_bytes() - before))
}

/// Adds one key after the other.
fn grow(
    subject: &str,
    keys: usize,
    before: usize,
    progress: &Progress,
    mut bring: impl FnMut(&String),
) -> Row {
    let (mut name, mut growth) = (String::with_capacity(16), Vec::with_capacity(SAMPLES + 1));
    // Includes what this function itself allocates.
    let before = before + growth.capacity() * size_of::<(usize, f64)>() + name.capacity();
    forget_peak();
    for number in 0..keys {
        write_name(&mut name, number);
        bring(&name);
        if (number + 1).is_multiple_of(keys / SAMPLES) {
            let held = held_bytes() - before;
            growth.push((number + 1, held as f64 / (number + 1) as f64));
            progress.done((keys / SAMPLES) as u64);
        }
    }
    let per_key = |bytes: usize| bytes.saturating_sub(before) as f64 / keys as f64;
    Row {
        subject: subject.to_owned(),
        keys,
        bytes_per_key: per_key(held_bytes()),
        peak_bytes_per_key: per_key(peak_bytes()),
        growth,
    }
}

/// Draws bytes per key over the number of keys, for the longest growth.
fn draw(options: &Options, rows: &[Row]) -> Result<(), Error> {
    let most = rows.iter().map(|row| row.keys).max().unwrap_or(0);
    let line = |subject: &str, colour| {
        let row = rows.iter().find(|row| row.subject == subject && row.keys == most);
        let points = row.iter().flat_map(|row| &row.growth);
        let points =
            points.map(|(keys, bytes)| (*keys as f64 / 1e6, *bytes)).filter(|(keys, _)| *keys > 0.02);
        Line::new(subject, colour, points.collect())
    };
    let lines = [line(TOKEN_BUCKET, palette::TOKEN_BUCKET), line("governor", palette::GOVERNOR)];
    let target =
        Line::dashed("target", palette::REFERENCE, vec![(0.0, MOST_BYTES), (most as f64 / 1e6, MOST_BYTES)]);
    let x = Axis::linear("million keys", 0.0, most as f64 / 1e6, if most > 1_000_000 { 1.0 } else { 0.1 });
    let y = Axis::linear("heap bytes per key", 0.0, 100.0, 20.0);
    let [ours, theirs] = lines;
    line_chart(&options.plot(PLOT), "Heap bytes per key while keys come", &x, &y, &[ours, theirs, target])
}

fn finding(rows: &[Row]) -> Finding {
    let columns = ["", "keys", "bytes per key", "most while growing"];
    let mut table = Table::new("Heap bytes per key", columns);
    for Row { subject, keys, bytes_per_key, peak_bytes_per_key, .. } in rows {
        let cells =
            [subject, &round(*keys), &format!("{bytes_per_key:.1}"), &format!("{peak_bytes_per_key:.1}")];
        table.row(cells);
    }
    let targets = rows.iter().filter(|row| row.subject == TOKEN_BUCKET).map(|row| {
        let what = format!("heap per key, token_bucket, {} keys", round(row.keys));
        Target::at_most(what, row.bytes_per_key, MOST_BYTES, " bytes")
    });
    let note = "An allocator counts the bytes that are asked for and not freed, everything a limiter holds \
                included, one request for each key. \"Most while growing\" is the peak, by the number of keys \
                at the end: tables that double hold the old and the new at once.";
    Finding {
        study: "bytes",
        title: "Heap bytes per key",
        notes: vec![note.to_owned()],
        targets: targets.collect(),
        tables: vec![table],
        plots: vec![Plot { file: PLOT, shows: "Heap bytes per key over the number of keys" }],
        data: serde_json::json!(rows),
    }
}
