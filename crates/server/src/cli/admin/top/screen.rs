//! Draws the readings of a node.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Cell, Paragraph, Row, Sparkline, Table, TableState, Tabs};
use serde_json::Value as Json;

use super::super::failure::Failure;
use super::super::output::{text, value_name};
use super::super::table::plain;
use super::super::when;
use super::reading::{Query, Reading, View, key_name, short_number, short_time};

/// Rows below which the charts are left out, so that the list has room.
const CHARTS_FROM: u16 = 18;
/// Columns below which only two figures are shown.
const ALL_FIGURES_FROM: u16 = 76;
/// Columns below which lists leave out what is least needed.
const WIDE: u16 = 100;

/// The state of the terminal.
pub(super) struct Screen {
    /// The address of the node.
    address: String,
    pub(super) query: Query,
    reading: Reading,
    /// Why the node could not be asked the last time.
    failure: Option<String>,
    selected: TableState,
}

impl Screen {
    pub(super) fn new(address: String, query: Query, reading: Reading) -> Self {
        Self { address, query, reading, failure: None, selected: TableState::new().with_selected(0) }
    }

    /// Shows a new reading; if there is none, the last one and the reason.
    pub(super) fn take(&mut self, reading: Result<Reading, Failure>) {
        match reading {
            Ok(reading) => {
                if reading.view != self.reading.view {
                    self.selected.select(Some(0));
                }
                (self.reading, self.failure) = (reading, None);
            }
            Err(failure) => {
                // Without the hints, which are on separate lines.
                let text = failure.to_string();
                let first = text.lines().next().unwrap_or_default();
                self.failure = Some(plain(first.trim_start_matches("error: ")));
            }
        }
    }

