//! `rules push`, `diff` and `rollback`.

use std::path::PathBuf;

use clap::Args;
use http::Method;
use http::header::IF_MATCH;
use serde_json::{Value as Json, json};

use super::super::client::{ApiResponse, Call, Client};
use super::super::failure::{Failure, FailureKind};
use super::super::flags::AdminFlags;
use super::super::input::read;
use super::super::output::{OneOutput, print_body, text};
use super::super::table::plain;
use super::super::{Outcome, long_help};
use super::EXAMPLES;
use crate::cli::out;

/// Put rule files in force on every node, each as a new version of its domain.
///
/// The node checks all files first; if one is invalid, all mistakes are printed and nothing is changed. Then the files are
/// put in force one by one. If that fails in between, the command prints which ones are in force.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
pub(super) struct Push {
    /// Rule files; `-` means standard input.
    #[arg(value_name = "FILE", required_unless_present = "named")]
    files: Vec<PathBuf>,
    /// A rule file, in the style of kubectl. Can be given several times.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    named: Vec<PathBuf>,
    /// The domain [default: the one in the file]
    #[arg(long)]
    domain: Option<String>,
    /// The reason for the change, for the history.
    #[arg(short = 'm', long, value_name = "TEXT")]
    comment: Option<String>,
    /// Change the rules only if this version is in force.
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    /// Print what would change, without changing anything.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Show what changed between versions, or what a file would change.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
pub(super) struct Diff {
    /// The domain [default: the one in the file]
    #[arg(required_unless_present = "file")]
    domain: Option<String>,
    /// Compare this file with the rules in force; `-` means standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["from", "to"])]
    file: Option<PathBuf>,
    /// The older version [default: the previous one]
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// The newer version [default: the one in force]
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Restore the rules of an earlier version, as a new version.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
pub(super) struct Rollback {
    /// The domain.
    domain: String,
    /// The version to restore.
    version: u64,
    /// The reason for the change, for the history.
    #[arg(short = 'm', long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Returns the domain of a rule file, which is on its own line without indentation.
fn domain_of(rules: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(rules);
    let value = text.lines().find_map(|line| line.strip_prefix("domain:"))?.trim();
    let value = match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].split(quote).next()?,
        _ => value.split(" #").next()?.trim(),
    };
    (!value.is_empty()).then(|| value.to_owned())
}

fn domain_or(given: Option<&String>, rules: &[u8]) -> Outcome<String> {
    given
        .cloned()
        .or_else(|| domain_of(rules))
        .ok_or_else(|| Failure::other("names no domain; begin it with `domain: NAME`, or use --domain"))
}

/// A rule file with its domain.
struct RuleFile {
    path: PathBuf,
    domain: String,
    text: Vec<u8>,
}

impl RuleFile {
    fn read(path: PathBuf, domain: Option<&String>) -> Outcome<Self> {
        let text = read(&path)?;
        let domain = domain_or(domain, &text).map_err(|failure| failure.about_file(&path))?;
        Ok(Self { path, domain, text })
    }
}

impl Push {
    pub(super) fn run(self) -> Outcome {
        let paths = [self.files.clone(), self.named.clone()].concat();
        if paths.len() > 1 && (self.domain.is_some() || self.if_version.is_some()) {
            return Err(Failure::usage(
                "--domain and --if-version go with one file; push the files one by one",
            ));
        }
        let files = sorted_out(paths.into_iter().map(|path| RuleFile::read(path, self.domain.as_ref())))?;
        for (index, file) in files.iter().enumerate() {
            if let Some(other) = files[..index].iter().find(|other| other.domain == file.domain) {
                let (one, two) = (other.path.display(), file.path.display());
                return Err(Failure::usage(format!(
                    "{one} and {two} have the same domain {}: a domain has one rule file",
                    plain(&file.domain)
                )));
            }
        }
        let client = self.admin.clone().client()?;
        if files.len() > 1 || self.dry_run {
            let tried = sorted_out(files.iter().map(|file| self.put(&client, file, true)))?;
            if self.dry_run {
                return self.show(&tried);
            }
        }
        let mut done = Vec::new();
        for (index, file) in files.iter().enumerate() {
            match self.put(&client, file, false) {
                Ok(response) => done.push(response),
                Err(failure) if index == 0 => return Err(failure),
                Err(failure) => {
                    self.show(&done)?;
                    out::note(how_far(&files, index, &failure));
                    return Err(failure);
                }
            }
        }
        self.show(&done)
    }

    fn put(&self, client: &Client, file: &RuleFile, dry_run: bool) -> Outcome<ApiResponse> {
        let mut call = Call::new(Method::PUT, &["rules", &file.domain])
            .query("comment", self.comment.as_ref().filter(|_| !dry_run || self.dry_run))
            .query("dry_run", dry_run.then_some(true))
            .yaml(file.text.clone());
        if let Some(version) = self.if_version {
            call = call.header(IF_MATCH, format!("\"{version}\""));
        }
        client.send(call).map_err(|failure| failure.about_file(&file.path))
    }

