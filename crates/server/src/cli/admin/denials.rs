//! `tidegate denials`: the last denials of a running node.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value as Json;

use super::client::Call;
use super::flags::AdminFlags;
use super::output::{Column, Format, List, ListOutput, print_body, text};
use super::{Outcome, finish, long_help};

const DENIALS_EXAMPLES: &str = "\
Examples:
  tidegate denials
  tidegate denials --rule api_key --limit 20
  tidegate denials --request-id 7b1f22c4-90f7-4c52-8a4c-5d0a1d3c5a01
  tidegate denials --fingerprint 9f3a5c0d11e2b47a -o json";

/// List the last denials of each rule, newest first.
#[derive(Args)]
#[command(after_help = DENIALS_EXAMPLES, after_long_help = long_help(DENIALS_EXAMPLES))]
pub(in crate::cli) struct Denials {
    /// Only those of this domain.
    #[arg(long)]
    domain: Option<String>,
    /// Only those of this rule.
    #[arg(long)]
    rule: Option<String>,
    /// Only those of the key with this fingerprint.
    #[arg(long, value_name = "TEXT")]
    fingerprint: Option<String>,
    /// Only those of requests with this `x-request-id`.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// The maximum number of denials.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

impl Denials {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(self.show())
    }

    fn show(self) -> Outcome {
        let call = Call::get(&["denials"])
            .query("domain", self.domain.as_ref())
            .query("rule", self.rule.as_ref())
            .query("fingerprint", self.fingerprint.as_ref())
            .query("request_id", self.request_id.as_ref())
            .query("limit", self.limit);
        let response = self.admin.client()?.send(call)?;
        if self.output.format() == Format::Json {
            print_body(&response);
            return Ok(());
        }
        let key = |denial: &Json| match &denial["key"] {
            Json::Null => text(denial, "fingerprint"),
            _ => text(denial, "key"),
        };
        let retry = |denial: &Json| {
            let ms = denial["retry_after_ms"].as_u64();
            ms.map_or("never".to_owned(), |ms| format!("{:.1?}", Duration::from_millis(ms)))
        };
        let list = List {
            name: "id",
            columns: vec![
                Column::time("AT", "at"),
                Column::new("KEY", key),
                Column::member("RULE", "rule"),
                Column::member("LIMIT", "limit"),
                Column::new("RETRY AFTER", retry),
                Column::member("SHADOW", "shadow"),
                Column::member("NUMBERS", "limit_text").wide(),
                Column::member("COST", "cost").wide(),
                Column::member("SOURCE", "source").wide(),
                Column::member("BY", "front_end").wide(),
                Column::member("DOMAIN", "domain").wide(),
                Column::member("REQUEST", "request_id").wide(),
                Column::member("ID", "id").wide(),
            ],
            empty: "nothing was denied lately",
        };
        let body = response.json()?;
        self.output.print(body["denials"].as_array().map_or(&[][..], Vec::as_slice), &list);
        Ok(())
    }
}
