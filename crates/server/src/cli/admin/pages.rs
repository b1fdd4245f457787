//! Lists that come in pages.

use clap::Args;
use serde_json::{Value as Json, json};

use super::Outcome;
use super::client::{Call, Client};
use super::output::{Format, ListOutput, items, print_body};
use super::table::plain;
use crate::cli::out;

/// The most that the API gives at once.
const MAX_PAGE: u32 = 1000;

/// The flags of a long list.
#[derive(Args, Debug)]
pub(super) struct Paging {
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,
    /// Go on where another list ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// All there are, page after page.
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    all: bool,
}

impl Paging {
    /// Asks for the list that `call` makes, and prints it: JSON here, the rest by `show`.
    pub(super) fn print(
        &self,
        client: &Client,
        output: &ListOutput,
        call: impl Fn() -> Call,
        show: impl FnOnce(&[Json]),
    ) -> Outcome {
        if self.all {
            let all = everything(client, call)?;
            match output.format() {
                Format::Json => out::print_json(&json!({ "items": all, "next_cursor": null })),
                _ => show(&all),
            }
            return Ok(());
        }
        let page =
            client.send(call().query("limit", Some(self.limit)).query("cursor", self.cursor.as_ref()))?;
        if output.format() == Format::Json {
            print_body(&page);
            return Ok(());
        }
        let list = page.json()?;
        show(items(&list));
        if let Some(next) = list["next_cursor"].as_str() {
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

/// The pages of a list, one after the other, as many items each as the API gives at once.
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
        // One that stays would have us ask for ever.
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
