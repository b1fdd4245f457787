//! Reports as SVG: units admitted in each second, a line per consistency mode.

use std::fmt::Write as _;

use crate::report::Report;

const WIDTH: u64 = 860;
const HEIGHT: u64 = 360;
const LEFT: u64 = 70;
const TOP: u64 = 50;
const BOTTOM: u64 = 40;
const COLOURS: [&str; 6] = ["#1b6ca8", "#d1495b", "#2e8b57", "#8d5a97", "#b8860b", "#555555"];

/// Returns an SVG plot of the units admitted per second, with the offered units as a dashed line and the limit per
/// second, if there is one, as a grey one.
pub fn admitted_svg(title: &str, limit_per_second: Option<u64>, reports: &[Report]) -> String {
    let seconds = reports.iter().map(|report| (report.duration_us / 1_000_000) as usize).max().unwrap_or(0);
    let series =
        |report: &Report| report.admitted_per_second.iter().chain(&report.offered_per_second).max().copied();
    let most = reports.iter().filter_map(series).chain(limit_per_second).max().unwrap_or(1).max(1);
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{}</text>",
        escape(title)
    );
    let y = |value: u64| HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM) / most;
    let x = |second: usize| LEFT + second as u64 * (WIDTH - LEFT - 20) / (seconds.max(2) as u64 - 1);
    for step in 0..=4 {
        let value = most * step / 4;
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {0}H{1}\" stroke=\"#e5e5e5\"/><text x=\"{2}\" y=\"{3}\" text-anchor=\"end\">{value}</text>",
            y(value),
            WIDTH - 20,
            LEFT - 6,
            y(value) + 4
        );
    }
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">seconds, 0 to {seconds}</text>", HEIGHT - 12);
    let line = |values: &[u64]| {
        let points = values.iter().take(seconds).enumerate();
        points.map(|(second, value)| format!("{},{}", x(second), y(*value))).collect::<Vec<_>>().join(" ")
    };
    if let Some(limit) = limit_per_second {
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {}H{}\" stroke=\"#999999\" stroke-width=\"2\"/>",
            y(limit),
            WIDTH - 20
        );
    }
    if let Some(report) = reports.first() {
        let points = line(&report.offered_per_second);
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"#999999\" stroke-dasharray=\"4 4\"/>"
        );
    }
    for (number, report) in reports.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points = line(&report.admitted_per_second);
        let legend_x = LEFT + 130 * number as u64;
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{legend_x}\" y=\"40\" fill=\"{colour}\">{}</text>",
            escape(&report.consistency.name())
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
