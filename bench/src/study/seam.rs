//! Plots how the algorithms behave at the boundary of two windows, and in a burst.

use plotters::prelude::*;
use serde::Serialize;
use tidegate_core::{Algorithm, LeakyMode, Limit, Micros, Outcome, State, Window};

use crate::cli::Options;
use crate::error::Error;
use crate::finding::{Finding, Plot, Table};
use crate::plot::{Area, Axis, DrawResult, Line, draw, heading, line_chart, palette, text};

const SEAM_PLOT: &str = "seam.svg";
const BURST_PLOT: &str = "burst-and-rate.svg";

const WINDOW_US: u64 = 60_000_000;
const TENTH_US: u64 = WINDOW_US / 10;
const LIMIT: u64 = 100;
/// The end of one window and the start of the next.
const SEAM: Micros = Micros(28_500_000 * WINDOW_US);
/// The tenths of a window before and after the boundary that are shown.
const SHOWN: std::ops::Range<i64> = -2..13;

/// Returns what a client sends in each tenth: the limit right before the boundary, the limit again right after it,
/// and then steadily three times the rate.
fn offered(tenth: i64) -> u64 {
    match tenth {
        -1 | 0 => LIMIT,
        1.. => 30,
        _ => 0,
    }
}

/// The result of one algorithm.
#[derive(Serialize)]
struct Panel {
    name: &'static str,
    #[serde(skip)]
    colour: RGBColor,
    /// The units that pass in each tenth.
    passed: Vec<u64>,
    /// The most units that pass within one window's length.
    most: usize,
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let wrong = |error: tidegate_core::LimitError| Error::Wrong(error.to_string());
    let algorithms = [
        ("fixed_window", palette::FIXED_WINDOW, Algorithm::FixedWindow),
        ("sliding_window", palette::SLIDING_WINDOW, Algorithm::SlidingWindow),
        ("sub_windows, k=10", palette::SUB_WINDOWS, Algorithm::SubWindows { buckets: 10 }),
        ("sliding_log", palette::SLIDING_LOG, Algorithm::SlidingLog),
        ("token_bucket, burst 100", palette::TOKEN_BUCKET, Algorithm::TokenBucket { burst: LIMIT }),
        (
            "leaky_bucket, burst 1",
            palette::LEAKY_BUCKET,
            Algorithm::LeakyBucket { burst: 1, mode: LeakyMode::Meter },
        ),
    ];
    let panels = algorithms.map(|(name, colour, algorithm)| {
        let limit = Limit::new(algorithm, LIMIT, Window::Period { us: WINDOW_US })?;
        Ok(panel(name, colour, &limit))
    });
    let panels = panels.into_iter().collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    draw_seam(options, &panels)?;
    draw_burst(options, &bursts().map_err(wrong)?)?;
    Ok(finding(&panels))
}

fn panel(name: &'static str, colour: RGBColor, limit: &Limit) -> Panel {
    let mut state = limit.fresh();
    let mut times = Vec::new();
    for tenth in SHOWN {
        let start = SEAM.0.saturating_add_signed(tenth * TENTH_US.cast_signed());
        let count = offered(tenth);
        let moments = (0..count).map(|number| Micros(start + number * TENTH_US / count));
        times.extend(moments.filter(|now| limit.charge(&mut state, 1, *now).allowed()));
    }
    let tenth_of =
        |time: &Micros| (time.0.cast_signed() - SEAM.0.cast_signed()).div_euclid(TENTH_US.cast_signed());
    let passed = SHOWN.map(|tenth| times.iter().filter(|time| tenth_of(time) == tenth).count() as u64);
    let within =
        |from: &Micros| times.iter().filter(|time| **time >= *from && time.since(*from) < WINDOW_US).count();
    let most = times.iter().map(within).max().unwrap_or(0);
    Panel { name, colour, passed: passed.collect(), most }
}

fn draw_seam(options: &Options, panels: &[Panel]) -> Result<(), Error> {
    draw(&options.plot(SEAM_PLOT), (960, 800), |root| {
        let body = heading(root, "100 per minute, and a client that sends 100 on either side of the seam")?;
        let (legend, body) = body.split_vertically(28);
        draw_legend(&legend)?;
        for (panel, area) in panels.iter().zip(body.split_evenly((3, 2))) {
            draw_panel(&area, panel)?;
        }
        Ok(())
    })
}

fn draw_legend(area: &Area<'_>) -> DrawResult {
    area.draw(&Rectangle::new([(16, 5), (30, 17)], palette::OFFERED.filled()))?;
    area.draw_text("sent in each tenth of a minute", &text(13), (36, 4))?;
    area.draw(&Rectangle::new([(246, 5), (260, 17)], palette::SLIDING_WINDOW.filled()))?;
    area.draw_text("of that, allowed (in colour)", &text(13), (266, 4))?;
    area.draw(&PathElement::new([(470, 2), (470, 20)], palette::TEXT.stroke_width(1)))?;
    area.draw_text("the seam: a new window begins", &text(13), (478, 4))?;
    Ok(())
}

