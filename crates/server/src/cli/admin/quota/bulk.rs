//! `quota export` and `quota import`: all tenants at once, as JSON lines.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use http::Method;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};

use super::super::client::{Call, Client};
use super::super::failure::Failure;
use super::super::flags::AdminFlags;
use super::super::input::read;
use super::super::output::OneOutput;
use super::super::pages::Pages;
use super::super::{Outcome, long_help};
use super::edit::kept;
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate quota export > tenants.jsonl
  tidegate quota export --tier pro -f pro.jsonl
  tidegate quota import tenants.jsonl --dry-run
  tidegate quota import tenants.jsonl
  tidegate quota export --context old | tidegate quota import - --context new";

const FORMAT: &str = "\
The file:
  A line per tenant, each a JSON object: its name, its tier, and its overrides as `quota get -o json`
  shows them. Empty lines are skipped.
  {\"tenant\":\"acme\",\"tier\":\"pro\",\"overrides\":[{\"descriptor\":\"default\",\"requests_per_unit\":500,\"unit\":\"minute\"}]}";

/// A tag that nothing ever has: a node checks what it is sent, and then changes nothing, because it is meant for
/// something else.
const NEVER: &str = "\"check-only\"";

/// Write tenants to standard output or a file, one JSON object per line, in the order of their names.
///
/// They are read page by page and written as they come, so that any number fits. A file is whole or not there.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(&format!("{EXAMPLES}\n\n{FORMAT}")))]
pub(super) struct Export {
    /// Those of a tier only.
    #[arg(long)]
    tier: Option<String>,
    /// Those whose names begin so only.
    #[arg(long, short = 'q', value_name = "TEXT")]
    prefix: Option<String>,
    /// Leave out overrides that have ended.
    #[arg(long)]
    without_ended: bool,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Set the tiers and overrides of many tenants from a file. Tenants that are not in it stay as they are.
///
/// Every line is checked first, here and by the node; if one is wrong, all mistakes are told with their lines, and
/// nothing is changed. Tenants that are already as the file says are left alone, so that an import that broke off
/// goes on when it is run again. If somebody else changes a tenant at the same time, that one is not changed.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(&format!("{EXAMPLES}\n\n{FORMAT}")))]
pub(super) struct Import {
    /// The file; `-` is standard input.
    file: PathBuf,
    /// Check everything, tell what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

impl Export {
    pub(super) fn run(self) -> Outcome {
        let client = self.admin.client()?;
        let (tier, prefix) = (self.tier.as_ref(), self.prefix.as_ref());
        let call = || Call::get(&["quotas"]).query("tier", tier).query("q", prefix);
        let now = self.without_ended.then(Timestamp::now);
        let Some(path) = &self.file else {
            return export(&client, call, now, &mut io::stdout().lock(), "standard output").map(|_| ());
        };
        let name = path.display().to_string();
        let draft = path.with_added_extension(format!("{}.part", std::process::id()));
        let cannot = |error: io::Error| Failure::other(format!("cannot write {name}: {error}"));
        let mut file = io::BufWriter::new(fs::File::create_new(&draft).map_err(cannot)?);
        let exported = export(&client, call, now, &mut file, &name)
            .and_then(|count| file.flush().map_err(cannot).map(|()| count))
            .and_then(|count| fs::rename(&draft, path).map_err(cannot).map(|()| count));
        match exported {
            Ok(count) => out::note(format_args!("{name}: {}", out::count(count, "tenant"))),
            Err(failure) => {
                let _ = fs::remove_file(&draft);
                return Err(failure);
            }
        }
        Ok(())
    }
}

/// Writes every tenant; how many they were. With a time, without the overrides that have ended by then.
fn export(
    client: &Client,
    call: impl Fn() -> Call,
    now: Option<Timestamp>,
    target: &mut impl io::Write,
    name: &str,
) -> Outcome<usize> {
    let bar = spinner();
    let mut count = 0;
    for page in Pages::new(client, call) {
        for item in page? {
            let line = portable(&item, now).to_string() + "\n";
            match target.write_all(line.as_bytes()) {
                Ok(()) => {}
                // Nobody reads on, as with `| head`.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(count),
                Err(error) => return Err(Failure::other(format!("cannot write {name}: {error}"))),
            }
            count += 1;
        }
        bar.set_message(format!("{count} tenants"));
    }
    bar.finish_and_clear();
    Ok(count)
}

/// A tenant of a list as a line of the file.
fn portable(item: &Json, now: Option<Timestamp>) -> Json {
    let ended = |one: &Json| {
        let end = one["expires_at"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        end.zip(now).is_some_and(|(end, now)| end <= now)
    };
    let overrides = item["overrides"].as_array().into_iter().flatten();
    let overrides: Vec<Json> = overrides.filter(|one| !ended(one)).cloned().map(kept).collect();
    json!({ "tenant": item["tenant"], "tier": item["tier"], "overrides": overrides })
}

/// A line of the file.
struct Line {
    number: usize,
    tenant: String,
    /// What is put.
    body: Json,
}

/// What is to be done with a tenant.
struct Change<'l> {
    line: &'l Line,
    /// The revision that it has; `None` if it is new.
    revision: Option<u64>,
}

impl Import {
    pub(super) fn run(self) -> Outcome {
        let name = self.file.display().to_string();
        let lines = parse(&name, text_of(&name, &read(&self.file)?)?)?;
        let client = self.admin.client()?;
        let known = known(&client)?;
        let (mut changes, mut created) = (Vec::new(), 0);
        for line in &lines {
            let before = known.get(&line.tenant);
            if before.is_some_and(|(_, body)| *body == line.body) {
                continue;
            }
            created += usize::from(before.is_none());
            changes.push(Change { line, revision: before.map(|(revision, _)| *revision) });
        }
        let summary = Summary {
            created,
            changed: changes.len() - created,
            unchanged: lines.len() - changes.len(),
            dry_run: self.dry_run,
        };
        each(&client, &name, "checking", &changes, check)?;
        if !self.dry_run {
            each(&client, &name, "importing", &changes, put)?;
        }
        if self.output.is_json() {
            out::print_json(&json!(summary));
        } else {
            out::print(&summary.text());
        }
        Ok(())
    }
}

#[derive(serde::Serialize)]
struct Summary {
    created: usize,
    changed: usize,
    unchanged: usize,
    dry_run: bool,
}

impl Summary {
    fn text(&self) -> String {
        let Self { created, changed, unchanged, dry_run } = self;
        let state = if *dry_run { "nothing was changed (dry run): " } else { "" };
        format!("{state}{created} created, {changed} changed, {unchanged} as they were\n")
    }
}

/// Reads every line, or says everything that is wrong with them.
/// The content of a file as text, or the line that is not UTF-8.
fn text_of<'f>(name: &str, content: &'f [u8]) -> Outcome<&'f str> {
    std::str::from_utf8(content).map_err(|error| {
        let line = content[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        Failure::invalid(format!("{name}:{line}: is not UTF-8; save the file in that encoding"))
    })
}

fn parse(name: &str, text: &str) -> Outcome<Vec<Line>> {
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (index, content) in text.lines().enumerate().filter(|(_, content)| !content.trim().is_empty()) {
        let number = index + 1;
        match parse_line(number, content) {
            Ok(line) => match first.insert(line.tenant.clone(), number) {
                None => lines.push(line),
                Some(before) => wrong.push(Failure::invalid(format!(
                    "{name}:{number}: tenant {:?} is in line {before} already",
                    line.tenant
                ))),
            },
            Err(reason) => wrong.push(Failure::invalid(format!("{name}:{number}: {reason}"))),
        }
    }
    if wrong.is_empty() { Ok(lines) } else { Err(Failure::all(wrong)) }
}

fn parse_line(number: usize, content: &str) -> Result<Line, String> {
    let value: Json = serde_json::from_str(content).map_err(|error| {
        // It counts lines of what it was given, which is one.
        let error = error.to_string();
        let error = error
            .split_once(" at line 1 ")
            .map_or(error.clone(), |(what, place)| format!("{what} at {place}"));
        format!("is not JSON: {error}")
    })?;
    let Json::Object(mut members) = value else {
        return Err("must be an object: {\"tenant\": …, \"tier\": …, \"overrides\": […]}".to_owned());
    };
    let tenant = match members.remove("tenant") {
        Some(Json::String(tenant)) if !tenant.is_empty() => tenant,
        Some(other) => return Err(format!("tenant must be a name, got {other}")),
        None => return Err("tenant is missing: which is it?".to_owned()),
    };
    // What lists show beside, and nobody can put.
    for shown in ["updated_at", "revision"] {
        members.remove(shown);
    }
    Ok(Line { number, tenant, body: normal(members) })
}

/// A tenant as the API takes it: the same text for the same tier and overrides.
fn normal(mut members: Map<String, Json>) -> Json {
    let tier = members.remove("tier").unwrap_or_default();
    let overrides = match members.remove("overrides") {
        Some(Json::Array(items)) => items.into_iter().map(kept).collect(),
        None | Some(Json::Null) => json!([]),
        // The node says what is wrong with it.
        Some(other) => other,
    };
    let mut body: Map<String, Json> =
        [("tier".to_owned(), tier), ("overrides".to_owned(), overrides)].into_iter().collect();
    body.extend(members);
    Json::Object(body)
}

/// Every tenant that there is: its revision, and what would have to be put to make it so.
fn known(client: &Client) -> Outcome<BTreeMap<String, (u64, Json)>> {
    let mut known = BTreeMap::new();
    for page in Pages::new(client, || Call::get(&["quotas"])) {
        for item in page? {
            let Json::Object(mut members) = portable(&item, None) else { continue };
            let Some(Json::String(tenant)) = members.remove("tenant") else { continue };
            known.insert(tenant, (item["revision"].as_u64().unwrap_or_default(), normal(members)));
        }
    }
    Ok(known)
}

fn call(change: &Change<'_>) -> Call {
    Call::new(Method::PUT, &["quotas", &change.line.tenant]).json(&change.line.body)
}

/// Has the node check a tenant, and change nothing.
fn check(client: &Client, change: &Change<'_>) -> Outcome {
    match client.send(call(change).header(IF_MATCH, NEVER)) {
        Err(failure) if failure.is_precondition() => Ok(()),
        Err(failure) => Err(failure),
        Ok(_) => Err(Failure::other("the node changed what it was only to check; it knows no If-Match")),
    }
}

/// Puts a tenant, if it is still what was looked at.
fn put(client: &Client, change: &Change<'_>) -> Outcome {
    let call = match change.revision {
        None => call(change).header(IF_NONE_MATCH, "*"),
        Some(revision) => call(change).header(IF_MATCH, format!("\"{revision}\"")),
    };
    client.send(call).map(|_| ())
}

/// Does this for every change, and says everything that went wrong. If the node goes away, it says how far it came.
fn each(
    client: &Client,
    name: &str,
    doing: &'static str,
    changes: &[Change<'_>],
    what: impl Fn(&Client, &Change<'_>) -> Outcome,
) -> Outcome {
    let bar = bar(changes.len(), doing);
    let mut wrong = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        bar.inc(1);
        match what(client, change) {
            Ok(()) => {}
            Err(failure) if failure.is_about_node() => {
                bar.finish_and_clear();
                out::note(format_args!(
                    "{doing} ended at line {} of {name}: {} of {} done; run it again to go on",
                    change.line.number,
                    index - wrong.len(),
                    changes.len()
                ));
                wrong.push(failure);
                return Err(Failure::all(wrong));
            }
            Err(failure) => wrong.push(failure.about(&format!("{name}:{}", change.line.number))),
        }
    }
    bar.finish_and_clear();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::all(wrong)) }
}

/// Drawn on a terminal only.
fn bar(length: usize, doing: &'static str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length as u64).with_prefix(doing);
    if let Ok(style) = ProgressStyle::with_template("{prefix:>9} [{bar:40}] {pos} of {len}, {eta} left") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn spinner() -> ProgressBar {
    if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_of_a_file_is_told_with_its_line() {
        let text =
            "{\"tenant\":\"a\"}\n\nnot json\n[]\n{\"tier\":\"pro\"}\n{\"tenant\":7}\n{\"tenant\":\"a\"}\n";
        let Err(failure) = parse("t.jsonl", text) else { panic!("it is wrong") };
        let told = failure.to_string();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 5, "{told}");
        for (line, begin) in lines.iter().zip([
            "error: t.jsonl:3: is not JSON: expected ident at column 2",
            "error: t.jsonl:4: must be an object",
            "error: t.jsonl:5: tenant is missing",
            "error: t.jsonl:6: tenant must be a name, got 7",
            "error: t.jsonl:7: tenant \"a\" is in line 1 already",
        ]) {
            assert!(line.starts_with(begin), "{line}");
        }
        assert_eq!(failure.kind().code(), 3);
    }

    #[test]
    fn a_tenant_as_listed_and_as_exported_is_the_same() {
        let listed = json!({
            "tenant": "a", "tier": null, "revision": 7, "updated_at": "2024-01-01T00:00:00Z",
            "overrides": [{ "descriptor": "default", "requests_per_unit": 5, "unit": "minute", "effective_at": null, "in_effect": true }],
        });
        let exported = portable(&listed, None).to_string();
        let (one, two) = (parse_line(1, &exported), parse_line(1, &listed.to_string()));
        assert_eq!(one.map(|line| line.body), two.map(|line| line.body));
        let past = json!({ "tenant": "a", "overrides": [{ "expires_at": "2020-01-01T00:00:00Z" }] });
        let now = Timestamp::now();
        assert_eq!(portable(&past, Some(now))["overrides"], json!([]));
        assert_eq!(portable(&past, None)["overrides"].as_array().map(Vec::len), Some(1));
    }
}