    /// Moves the selection by `by` rows.
    pub(super) fn select(&mut self, by: i16) {
        let last = self.reading.items().len().saturating_sub(1);
        let at = self.selected.selected().unwrap_or_default();
        self.selected.select(Some(at.saturating_add_signed(by.into()).min(last)));
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let warnings = self.warnings();
        let charts = if frame.area().height >= CHARTS_FROM { 6 } else { 3 };
        let [head, banner, figures, tabs, list, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(u16::try_from(warnings.len()).unwrap_or(0).min(3)),
            Constraint::Length(charts),
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head);
        let lines = warnings.into_iter().map(|text| Line::from(format!(" ! {text}")));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).red().bold(), banner);
        self.draw_figures(frame, figures);
        self.draw_tabs(frame, tabs);
        self.draw_list(frame, list);
        draw_foot(frame, foot);
    }

    /// Returns what is wrong: with the connection, and with the node.
    fn warnings(&self) -> Vec<String> {
        let failed = self.failure.as_ref().map(|failure| format!("asking again: {failure}"));
        failed.into_iter().chain(self.reading.reasons()).collect()
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let (state, colour) = match () {
            () if self.failure.is_some() => ("disconnected".to_owned(), Color::Red),
            () if self.query.paused => ("paused".to_owned(), Color::Yellow),
            () if self.reading.is_degraded() => (self.reading.degradation(), Color::Red),
            () => (self.reading.degradation(), Color::Green),
        };
        let reading = &self.reading;
        let nodes = match reading.nodes() {
            1 => String::new(),
            nodes => format!(" · {nodes} nodes"),
        };
        let about = format!(
            " · {} · up {} · {}{nodes} · {}",
            reading.version(),
            reading.uptime(),
            reading.store(),
            self.address
        );
        let left =
            Line::from(vec![" tidegate ".bold().reversed(), " ".into(), reading.node().bold(), about.dim()]);
        let right = Line::from(format!("● {state} ")).style(Style::new().fg(colour).bold());
        let width = u16::try_from(right.width()).unwrap_or(area.width);
        let [one, other] = Layout::horizontal([Constraint::Min(0), Constraint::Length(width)]).areas(area);
        frame.render_widget(left, one);
        frame.render_widget(right, other);
    }

    fn draw_figures(&self, frame: &mut Frame<'_>, area: Rect) {
        let rate = |name: &str| {
            self.reading.rate(name).map_or("-".to_owned(), |rate| format!("{}/s", short_number(rate)))
        };
        let time = |name: &str| self.reading.percentile_us(name).map_or("-".to_owned(), short_time);
        let figures = [
            ("allowed", rate("allowed"), "allowed", Color::Green),
            ("denied", rate("denied"), "denied", Color::Red),
            ("would be denied (shadow)", rate("shadow_denied"), "shadow_denied", Color::Yellow),
            ("latency, p99", time("p99"), "p99", Color::Blue),
        ];
        let count = if area.width < ALL_FIGURES_FROM { 2 } else { figures.len() };
        let areas = Layout::horizontal(vec![Constraint::Fill(1); count]).split(area);
        for ((title, figure, series, colour), area) in figures.into_iter().zip(areas.iter()) {
            let block = Block::bordered().border_type(BorderType::Rounded).border_style(Style::new().dim());
            let block = block.title(Span::from(format!(" {title} ")).style(Style::new().not_dim()));
            let inner = block.inner(*area);
            frame.render_widget(block, *area);
            let [number, chart] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(inner);
            frame.render_widget(Line::from(figure).style(Style::new().fg(colour).bold()), number);
            let values = self.reading.values(series, chart.width.into());
            frame.render_widget(Sparkline::default().data(values).style(Style::new().fg(colour)), chart);
        }
    }

    fn draw_tabs(&self, frame: &mut Frame<'_>, area: Rect) {
        let [names, about] = Layout::horizontal([Constraint::Length(32), Constraint::Min(0)]).areas(area);
        let titles = View::ALL.iter().enumerate().map(|(at, view)| format!("{} {}", at + 1, view.name()));
        let at = View::ALL.iter().position(|view| *view == self.query.view).unwrap_or_default();
        let tabs = Tabs::new(titles).select(at).divider(" ");
        frame.render_widget(tabs.highlight_style(Style::new().bold().reversed()), names);
        let about_list = match self.query.view {
            View::Keys => {
                let (by, window) = (value_name(&self.query.by), value_name(&self.query.window));
                let whose = if self.query.node { "this node" } else { "all nodes" };
                format!("most {by}, last {window}, {whose} ")
            }
            View::Rules => "the last hour ".to_owned(),
            View::Denials => "the last denials of each rule ".to_owned(),
        };
        frame.render_widget(Line::from(about_list).alignment(Alignment::Right).dim(), about);
    }

    fn draw_list(&mut self, frame: &mut Frame<'_>, area: Rect) {
        if self.reading.view != self.query.view {
            return frame.render_widget(Paragraph::new("\n  asking the node …").dim(), area);
        }
        let items = self.reading.items();
        if items.is_empty() {
            let none = match self.query.view {
                View::Keys => "no key has been seen in this time",
                View::Rules => "no rules are in force",
                View::Denials => "nothing was denied lately",
            };
            return frame.render_widget(Paragraph::new(format!("\n  {none}")).dim(), area);
        }
        let wide = area.width >= WIDE;
        let (head, widths) = columns(self.query.view, wide);
        let cells = |item: &Json| {
            let mut cells = match self.query.view {
                View::Keys => key_cells(item, items),
                View::Rules => rule_cells(item),
                View::Denials => denial_cells(item),
            };
            cells.truncate(head.len());
            Row::new(cells)
        };
        let head_row = Row::new(head.iter().map(|name| Cell::from(*name))).dim();
        let table = Table::new(items.iter().map(cells), widths)
            .header(head_row)
            .column_spacing(2)
            .highlight_symbol("▸")
            .row_highlight_style(Style::new().add_modifier(Modifier::BOLD).bg(Color::DarkGray));
        frame.render_stateful_widget(table, area, &mut self.selected);
    }
}

