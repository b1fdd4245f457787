//! Reports the measured pauses.

use tidegate_stores::memory::STEP_CELLS;

use super::watch::Pause;
use super::{Found, STRETCHES};
use crate::cli::Options;
use crate::error::Error;
use crate::finding::{Finding, Plot, Table, Target, grouped, round};
use crate::plot::{Axis, Line, line_chart, palette};

const CURVE_PLOT: &str = "pauses.svg";
const GROWTH_PLOT: &str = "pauses-while-growing.svg";

pub(super) fn draw(options: &Options, found: &Found) -> Result<(), Error> {
    const DECADES: [f64; 8] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7];
    const TIMES_US: [f64; 8] = [0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5];
    let x = Axis::log("once in this many decisions", &DECADES).labelled(|n| round(n.round() as usize));
    let y = Axis::log("pause of at least", &TIMES_US).labelled(time);
    let lines = [
        Line::new("new keys", palette::TOKEN_BUCKET, found.growing.curve.clone()),
        Line::new("known keys", palette::SLIDING_WINDOW, found.steady.curve.clone()),
        Line::new("beside a snapshot", palette::FIXED_WINDOW, found.beside_snapshot.curve.clone()),
        Line::new("beside a sweep", palette::SUB_WINDOWS, found.beside_sweep.curve.clone()),
        Line::dashed("the machine alone", palette::SLIDING_LOG, found.machine.curve.clone()),
    ];
    let title = format!("How long a decision takes, {} keys", round(found.keys));
    line_chart(&options.plot(CURVE_PLOT), &title, &x, &y, &lines)?;

    let stretch = found.keys as f64 / STRETCHES as f64 / 1e6;
    let points = |longest: fn(&Pause) -> u64| {
        let points = found.stretches.iter().enumerate();
        points.map(|(index, pause)| ((index + 1) as f64 * stretch, longest(pause) as f64 / 1e3)).collect()
    };
    let lines = [
        Line::new("on the wall", palette::REFERENCE, points(|pause| pause.wall_ns)),
        Line::new("of the thread's own time", palette::TOKEN_BUCKET, points(|pause| pause.own_ns)),
    ];
    let millions = found.keys as f64 / 1e6;
    let x = Axis::linear("million keys", 0.0, millions, millions / 10.0);
    let y = Axis::log("longest decision of each stretch", &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5]).labelled(time);
    let title = "The longest decision while keys come";
    line_chart(&options.plot(GROWTH_PLOT), title, &x, &y, &lines)
}

/// Formats microseconds in a readable unit.
fn time(us: f64) -> String {
    match us {
        ..0.999 => format!("{:.0} ns", us * 1e3),
        ..999.0 => format!("{us:.0} µs"),
        ..999_000.0 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.0} s", us / 1e6),
    }
}

pub(super) fn finding(found: &Found) -> Finding {
    let columns = ["", "count", "median, µs", "1 in 1,000", "1 in 100,000", "longest", "longest, own time"];
    let mut table = Table::new("Microseconds a step took", columns);
    let rows = [
        ("spinning for 0.4 µs: the machine alone", &found.machine),
        ("deciding on new keys", &found.growing),
        ("deciding on known keys", &found.steady),
        ("deciding beside a snapshot", &found.beside_snapshot),
        ("deciding beside a sweep", &found.beside_sweep),
        ("a sweep step: a page of every shard", &found.sweep_steps),
    ];
    for (what, pauses) in rows {
        table.row([
            what.to_owned(),
            grouped(pauses.count),
            format!("{:.2}", pauses.median_us),
            format!("{:.1}", pauses.p999_us),
            format!("{:.1}", pauses.p99999_us),
            format!("{:.0}", pauses.longest_us),
            format!("{:.0}", pauses.longest_own_us),
        ]);
    }
    let cells = found.longest_step_cells;
    let notes = vec![
        format!(
            "A limiter grows to {} keys, is written to disk in {:.1} s while decisions go on, is restored in \
             {:.1} s, and expires all at once and is swept while decisions go on. The longest decision on a \
             new key took {:.0} µs, beside the snapshot {:.0} µs, beside the sweep {:.0} µs; a loop that \
             decides nothing was held up by the machine for {:.0} µs.",
            round(found.keys),
            found.snapshot_s,
            found.restore_s,
            found.growing.longest_us,
            found.beside_snapshot.longest_us,
            found.beside_sweep.longest_us,
            found.machine.longest_us,
        ),
        format!(
            "A step touches at most {STEP_CELLS} cells while it holds a lock (`STEP_CELLS`), however many keys \
             there are; the most seen was {cells}. A sweep step goes over one page of every shard, one lock at \
             a time. \"Own time\" is the processor time of the thread from the end of one step to the end of \
             the next: it leaves out what the machine gave to others, and waiting for a lock too.",
        ),
    ];
    let bound = Target::at_most("cells touched in one step", cells as f64, STEP_CELLS as f64, "");
    Finding {
        study: "pauses",
        title: "Pauses while keys come, expire and are written",
        notes,
        targets: vec![bound],
        tables: vec![table],
        plots: vec![
            Plot { file: CURVE_PLOT, shows: "How long a decision takes, by how often" },
            Plot { file: GROWTH_PLOT, shows: "The longest decision while the number of keys grows" },
        ],
        data: serde_json::json!(found),
    }
}
