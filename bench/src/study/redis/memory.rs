//! Measures the memory of Redis per key.

use std::time::Duration;

use serde::Serialize;
use tidegate_core::{Algorithm, KeySeed, Limit, LimitError, Window};
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_stores::{Charge, Intent, Store};
use tidegate_testkit::redis::RedisServer;

use super::world::redis_on;
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target, grouped, round};
use crate::progress::Progress;
use crate::stream::name;
use crate::study::bed::SERVER_CORE;

const MOST_BYTES: f64 = 150.0;
const REQUESTS: u64 = 24;
const DAY_US: u64 = 86_400_000_000;
/// The number of requests that wait for the store at once.
const AT_ONCE: usize = 256;
const SEED: KeySeed = KeySeed(7);
/// A script that counts the fields of all hashes, and those that store the expiry of their hash.
const COUNT_FIELDS: &str = "local fields, hashes = 0, 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  fields, hashes = fields + redis.call('HLEN', key), hashes + 1
end
return { fields, hashes }";

#[derive(Serialize)]
struct Row {
    algorithm: &'static str,
    keys: usize,
    bytes_per_key: f64,
    resident_mb: f64,
}

pub(super) fn run(options: &Options) -> Result<Finding, Error> {
    let keys = if options.quick { 100_000 } else { 1_000_000 };
    let limits = [
        ("token_bucket", Limit::token_bucket(REQUESTS, Window::Period { us: DAY_US })),
        ("sliding_window", of(Algorithm::SlidingWindow)),
        ("fixed_window", of(Algorithm::FixedWindow)),
    ];
    let progress = Progress::new("redis memory", (limits.len() * keys) as u64);
    let mut rows = Vec::new();
    for (algorithm, limit) in limits {
        progress.step(format!("{algorithm}, {} keys", round(keys)));
        let limit = limit.map_err(|error| Error::Wrong(error.to_string()))?;
        rows.push(fill(algorithm, &limit, keys)?);
        progress.done(keys as u64);
    }
    drop(progress);
    Ok(finding(&rows))
}

fn of(algorithm: Algorithm) -> Result<Limit, LimitError> {
    Limit::new(algorithm, REQUESTS, Window::Period { us: DAY_US })
}

fn fill(algorithm: &'static str, limit: &Limit, keys: usize) -> Result<Row, Error> {
    let server = redis_on(SERVER_CORE)?;
    let url = server.url().parse().map_err(|error| Error::Wrong(format!("{error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Wrong(format!("tokio does not start: {error}")))?;
    let used_bytes = runtime.block_on(async {
        let config = RedisStoreConfig {
            deadline: Duration::from_secs(20),
            nodes: Some(1),
            ..RedisStoreConfig::new(url)
        };
        let store = RedisStore::connect(config).await;
        // The first request makes the connection and loads the script, which do not belong to the keys.
        take(&store, limit, 0..1, 1).await?;
        let before = used(&server)?;
        let tasks: Vec<_> = (1..=AT_ONCE)
            .map(|first| {
                let (store, limit) = (store.clone(), limit.clone());
                tokio::spawn(async move { take(&store, &limit, first..keys + 1, AT_ONCE).await })
            })
            .collect();
        for task in tasks {
            task.await.map_err(|error| Error::Wrong(error.to_string()))??;
        }
        Ok::<f64, Error>(used(&server)? - before)
    })?;
    let counted = server.command(&["EVAL", COUNT_FIELDS, "0"]);
    let [fields, hashes] = [0, 1].map(|at| counted.items()[at].integer());
    let (held, brought) = (fields - hashes, keys as u64 + 1);
    ensure(held.cast_unsigned() == brought, || format!("Redis has {held} of {brought} keys"))?;
    Ok(Row {
        algorithm,
        keys,
        bytes_per_key: used_bytes / keys as f64,
        resident_mb: number(&server, "used_memory_rss")? / 1e6,
    })
}

/// Sends one request for every `step`th key.
async fn take(
    store: &RedisStore,
    limit: &Limit,
    keys: std::ops::Range<usize>,
    step: usize,
) -> Result<(), Error> {
    for key in keys.step_by(step) {
        let charge = Charge::new(SEED.text(&name(key)), limit, 1);
        let verdicts = store.settle(&[charge], Intent::Take).await;
        let verdicts = verdicts.map_err(|error| Error::Wrong(format!("the store failed: {error}")))?;
        ensure(verdicts[0].allowed(), || format!("key {key} was denied its first request"))?;
    }
    Ok(())
}

fn used(server: &RedisServer) -> Result<f64, Error> {
    number(server, "used_memory")
}

fn number(server: &RedisServer, field: &str) -> Result<f64, Error> {
    let found = server.info(field).and_then(|text| text.parse().ok());
    found.ok_or_else(|| Error::Wrong(format!("Redis does not say {field}")))
}

fn finding(rows: &[Row]) -> Finding {
    let columns = ["", "keys", "bytes per key", "resident, MB"];
    let mut table = Table::new("Memory of Redis", columns);
    for row in rows {
        table.row([
            row.algorithm.to_owned(),
            grouped(row.keys as u64),
            format!("{:.0}", row.bytes_per_key),
            format!("{:.0}", row.resident_mb),
        ]);
    }
    let targets = rows.iter().map(|row| {
        let what = format!("bytes of Redis per key: {}, {} keys", row.algorithm, round(row.keys));
        Target::at_most(what, row.bytes_per_key, MOST_BYTES, " B")
    });
    let note = format!(
        "One request for each key through the store itself, by limits of {REQUESTS} a day, so that all keys \
         live; afterwards Redis is asked whether it has them all. The growth of `used_memory` is divided by the \
         keys."
    );
    Finding {
        study: "redis memory",
        title: "The service on Redis: memory per key",
        notes: vec![note],
        tables: vec![table],
        targets: targets.collect(),
        plots: Vec::new(),
        data: serde_json::json!(rows),
    }
}
