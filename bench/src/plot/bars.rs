//! Horizontal bars in groups, each with its spread.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, DrawResult, beside, draw, heading, palette, text};
use crate::error::Error;
use crate::spread::Spread;

const WIDTH: u32 = 860;
const TITLE_HEIGHT: u32 = 34;
const GROUP_HEIGHT: i32 = 30;
const BAR_HEIGHT: i32 = 24;
const GAP: i32 = 10;
/// Where bars begin and where the longest spread ends, in pixels.
const LEFT: i32 = 230;
const RIGHT: i32 = 720;

/// One bar of a chart.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: Spread,
    pub(crate) colour: RGBColor,
}

/// A group of bars with a title.
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

/// Draws groups of bars below each other, all to the same scale.
pub(crate) fn bar_chart(path: &Path, title: &str, groups: &[Bars]) -> Result<(), Error> {
    let height_of =
        |group: &Bars| GROUP_HEIGHT + GAP + BAR_HEIGHT * i32::try_from(group.bars.len()).unwrap_or(0);
    let height = groups.iter().map(height_of).sum::<i32>() + GAP;
    let most = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value.max).fold(0.0, f64::max);
    let place = |value: f64| LEFT + (f64::from(RIGHT - LEFT) * value / most).round() as i32;
    draw(path, (WIDTH, TITLE_HEIGHT + height.cast_unsigned()), |root| {
        let body = heading(root, title)?;
        let mut y = 0;
        for group in groups {
            body.draw_text(&group.title, &beside(14), (16, y + GROUP_HEIGHT / 2))?;
            y += GROUP_HEIGHT;
            for bar in &group.bars {
                draw_bar(&body, bar, y, place)?;
                y += BAR_HEIGHT;
            }
            y += GAP;
        }
        Ok(())
    })
}

fn draw_bar(area: &Area<'_>, bar: &Bar, top: i32, place: impl Fn(f64) -> i32) -> DrawResult {
    let Spread { median, min, max } = bar.value;
    let middle = top + BAR_HEIGHT / 2;
    let corners = [(LEFT, top + 3), (place(median), top + BAR_HEIGHT - 3)];
    area.draw(&Rectangle::new(corners, bar.colour.filled()))?;
    let whisker = [(place(min), middle), (place(max), middle)];
    area.draw(&PathElement::new(whisker, palette::TEXT.stroke_width(1)))?;
    for (x, _) in whisker {
        area.draw(&PathElement::new([(x, middle - 4), (x, middle + 4)], palette::TEXT.stroke_width(1)))?;
    }
    let before = text(13).pos(Pos::new(HPos::Right, VPos::Center));
    area.draw_text(&bar.name, &before, (LEFT - 8, middle))?;
    area.draw_text(&format!("{:.1}", bar.value), &beside(13), (place(max) + 8, middle))?;
    Ok(())
}
