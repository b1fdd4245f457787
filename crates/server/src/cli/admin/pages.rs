//! Lists in pages.

use clap::Args;
use serde_json::{Value as Json, json};

use super::Outcome;
use super::client::{Call, Client};
use super::output::{Format, List, ListOutput};
use super::table::plain;
use crate::cli::out;

/// The maximum length of a page.
const MAX_PAGE: u32 = 1000;

/// The flags of a list in pages.
#[derive(Args, Debug)]
pub(super) struct Paging {
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,
    /// Continue after another list.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// List all items, page by page.
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    all: bool,
}

impl Paging {
    /// Requests and prints the list that `call` returns.
    pub(super) fn print(
        &self,
        client: &Client,
        output: &ListOutput,
        call: impl Fn() -> Call,
        list: &List<'_>,
    ) -> Outcome {
        if self.all {
            let all = everything(client, call)?;
            match output.format() {
                Format::Json => out::print_json(&json!({ "items": all, "next_cursor": null })),
                _ => output.print(&all, list),
            }
            return Ok(());
        }
        let page =
            client.send(call().query("limit", Some(self.limit)).query("cursor", self.cursor.as_ref()))?;
        output.print_response(&page, list)?;
        if output.format() != Format::Json
            && let Some(next) = page.json()?["next_cursor"].as_str()
        {
            out::note(format_args!("there is more: --all, or --cursor '{}'", plain(next)));
        }
        Ok(())
    }
}

fn everything(client: &Client, call: impl Fn() -> Call) -> Outcome<Vec<Json>> {
    let mut all = Vec::new();
    for page in Pages::new(client, call) {
        all.append(&mut page?);
    }
    Ok(all)
}

/// Iterates over the pages of a list, each of the maximum length.
pub(super) struct Pages<'c, C> {
    client: &'c Client,
    call: C,
    cursor: Option<String>,
    done: bool,
}

impl<'c, C: Fn() -> Call> Pages<'c, C> {
    pub(super) fn new(client: &'c Client, call: C) -> Self {
        Self { client, call, cursor: None, done: false }
    }

    fn page(&mut self) -> Outcome<Vec<Json>> {
        let call = (self.call)().query("limit", Some(MAX_PAGE)).query("cursor", self.cursor.as_ref());
        let mut page = self.client.send(call)?.json()?;
        let next = page["next_cursor"].as_str().map(str::to_owned);
        // A cursor that does not change would repeat forever.
        self.done = next.is_none() || next == self.cursor;
        self.cursor = next;
        Ok(match page["items"].take() {
            Json::Array(items) => items,
            _ => Vec::new(),
        })
    }
}

impl<C: Fn() -> Call> Iterator for Pages<'_, C> {
    type Item = Outcome<Vec<Json>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let page = self.page();
        self.done |= page.is_err();
        Some(page)
    }
}