/// Returns the columns of a list, the least needed last.
fn columns(view: View, wide: bool) -> (Vec<&'static str>, Vec<Constraint>) {
    use Constraint::{Fill, Length};
    let mut columns: Vec<(&str, Constraint)> = match view {
        View::Keys => vec![
            ("   COUNT", Length(8)),
            ("±", Length(7)),
            ("", Length(8)),
            ("KEY", Fill(3)),
            ("RULE", Fill(1)),
            ("LAST", Length(9)),
            ("DOMAIN", Fill(1)),
        ],
        View::Rules => vec![
            (" ALLOWED", Length(8)),
            ("  DENIED", Length(8)),
            ("  SHADOW", Length(8)),
            ("STATE", Length(8)),
            ("RULE", Fill(2)),
            ("LIMITS", Fill(2)),
            ("DOMAIN", Fill(1)),
        ],
        View::Denials => vec![
            ("WHEN", Length(9)),
            ("KEY", Fill(3)),
            ("RULE", Fill(1)),
            ("LIMIT", Fill(2)),
            ("RETRY", Length(8)),
            ("REQUEST", Length(20)),
            ("BY", Length(5)),
        ],
    };
    if !wide {
        columns.truncate(5);
    }
    columns.into_iter().unzip()
}

fn key_cells(key: &Json, all: &[Json]) -> Vec<Cell<'static>> {
    let count = |key: &Json| key["count"].as_f64().unwrap_or_default();
    let most = all.iter().map(count).fold(1.0, f64::max);
    let bar = "█".repeat((count(key) / most * 8.0).round() as usize);
    let error = key["error"].as_f64().unwrap_or_default();
    vec![
        right(&short_number(count(key)), 8).bold().into(),
        format!("±{}", short_number(error)).dim().into(),
        bar.red().into(),
        key_name(key).into(),
        plain(&text(key, "rule")).into(),
        ago(&key["last"]).into(),
        plain(&text(key, "domain")).dim().into(),
    ]
}

fn rule_cells(rule: &Json) -> Vec<Cell<'static>> {
    let number = |name: &str, colour: Color| {
        let number = rule[name].as_f64().unwrap_or_default();
        let style = if number > 0.0 { Style::new().fg(colour).bold() } else { Style::new().dim() };
        Cell::from(right(&short_number(number), 8)).style(style)
    };
    let limits = rule["limits"].as_array().into_iter().flatten().map(|limit| plain(&text(limit, "text")));
    let state = text(rule, "state");
    let style = if state == "enforced" { Style::new().dim() } else { Style::new().yellow().bold() };
    vec![
        number("allowed", Color::Green),
        number("denied", Color::Red),
        number("shadow_denied", Color::Yellow),
        Cell::from(state).style(style),
        plain(&text(rule, "rule")).into(),
        limits.collect::<Vec<_>>().join(", ").into(),
        plain(&text(rule, "domain")).dim().into(),
    ]
}

fn denial_cells(denial: &Json) -> Vec<Cell<'static>> {
    let retry = denial["retry_after_ms"].as_f64();
    let shadow = if denial["shadow"] == true { " (shadow)" } else { "" };
    vec![
        ago(&denial["at"]).into(),
        key_name(denial).into(),
        format!("{}{shadow}", plain(&text(denial, "rule"))).into(),
        plain(&text(denial, "limit_text")).into(),
        retry.map_or("never".to_owned(), |ms| short_time(ms * 1e3)).into(),
        plain(&text(denial, "request_id")).dim().into(),
        text(denial, "front_end").dim().into(),
    ]
}

