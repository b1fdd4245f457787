//! Output formats.

use clap::{Args, ValueEnum};
use serde_json::Value as Json;

use super::client::ApiResponse;
use super::table::Table;
use super::{Outcome, when};
use crate::cli::out;

/// The output format of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// The response of the API.
    Json,
    /// Names alone, one per line.
    Name,
}

/// The output flags of a list.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct ListOutput {
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    output: Format,
    /// Print the response of the API, as `-o json` does.
    #[arg(long)]
    json: bool,
    /// Print tables without headers.
    #[arg(long)]
    no_headers: bool,
}

/// The output flags of a command that shows or changes one object.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct OneOutput {
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    output: OneFormat,
    /// Print the response of the API, as `-o json` does.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OneFormat {
    /// Text.
    Text,
    /// The response of the API.
    Json,
}

impl ListOutput {
    pub(super) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }

    /// Prints a list as the flags ask: the response, the names of its items, or a table.
    pub(super) fn print_response(&self, response: &ApiResponse, list: &List<'_>) -> Outcome {
        if self.format() == Format::Json {
            print_body(response);
        } else {
            self.print(items(&response.json()?), list);
        }
        Ok(())
    }

    /// Prints the names of items, or a table of them. If there are none, prints a message to standard error instead, so
    /// that scripts get no output.
    pub(super) fn print(&self, items: &[Json], list: &List<'_>) {
        if self.format() == Format::Name {
            return out::print(&items.iter().map(|item| text(item, list.name) + "\n").collect::<String>());
        }
        if items.is_empty() {
            return out::note(list.empty);
        }
        let is_shown = |column: &&Column<'_>| !column.wide || self.format() == Format::Wide;
        let columns: Vec<&Column<'_>> = list.columns.iter().filter(is_shown).collect();
        let mut table = Table::new(&columns.iter().map(|column| column.header).collect::<Vec<_>>());
        for item in items {
            table.row(columns.iter().map(|column| (column.cell)(item)).collect());
        }
        out::print(&table.render(!self.no_headers));
    }
}

/// How the items of a list are printed.
pub(super) struct List<'c> {
    /// The member with the name of an item.
    pub(super) name: &'static str,
    /// The columns of the table.
    pub(super) columns: Vec<Column<'c>>,
    /// The message if there are no items.
    pub(super) empty: &'static str,
}

/// A column of a list.
pub(super) struct Column<'c> {
    header: &'static str,
    wide: bool,
    cell: Box<dyn Fn(&Json) -> String + 'c>,
}

impl<'c> Column<'c> {
    pub(super) fn new(header: &'static str, cell: impl Fn(&Json) -> String + 'c) -> Self {
        Self { header, wide: false, cell: Box::new(cell) }
    }

    /// Returns a column of a member of the items.
    pub(super) fn member(header: &'static str, name: &'static str) -> Self {
        Self::new(header, move |item| text(item, name))
    }

    /// Returns a column of a member that is a time.
    pub(super) fn time(header: &'static str, name: &'static str) -> Self {
        let now = when::now();
        Self::new(header, move |item| when::shown(item[name].as_str(), now))
    }

    /// Shows the column only in wide tables.
    pub(super) fn wide(self) -> Self {
        Self { wide: true, ..self }
    }
}

impl OneOutput {
    pub(super) fn is_json(&self) -> bool {
        self.json || self.output == OneFormat::Json
    }
}

/// Prints the body of a response, with a newline at the end.
pub(super) fn print_body(response: &ApiResponse) {
    let mut text = String::from_utf8_lossy(&response.body).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    out::print(&text);
}

/// Returns a member as text; empty if it is null or missing.
pub(super) fn text(value: &Json, name: &str) -> String {
    match &value[name] {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn items(value: &Json) -> &[Json] {
    value["items"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the name of a flag's value.
pub(super) fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