fn draw_panel(area: &Area<'_>, panel: &Panel) -> DrawResult {
    let (head, body) = area.split_vertically(26);
    let title = format!("{}: up to {} in one minute", panel.name, panel.most);
    head.draw_text(&title, &text(15), (48, 8))?;
    let x = Axis::linear("tenths of a minute from the seam", SHOWN.start as f64, SHOWN.end as f64, 1.0);
    let y = Axis::linear("requests", 0.0, 110.0, 20.0);
    let mut chart = ChartBuilder::on(&body)
        .margin_right(16)
        .margin_bottom(8)
        .margin_left(6)
        .x_label_area_size(36)
        .y_label_area_size(46)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(palette::GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(palette::REFERENCE)
        .x_desc(&x.name)
        .label_style(text(11))
        .axis_desc_style(text(12))
        .draw()?;
    let bar = |tenth: i64, count: u64, colour: RGBColor| {
        let (left, right) = (tenth as f64 + 0.08, tenth as f64 + 0.92);
        Rectangle::new([(left, 0.0), (right, count as f64)], colour.filled())
    };
    chart.draw_series(SHOWN.map(|tenth| bar(tenth, offered(tenth), palette::OFFERED)))?;
    chart.draw_series(SHOWN.zip(&panel.passed).map(|(tenth, count)| bar(tenth, *count, panel.colour)))?;
    chart.draw_series(std::iter::once(PathElement::new([(0.0, 0.0), (0.0, 110.0)], palette::TEXT)))?;
    Ok(())
}

/// Returns the times of 30 requests per second for two seconds, none for two seconds, and again for one second.
fn burst_times() -> impl Iterator<Item = Micros> {
    let second =
        |second: u64| (0..30).map(move |number| Micros(second * 1_000_000 + number * 1_000_000 / 30));
    [0, 1, 4].into_iter().flat_map(second).map(|time| Micros(SEAM.0 + time.0))
}

/// Returns when the requests of the burst pass, for each algorithm with a limit of 10 per second.
fn bursts() -> Result<[Line; 4], tidegate_core::LimitError> {
    let line = |name: &str, colour, algorithm| {
        let limit = Limit::new(algorithm, 10, Window::seconds(1))?;
        let mut state = limit.fresh();
        let times = burst_times().filter_map(|now| passes(&limit, &mut state, now));
        Ok(Line::new(name, colour, staircase(times)))
    };
    let leaky = |burst, mode| Algorithm::LeakyBucket { burst, mode };
    Ok([
        Line::dashed("sent", palette::REFERENCE, staircase(burst_times())),
        line("token_bucket, burst 20", palette::TOKEN_BUCKET, Algorithm::TokenBucket { burst: 20 })?,
        line("leaky_bucket, queue of 20", palette::QUEUE, leaky(20, LeakyMode::Queue))?,
        line("leaky_bucket, burst 1", palette::LEAKY_BUCKET, leaky(1, LeakyMode::Meter))?,
    ])
}

/// Returns when a request that arrives now passes, if it does: a queue may hold it.
fn passes(limit: &Limit, state: &mut State, now: Micros) -> Option<Micros> {
    let wait_us = match limit.assess(state, 1, now, true).outcome {
        Outcome::Allowed => 0,
        Outcome::Held { wait_us } => wait_us,
        Outcome::Denied { .. } => return None,
    };
    limit.take(state, 1, now);
    Some(now.plus(wait_us))
}

/// Returns how many requests have passed, over the seconds since the first was sent.
fn staircase(times: impl Iterator<Item = Micros>) -> Vec<(f64, f64)> {
    let mut points = vec![(0.0, 0.0)];
    for (number, time) in times.enumerate() {
        let second = time.since(SEAM) as f64 / 1e6;
        points.push((second, number as f64));
        points.push((second, (number + 1) as f64));
    }
    let last = points[points.len() - 1].1;
    points.push((7.0, last));
    points
}

fn draw_burst(options: &Options, lines: &[Line]) -> Result<(), Error> {
    let x = Axis::linear("seconds", 0.0, 7.0, 1.0);
    let y = Axis::linear("requests that have passed", 0.0, 90.0, 10.0);
    let title = "10 per second, and a client that sends 30 per second: 2 s, a pause, 1 s";
    line_chart(&options.plot(BURST_PLOT), title, &x, &y, lines)
}

fn finding(panels: &[Panel]) -> Finding {
    let mut table = Table::new("100 per minute: the most that passed within a minute", ["", "requests"]);
    for panel in panels {
        table.row([panel.name, &panel.most.to_string()]);
    }
    let note = "A client sends 100 requests in the tenth of a minute before the seam of two windows, 100 in \
                the tenth after it, and 30 per tenth from then on.";
    Finding {
        study: "seam",
        title: "Behaviour at a seam and in a burst",
        notes: vec![note.to_owned()],
        targets: Vec::new(),
        tables: vec![table],
        plots: vec![
            Plot { file: SEAM_PLOT, shows: "What each algorithm lets pass around the seam of two windows" },
            Plot { file: BURST_PLOT, shows: "What token and leaky buckets let pass of a burst" },
        ],
        data: serde_json::json!(panels),
    }
}