    /// Prints the responses. As JSON it is an object for one file, a list for several.
    fn show(&self, answers: &[ApiResponse]) -> Outcome {
        if !self.output.is_json() {
            return answers.iter().try_for_each(show_change);
        }
        if let ([response], 1) = (answers, self.files.len() + self.named.len()) {
            print_body(response);
        } else {
            let all = answers.iter().map(ApiResponse::json).collect::<Outcome<Vec<Json>>>()?;
            out::print_json(&all);
        }
        Ok(())
    }
}

/// Describes which files are in force after the one at `index` failed. Without a response it is not known whether that one
/// is.
fn how_far(files: &[RuleFile], index: usize, failure: &Failure) -> String {
    let failed = if failure.kind() == FailureKind::Unreachable { "maybe in force" } else { "not in force" };
    let parts =
        [("in force", &files[..index]), (failed, &files[index..=index]), ("not put", &files[index + 1..])];
    let part = |(state, files): &(&str, &[RuleFile])| {
        let names: Vec<String> = files.iter().map(|file| plain(&file.domain)).collect();
        format!("{state}: {}", names.join(", "))
    };
    parts.iter().filter(|(_, files)| !files.is_empty()).map(part).collect::<Vec<_>>().join("; ")
}

/// Returns all successes, or all failures if there is one.
fn sorted_out<T>(outcomes: impl Iterator<Item = Outcome<T>>) -> Outcome<Vec<T>> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(one) => good.push(one),
            // The others would fail too, and each attempt may take long.
            Err(failure) if failure.is_about_node() => return Err(failure),
            Err(failure) => bad.push(failure),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(Failure::all(bad)) }
}

/// Prints the diff and a summary.
fn show_change(response: &ApiResponse) -> Outcome {
    let change = response.json()?;
    let count = |name: &str| change[name].as_array().map_or(0, Vec::len);
    let parts: Vec<String> = ["added", "removed", "changed"]
        .into_iter()
        .filter(|name| count(name) > 0)
        .map(|name| format!("{} {name}", out::count(count(name), "rule")))
        .collect();
    let parts = if parts.is_empty() { "no rule changed".to_owned() } else { parts.join(", ") };
    let domain = plain(&text(&change, "domain"));
    let state = if change["dry_run"] == true {
        "nothing was changed (dry run)".to_owned()
    } else {
        format!("version {}", text(&change, "version"))
    };
    out::print(&lines(&text(&change, "diff")));
    out::print(&format!("{domain}: {state}; {parts}\n"));
    for warning in change["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        out::note(format_args!("warning: {}", plain(warning)));
    }
    Ok(())
}

/// Escapes control characters in a text of several lines.
fn lines(text: &str) -> String {
    text.lines().fold(String::new(), |all, line| {
        all + &line.split('\t').map(plain).collect::<Vec<_>>().join("\t") + "\n"
    })
}

impl Diff {
    pub(super) fn run(self) -> Outcome {
        let client = self.admin.client()?;
        let Some(file) = &self.file else {
            let domain = self.domain.unwrap_or_default();
            let call = Call::get(&["rules", &domain, "diff"]).query("from", self.from).query("to", self.to);
            let response = client.send(call)?;
            out::print(&lines(&String::from_utf8_lossy(&response.body)));
            return Ok(());
        };
        let rules = read(file)?;
        let domain = domain_or(self.domain.as_ref(), &rules).map_err(|failure| failure.about_file(file))?;
        let call = Call::new(Method::PUT, &["rules", &domain]).query("dry_run", Some(true)).yaml(rules);
        let response = client.send(call).map_err(|failure| failure.about_file(file))?;
        out::print(&lines(&text(&response.json()?, "diff")));
        Ok(())
    }
}

impl Rollback {
    pub(super) fn run(self) -> Outcome {
        let mut body = json!({ "version": self.version });
        if let Some(comment) = self.comment {
            body["comment"] = json!(comment);
        }
        let call = Call::new(Method::POST, &["rules", &self.domain, "rollback"]).json(&body);
        let response = self.admin.client()?.send(call)?;
        if self.output.is_json() {
            print_body(&response);
            return Ok(());
        }
        show_change(&response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_read_from_a_rule_file() {
        let of = |text: &str| domain_of(text.as_bytes());
        assert_eq!(of("# rules\ndomain: api # ours\ndescriptors: []\n").as_deref(), Some("api"));
        assert_eq!(of("domain: \"a b\"\n").as_deref(), Some("a b"));
        assert_eq!(of("domain: 'x#y' # z\n").as_deref(), Some("x#y"));
        assert_eq!(of("descriptors:\n  - domain: no\n"), None);
        assert_eq!(of("domain:\n"), None);
    }
}