/// Returns how long ago a time is, such as `12s ago`.
fn ago(at: &Json) -> String {
    let Some(at) = at.as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok()) else {
        return "-".to_owned();
    };
    match when::now().duration_since(at).as_secs().max(0) {
        seconds @ 0..60 => format!("{seconds}s ago"),
        seconds @ 60..3_600 => format!("{}m ago", seconds / 60),
        seconds => format!("{}h ago", seconds / 3_600),
    }
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect) {
    let hints = [
        ("q", "quit"),
        ("tab", "list"),
        ("b", "denied/all"),
        ("w", "window"),
        ("n", "node/all"),
        ("p", "pause"),
        ("↑↓", "select"),
    ];
    let spans = hints.iter().flat_map(|(key, what)| [format!(" {key} ").bold(), format!("{what}  ").dim()]);
    frame.render_widget(Line::from(spans.collect::<Vec<_>>()), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::super::{By, Shown, Window};
    use super::*;

    fn screen(view: View, list: Json) -> Screen {
        let overview = json!({
            "node": "node-1", "version": "0.1.0", "uptime_s": 11_520, "store": { "kind": "redis" },
            "degradation": { "level": 1, "name": "degraded", "reasons": ["redis://a is away"] },
            "nodes": [{}, {}],
        });
        let series = |name: &str, value: f64| json!({ "name": name, "values": [0, value, value, null] });
        let decisions = json!({ "series": [
            series("allowed", 12_400.0), series("denied", 25.5), series("shadow_denied", 0.0), series("error", 0.0),
        ] });
        let latency = json!({ "series": [series("p50", 40.0), series("p99", 1_240.0)] });
        let shown = Shown {
            by: By::Denied,
            window: Window::TenMinutes,
            domain: None,
            rule: None,
            limit: 20,
            node: false,
            once: false,
            json: false,
        };
        let mut query = Query::new(shown);
        query.view = view;
        let reading = Reading::of(view, overview, decisions, latency, list);
        Screen::new("http://127.0.0.1:6070".to_owned(), query, reading)
    }

    fn drawn(screen: &mut Screen, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| screen.draw(frame)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn the_essentials_are_on_the_screen_and_names_are_harmless() {
        let list = json!({ "by": "denied", "window": "10m", "scope": "fleet", "keys": [
            { "count": 4_000, "error": 20, "key": "api_key=acme", "rule": "api_key", "domain": "api" },
            { "count": 10, "error": 2, "key": "api_key=\u{1b}[2J\u{202e}evil", "rule": "api_key", "domain": "api" },
            { "count": 9, "error": 2, "key": null, "hidden": true, "fingerprint": "9f3a5c0d11e2b47a", "rule": "r", "domain": "api" },
        ] });
        let text = drawn(&mut screen(View::Keys, list), (110, 30));
        for found in [
            "node-1",
            "3h 12m",
            "2 nodes",
            "degraded",
            "redis://a is away",
            "12.4k/s",
            "25.5/s",
            "1.2 ms",
            "most denied, last 10m, all nodes",
            "4000",
            "api_key=acme",
            "\\u{1b}[2J\\u{202e}evil",
            "9f3a5c0d11e2b47a",
            "quit",
        ] {
            assert!(text.contains(found), "{found:?} is missing in\n{text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    }

    #[test]
    fn every_list_fits_every_terminal() {
        let rules = json!({ "rules": [{ "allowed": 5, "denied": 2, "shadow_denied": 0, "state": "shadow",
            "rule": "api_key", "domain": "api", "limits": [{ "text": "100 per minute" }] }] });
        let denials = json!({ "denials": [{ "at": "2026-01-01T00:00:00Z", "key": "api_key=acme", "rule": "api_key",
            "limit_text": "100 per minute", "retry_after_ms": 1_500, "request_id": "r-7", "front_end": "http" }] });
        for (view, list, found) in [
            (View::Rules, rules, "shadow"),
            (View::Denials, denials, "api_key=acme"),
            (View::Keys, json!({}), "no key"),
        ] {
            for size in [(200, 60), (100, 24), (80, 24), (40, 12), (20, 8), (1, 1)] {
                let text = drawn(&mut screen(view, list.clone()), size);
                assert!(size.0 < 80 || text.contains(found), "{size:?}: {found:?} is missing in\n{text}");
            }
        }
    }

    #[test]
    fn a_node_that_is_away_is_shown_with_what_it_said_last() {
        let mut screen = screen(View::Keys, json!({}));
        screen.take(Err(Failure::Unreachable("connection refused".to_owned())));
        let text = drawn(&mut screen, (100, 30));
        for found in ["disconnected", "asking again: connection refused", "12.4k/s"] {
            assert!(text.contains(found), "{found:?} is missing in\n{text}");
        }
        screen.select(5);
        screen.select(-9);
    }
}
