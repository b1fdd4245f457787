//! SVG charts.

mod axis;
mod bars;
pub(crate) mod palette;

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(crate) use self::axis::Axis;
pub(crate) use self::bars::{Bar, Bars, bar_chart};
use crate::error::Error;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type DrawResult = Result<(), Box<dyn std::error::Error>>;

const FONT: &str = "sans-serif";
const SIZE: (u32, u32) = (860, 480);
const TITLE_HEIGHT: u32 = 34;
const LEGEND_HEIGHT: u32 = 26;

/// A line of a chart.
pub(crate) struct Line {
    name: String,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
    dashed: bool,
}

impl Line {
    pub(crate) fn new(name: impl Into<String>, colour: RGBColor, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), colour, points, dashed: false }
    }

    /// Creates a dashed line, for references.
    pub(crate) fn dashed(name: impl Into<String>, colour: RGBColor, points: Vec<(f64, f64)>) -> Self {
        Self { dashed: true, ..Self::new(name, colour, points) }
    }
}

/// Draws lines over two axes. The legend has its own row, so that it covers nothing.
pub(crate) fn line_chart(path: &Path, title: &str, x: &Axis, y: &Axis, lines: &[Line]) -> Result<(), Error> {
    draw(path, SIZE, |root| {
        let body = heading(root, title)?;
        let (legend, body) = body.split_vertically(LEGEND_HEIGHT);
        draw_legend(&legend, lines)?;
        let mut chart = ChartBuilder::on(&body)
            .margin_left(8)
            .margin_right(24)
            .margin_bottom(6)
            .x_label_area_size(42)
            .y_label_area_size(66)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .bold_line_style(palette::GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(palette::REFERENCE)
            .x_desc(&x.name)
            .y_desc(&y.name)
            .label_style(text(13))
            .axis_desc_style(text(14))
            .draw()?;
        for line in lines {
            let points = line.points.iter().copied();
            let style = line.colour.stroke_width(if line.dashed { 1 } else { 2 });
            if line.dashed {
                chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
            } else {
                chart.draw_series(LineSeries::new(points, style))?;
            }
        }
        Ok(())
    })
}

/// Draws on a white page of the given size and saves it to `path`.
pub(crate) fn draw(
    path: &Path,
    size: (u32, u32),
    paint: impl FnOnce(&Area<'_>) -> DrawResult,
) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    }
    let root = SVGBackend::new(path, size).into_drawing_area();
    let painted = root
        .fill(&WHITE)
        .map_err(Into::into)
        .and_then(|()| paint(&root))
        .and_then(|()| root.present().map_err(Into::into));
    painted.map_err(|reason| Error::Plot { path: path.to_owned(), reason: reason.to_string() })
}

/// Draws the title and returns the area below it.
pub(crate) fn heading<'a>(area: &Area<'a>, title: &str) -> Result<Area<'a>, Box<dyn std::error::Error>> {
    let (head, body) = area.split_vertically(TITLE_HEIGHT);
    head.draw_text(title, &text(18), (16, 10))?;
    Ok(body)
}

/// Returns a text style with a size in pixels.
pub(crate) fn text<'a>(size: u32) -> TextStyle<'a> {
    TextStyle::from((FONT, size)).color(&palette::TEXT)
}

/// Returns a text style that is anchored at the middle of its left side.
fn beside<'a>(size: u32) -> TextStyle<'a> {
    text(size).pos(Pos::new(HPos::Left, VPos::Center))
}

fn draw_legend(area: &Area<'_>, lines: &[Line]) -> DrawResult {
    let (mut x, y) = (70, LEGEND_HEIGHT.cast_signed() / 2 - 2);
    for line in lines {
        let swatch = [(x, y), (x + 26, y)];
        let style = line.colour.stroke_width(if line.dashed { 1 } else { 3 });
        if line.dashed {
            let mut dashes = (0..3).map(|dash| [(x + 10 * dash, y), (x + 10 * dash + 6, y)]);
            dashes.try_for_each(|dash| area.draw(&PathElement::new(dash, style)))?;
        } else {
            area.draw(&PathElement::new(swatch, style))?;
        }
        area.draw_text(&line.name, &beside(13), (x + 32, y))?;
        x += 32 + 16 + text_width(&line.name, 13);
    }
    Ok(())
}

/// Estimates the width of a text, for any common sans-serif font: no font is available to measure with.
fn text_width(text: &str, size: i32) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(0) * size * 53 / 100
}
