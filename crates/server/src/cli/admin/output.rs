//! How to print.

use clap::{Args, ValueEnum};
use serde_json::Value as Json;

use super::client::Answer;
use super::table::Table;
use crate::cli::out;

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// Columns for people, more of them.
    Wide,
    /// What the API answers, as it is.
    Json,
    /// Names alone, one on a line.
    Name,
}

/// The flags of what lists something.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct ListOutput {
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    output: Format,
    /// Print what the API answers: the same as `-o json`.
    #[arg(long)]
    json: bool,
    /// Print columns without their names.
    #[arg(long)]
    no_headers: bool,
}

/// The flags of what shows or changes one thing.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct OneOutput {
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    output: OneFormat,
    /// Print what the API answers: the same as `-o json`.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OneFormat {
    /// For people.
    Text,
    /// What the API answers, as it is.
    Json,
}

impl ListOutput {
    pub(super) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }

    /// Prints columns; if there are no rows, says so on standard error, where no script trips over it.
    pub(super) fn print(&self, table: &Table, nothing: &str) {
        if table.is_empty() {
            out::note(nothing);
        } else {
            out::print(&table.render(!self.no_headers));
        }
    }
}

impl OneOutput {
    pub(super) fn is_json(&self) -> bool {
        self.json || self.output == OneFormat::Json
    }
}

/// The body as it came, ending with a newline.
pub(super) fn print_body(answer: &Answer) {
    let mut text = String::from_utf8_lossy(&answer.body).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    out::print(&text);
}

/// A member as text; nothing if it is null or not there.
pub(super) fn text(value: &Json, name: &str) -> String {
    match &value[name] {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list.
pub(super) fn items(value: &Json) -> &[Json] {
    value["items"].as_array().map_or(&[], Vec::as_slice)
}
