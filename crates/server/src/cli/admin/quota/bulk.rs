//! `quota export` and `quota import`: many tenants at once, as JSON lines.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use http::Method;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value as Json, json};

use super::super::client::{Call, Client};
use super::super::failure::Failure;
use super::super::flags::AdminFlags;
use super::super::input::read;
use super::super::output::OneOutput;
use super::super::pages::Pages;
use super::super::{Outcome, long_help};
use super::edit::without_read_only;
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate quota export > tenants.jsonl
  tidegate quota export --tier pro -f pro.jsonl
  tidegate quota import tenants.jsonl --dry-run
  tidegate quota import tenants.jsonl
  tidegate quota export --context old | tidegate quota import - --context new";

const FORMAT: &str = "\
File format:
  One JSON object per line and tenant, with its name, its tier, and its overrides as in `quota get -o json`.
  Empty lines are skipped.
  {\"tenant\":\"acme\",\"tier\":\"pro\",\"overrides\":[{\"descriptor\":\"default\",\"requests_per_unit\":500,\"unit\":\"minute\"}]}";

/// An `ETag` that no object has: the node checks the body, and then rejects the request because of the precondition.
const NEVER: &str = "\"check-only\"";

/// Write tenants to standard output or a file, one JSON object per line, sorted by name.
///
/// Tenants are read page by page and written at once, so that memory does not limit their number. A file is written
/// completely or not at all.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(&format!("{EXAMPLES}\n\n{FORMAT}")))]
pub(super) struct Export {
    /// Only tenants of this tier.
    #[arg(long)]
    tier: Option<String>,
    /// Only tenants whose names begin with this text.
    #[arg(long, short = 'q', value_name = "TEXT")]
    prefix: Option<String>,
    /// Omit overrides that have ended, by the node's time.
    #[arg(long)]
    without_ended: bool,
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Set the tiers and overrides of many tenants from a file. Tenants that are not in the file stay unchanged.
///
/// Every line is checked first, by the command and by the node; if one is invalid, all mistakes are printed with their
/// lines, and nothing is changed. Tenants that match the file already are skipped, so that an interrupted import continues
/// when it is run again. A tenant that is changed by someone else at the same time is not changed.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(&format!("{EXAMPLES}\n\n{FORMAT}")))]
pub(super) struct Import {
    /// The file; `-` means standard input.
    file: PathBuf,
    /// Check everything and print what would change, without changing anything.
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
        let without_ended = self.without_ended;
        let Some(path) = &self.file else {
            return export(&client, call, without_ended, &mut io::stdout().lock(), "standard output")
                .map(|_| ());
        };
        let name = path.display().to_string();
        let draft = path.with_added_extension(format!("{}.part", std::process::id()));
        let cannot = |error: io::Error| Failure::other(format!("cannot write {name}: {error}"));
        let mut file = io::BufWriter::new(fs::File::create_new(&draft).map_err(cannot)?);
        let exported = export(&client, call, without_ended, &mut file, &name)
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

/// Writes all tenants, and returns their number. Overrides that have ended, as the node says, may be omitted.
fn export(
    client: &Client,
    call: impl Fn() -> Call,
    without_ended: bool,
    target: &mut impl io::Write,
    name: &str,
) -> Outcome<usize> {
    let bar = spinner();
    let mut count = 0;
    for page in Pages::new(client, call) {
        for item in page? {
            let line = exported(&item, without_ended).to_string() + "\n";
            match target.write_all(line.as_bytes()) {
                Ok(()) => {}
                // The reader has closed the pipe, as `| head` does.
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

/// Converts a tenant of a list to a line of the file.
fn exported(item: &Json, without_ended: bool) -> Json {
    let ended = |one: &Json| without_ended && one["ended"] == true;
    let overrides = item["overrides"].as_array().into_iter().flatten();
    let overrides: Vec<Json> = overrides.filter(|one| !ended(one)).cloned().map(without_read_only).collect();
    json!({ "tenant": item["tenant"], "tier": item["tier"], "overrides": overrides })
}

/// A line of the file.
struct Line {
    number: usize,
    tenant: String,
    /// The body of the request.
    body: Json,
}

/// A change of a tenant.
struct Change<'l> {
    line: &'l Line,
    /// Its current revision; `None` if it is new.
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
        format!("{state}{created} created, {changed} changed, {unchanged} unchanged\n")
    }
}

/// Returns the content of a file as text. The error has the line that is not UTF-8.
fn text_of<'f>(name: &str, content: &'f [u8]) -> Outcome<&'f str> {
    std::str::from_utf8(content).map_err(|error| {
        let line = content[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        Failure::invalid(format!("{name}:{line}: is not UTF-8; save the file in that encoding"))
    })
}

/// Parses all lines. Returns all mistakes if there are any.
fn parse(name: &str, text: &str) -> Outcome<Vec<Line>> {
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (index, content) in text.lines().enumerate().filter(|(_, content)| !content.trim().is_empty()) {
        let number = index + 1;
        match parse_line(number, content) {
            Ok(line) => match first.insert(line.tenant.clone(), number) {
                None => lines.push(line),
                Some(before) => wrong.push(Failure::invalid(format!(
                    "{name}:{number}: tenant {:?} is already in line {before}",
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
        // Read again at its place in the file, so that the message has the number of the line.
        let placed = "\n".repeat(number - 1) + content;
        let error = serde_json::from_str::<Json>(&placed).err().unwrap_or(error);
        format!("is not JSON: {error}")
    })?;
    let Json::Object(mut members) = value else {
        return Err("must be an object: {\"tenant\": …, \"tier\": …, \"overrides\": […]}".to_owned());
    };
    let tenant = match members.remove("tenant") {
        Some(Json::String(tenant)) if !tenant.is_empty() => tenant,
        Some(other) => return Err(format!("tenant must be a name, got {other}")),
        None => return Err("tenant is missing: add the name of the tenant".to_owned()),
    };
    // Read-only members of lists.
    for shown in ["updated_at", "revision"] {
        members.remove(shown);
    }
    Ok(Line { number, tenant, body: normal(members) })
}

/// Returns the body for the API in a normal form: equal for equal tiers and overrides.
fn normal(mut members: Map<String, Json>) -> Json {
    let tier = members.remove("tier").unwrap_or_default();
    let overrides = match members.remove("overrides") {
        Some(Json::Array(items)) => items.into_iter().map(without_read_only).collect(),
        None | Some(Json::Null) => json!([]),
        // The node rejects it with a message.
        Some(other) => other,
    };
    let mut body: Map<String, Json> =
        [("tier".to_owned(), tier), ("overrides".to_owned(), overrides)].into_iter().collect();
    body.extend(members);
    Json::Object(body)
}

/// Returns all tenants, each with its revision and its normal form.
fn known(client: &Client) -> Outcome<BTreeMap<String, (u64, Json)>> {
    let mut known = BTreeMap::new();
    for page in Pages::new(client, || Call::get(&["quotas"])) {
        for item in page? {
            let Json::Object(mut members) = exported(&item, false) else { continue };
            let Some(Json::String(tenant)) = members.remove("tenant") else { continue };
            known.insert(tenant, (item["revision"].as_u64().unwrap_or_default(), normal(members)));
        }
    }
    Ok(known)
}

fn call(change: &Change<'_>) -> Call {
    Call::new(Method::PUT, &["quotas", &change.line.tenant]).json(&change.line.body)
}

/// Lets the node check a tenant without changing it.
fn check(client: &Client, change: &Change<'_>) -> Outcome {
    match client.send(call(change).header(IF_MATCH, NEVER)) {
        Err(failure) if failure.is_precondition() => Ok(()),
        Err(failure) => Err(failure),
        Ok(_) => Err(Failure::other(
            "the node changed a tenant that it should only check; it does not support If-Match",
        )),
    }
}

/// Sets a tenant, if it has not changed since it was read.
fn put(client: &Client, change: &Change<'_>) -> Outcome {
    let call = match change.revision {
        None => call(change).header(IF_NONE_MATCH, "*"),
        Some(revision) => call(change).header(IF_MATCH, format!("\"{revision}\"")),
    };
    client.send(call).map(|_| ())
}

/// Runs an action for every change, and returns all failures. If the node becomes unreachable, prints how far it came.
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
                    "{doing} ended at line {} of {name}: {} of {} done; run the command again to continue",
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

/// Returns a progress bar, which is hidden without a terminal.
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
    fn every_mistake_of_a_file_is_reported_with_its_line() {
        let text =
            "{\"tenant\":\"a\"}\n\nnot json\n[]\n{\"tier\":\"pro\"}\n{\"tenant\":7}\n{\"tenant\":\"a\"}\n";
        let Err(failure) = parse("t.jsonl", text) else { panic!("it is wrong") };
        let text = failure.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        for (line, begin) in lines.iter().zip([
            "error: t.jsonl:3: is not JSON: expected ident at line 3 column 2",
            "error: t.jsonl:4: must be an object",
            "error: t.jsonl:5: tenant is missing",
            "error: t.jsonl:6: tenant must be a name, got 7",
            "error: t.jsonl:7: tenant \"a\" is already in line 1",
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
        let written = exported(&listed, false).to_string();
        let (one, two) = (parse_line(1, &written), parse_line(1, &listed.to_string()));
        assert_eq!(one.map(|line| line.body), two.map(|line| line.body));
        let past =
            json!({ "tenant": "a", "overrides": [{ "expires_at": "2020-01-01T00:00:00Z", "ended": true }] });
        assert_eq!(exported(&past, true)["overrides"], json!([]));
        assert_eq!(exported(&past, false)["overrides"], json!([{ "expires_at": "2020-01-01T00:00:00Z" }]));
    }
}
