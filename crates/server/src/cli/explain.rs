//! `tidegate explain`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use http::Method;
use serde_json::{Value as Json, json};
use tidegate::{Explanation, Limiter, Request};

use super::admin::client::Call;
use super::admin::failure::Failure;
use super::admin::flags::AdminFlags;
use super::admin::{EXIT_CODES, Outcome, finish};
use super::out;

const EXAMPLES: &str = "\
Examples:
  tidegate explain --domain api api_key=ann
  tidegate explain --domain api --cost 5 api_key=ann 'endpoint=POST /v1/orders'
  tidegate explain --domain api api_key=ann + ip=192.0.2.7       two descriptors
  tidegate explain --live --domain api api_key=ann               with the counters of a running node";

/// Explain how a request would be decided, and why.
///
/// Matches the request with the rules, and prints the rule of each entry, the limits that apply, and the one that decides.
/// Nothing is charged.
///
/// By default it reads the rule files, and all counters are zero. With --live it asks a running node, which has the current
/// counters.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Explain {
    /// The domain of the request.
    #[arg(long)]
    domain: String,
    /// The cost of the request.
    #[arg(long, value_name = "N", default_value_t = 1)]
    cost: u64,
    /// The rule file or folder [default: the setting `rules`]
    #[arg(long, value_name = "PATH", conflicts_with = "live")]
    rules: Option<PathBuf>,
    /// Ask a running node.
    #[arg(long)]
    live: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminFlags,
    /// The entries in order; a separate `+` begins another descriptor.
    #[arg(value_name = "KEY=VALUE", required = true)]
    entries: Vec<String>,
}

/// The descriptors of the request.
type Descriptors = Vec<Vec<(String, String)>>;

impl Explain {
    pub(super) fn run(self) -> ExitCode {
        if self.live {
            return finish(self.ask_node());
        }
        match descriptors(&self.entries) {
            Ok(descriptors) => self.explain_files(&descriptors),
            Err(failure) => finish(Err(failure)),
        }
    }

    fn explain_files(self, descriptors: &Descriptors) -> ExitCode {
        let json = self.json;
        match self.by_files(descriptors) {
            Ok(explanation) => {
                print(&explanation, json);
                ExitCode::SUCCESS
            }
            Err(message) => out::fail(message),
        }
    }

    fn by_files(self, descriptors: &Descriptors) -> Result<Explanation, String> {
        let settings = self.admin.settings().map_err(|problems| problems.to_string())?;
        let path = self.rules.or(settings.rules).unwrap_or_else(|| "rules".into());
        let limiter = Limiter::builder().defaults(settings.defaults).rules(path).watch(false).build();
        let limiter = limiter.map_err(|error| error.to_string())?;
        let mut all = descriptors.iter().map(|entries| {
            entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>()
        });
        let first = all.next().unwrap_or_default();
        let request = all.fold(Request::new(&self.domain, first), Request::and).cost(self.cost);
        Ok(limiter.explain(&request))
    }

    fn ask_node(self) -> Outcome {
        let entry = |(key, value): &(String, String)| json!({ "key": key, "value": value });
        let descriptor = |entries: &Vec<(String, String)>| {
            let entries: Vec<Json> = entries.iter().map(entry).collect();
            json!({ "entries": entries })
        };
        let descriptors: Vec<Json> = descriptors(&self.entries)?.iter().map(descriptor).collect();
        let request = json!({ "domain": self.domain, "descriptors": descriptors, "cost": self.cost });
        let response = self.admin.client()?.send(Call::new(Method::POST, &["explain"]).json(&request))?;
        let explanation = serde_json::from_slice(&response.body).map_err(|error| {
            Failure::other(format!("the response of the node is not an explanation: {error}"))
        })?;
        print(&explanation, self.json);
        Ok(())
    }
}

fn print(explanation: &Explanation, json: bool) {
    if json {
        out::print_json(explanation);
    } else {
        out::print(&explanation.to_string());
    }
}

/// Parses descriptors: `a=1 b=2 + c=3` is two of them. A value may contain `=`.
fn descriptors(tokens: &[String]) -> Outcome<Descriptors> {
    let mut all = Vec::new();
    for group in tokens.split(|token| token == "+") {
        let mut entries = Vec::with_capacity(group.len());
        for token in group {
            match token.split_once('=') {
                Some((key, value)) if !key.is_empty() => entries.push((key.to_owned(), value.to_owned())),
                _ => return Err(Failure::usage(format!("an entry must be KEY=VALUE, got {token:?}"))),
            }
        }
        if entries.is_empty() {
            return Err(Failure::usage("a descriptor has no entries; give some on both sides of each +"));
        }
        all.push(entries);
    }
    Ok(all)
}
