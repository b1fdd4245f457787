//! Measures tenants with their own limits: heap, and the time to load and to change them.

use std::time::Duration;

use quanta::Instant;
use tidegate::{LimitChange, Limiter, Override, Tenant, TenantChange};

use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target, round};
use crate::heap::{forget_peak, held_bytes, peak_bytes};
use crate::progress::Progress;
use crate::stream::name;
use crate::subject;
use crate::tenants::{TENANTS, of_users};

const MOST_BYTES: f64 = 200.0;
const MOST_SECONDS: f64 = 2.0;
/// The number of timed changes.
const CHANGES: usize = 2_000;

pub(crate) fn run(_: &Options) -> Result<Finding, Error> {
    let progress = Progress::new("tenants", 3);
    let build = |count: usize| of_users([subject::generous()], false, count);
    progress.step("a limiter without tenants");
    let before = held_bytes();
    let without = build(0)?;
    let without_bytes = held_bytes() - before;
    drop(without);
    progress.step(format!("loading {} tenants", round(TENANTS)));
    let (before, start) = (held_bytes(), Instant::now());
    forget_peak();
    let limiter = build(TENANTS)?;
    let loaded = start.elapsed();
    let bytes = (held_bytes() - before).saturating_sub(without_bytes) as f64 / TENANTS as f64;
    let peak = peak_bytes().saturating_sub(before + without_bytes) as f64 / TENANTS as f64;
    ensure(limiter.tenants() == TENANTS, || format!("there are {} tenants", limiter.tenants()))?;
    progress.step("changing them one by one");
    let changed = change(&limiter);
    drop(progress);
    Ok(finding(bytes, peak, loaded, changed))
}

/// Returns the time of one change.
fn change(limiter: &Limiter) -> Duration {
    let start = Instant::now();
    for number in 0..CHANGES {
        let requests = LimitChange { requests: Some(5 + number as u64), ..LimitChange::default() };
        let tenant = Tenant::new(&name(number * TENANTS / CHANGES)).tier("pro").with(Override::of(requests));
        limiter.change_tenants([TenantChange::Put(tenant)]);
    }
    start.elapsed() / CHANGES as u32
}

fn finding(bytes: f64, peak: f64, loaded: Duration, changed: Duration) -> Finding {
    let mut table = Table::new(format!("{} tenants", round(TENANTS)), ["", "found"]);
    table.row(["heap bytes per tenant", &format!("{bytes:.1}")]);
    table.row(["most while loading", &format!("{peak:.1}")]);
    table.row(["time to load all", &format!("{loaded:.2?}")]);
    table.row(["time of one change", &format!("{changed:.1?}")]);
    let what = |what: &str| format!("{what}, {} tenants with an override", round(TENANTS));
    let targets = vec![
        Target::below(what("heap per tenant"), bytes, MOST_BYTES, " bytes"),
        Target::at_most(what("time to load"), loaded.as_secs_f64(), MOST_SECONDS, " s"),
    ];
    let note = "Every tenant has a tier and an override, no two with the same numbers. An allocator counts the \
                bytes that are asked for and not freed, less what a limiter without tenants holds. What an \
                override costs a decision is in the study of instructions.";
    Finding {
        study: "tenants",
        title: "Tenants with limits of their own",
        notes: vec![note.to_owned()],
        targets,
        tables: vec![table],
        plots: Vec::new(),
        data: serde_json::json!({
            "tenants": TENANTS,
            "bytes_per_tenant": bytes,
            "peak_bytes_per_tenant": peak,
            "load_seconds": loaded.as_secs_f64(),
            "change_us": changed.as_secs_f64() * 1e6,
        }),
    }
}
