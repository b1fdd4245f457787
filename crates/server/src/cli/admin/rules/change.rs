//! `rules push`, `diff` and `rollback`: what changes rules, or would.

use std::path::PathBuf;

use clap::Args;
use http::Method;
use http::header::IF_MATCH;
use serde_json::{Value as Json, json};

use super::super::client::{Answer, Call, Client};
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
/// Several files are first checked by the node, all of them; if one is wrong, every mistake is told and nothing
/// is changed. Then they are put in force one after the other. If that fails on the way, such as because the
/// node goes away, it is told which are in force.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
pub(super) struct Push {
    /// Rule files; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present = "named")]
    files: Vec<PathBuf>,
    /// A rule file, named the way kubectl does. Can be given several times.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    named: Vec<PathBuf>,
    /// The domain [default: the one that the file names]
    #[arg(long)]
    domain: Option<String>,
    /// Why, for those who read the history.
    #[arg(short = 'm', long, value_name = "TEXT")]
    comment: Option<String>,
    /// Only if this is the version in force.
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    /// Show what would change, and change nothing.
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
    /// The domain [default: the one that the file names]
    #[arg(required_unless_present = "file")]
    domain: Option<String>,
    /// Compare this file with what is in force; `-` is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["from", "to"])]
    file: Option<PathBuf>,
    /// The older version [default: the one before]
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// The newer version [default: the one in force]
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Go back to the rules of an earlier version, as a new one.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
pub(super) struct Rollback {
    /// The domain.
    domain: String,
    /// The version to go back to.
    version: u64,
    /// Why, for those who read the history.
    #[arg(short = 'm', long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// The domain that a rule file names: it is a line of its own, not indented.
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
    given.cloned().or_else(|| domain_of(rules)).ok_or_else(|| {
        Failure::other("names no domain; begin it with `domain: NAME`, or say which it is for")
    })
}

/// A file to push, and the domain it is for.
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
                    "{one} and {two} are both for the domain {}: a domain has one rule file",
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
                Ok(answer) => done.push(answer),
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

    fn put(&self, client: &Client, file: &RuleFile, dry_run: bool) -> Outcome<Answer> {
        let mut call = Call::new(Method::PUT, &["rules", &file.domain])
            .query("comment", self.comment.as_ref().filter(|_| !dry_run || self.dry_run))
            .query("dry_run", dry_run.then_some(true))
            .yaml(file.text.clone());
        if let Some(version) = self.if_version {
            call = call.header(IF_MATCH, format!("\"{version}\""));
        }
        client.send(call).map_err(|failure| failure.about_file(&file.path))
    }

    /// JSON is what the API answers: an object for one file, a list for several.
    fn show(&self, answers: &[Answer]) -> Outcome {
        if !self.output.is_json() {
            return answers.iter().try_for_each(show_change);
        }
        if let ([answer], 1) = (answers, self.files.len() + self.named.len()) {
            print_body(answer);
        } else {
            let all = answers.iter().map(Answer::json).collect::<Outcome<Vec<Json>>>()?;
            out::print_json(&all);
        }
        Ok(())
    }
}

/// What is in force after the file at `index` failed. Who did not hear from the node does not know what it has done.
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

/// All that succeeded, if all did; else every failure as one.
fn sorted_out<T>(outcomes: impl Iterator<Item = Outcome<T>>) -> Outcome<Vec<T>> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(one) => good.push(one),
            // Nobody else will answer either, and each try may take long.
            Err(failure) if failure.is_about_node() => return Err(failure),
            Err(failure) => bad.push(failure),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(Failure::all(bad)) }
}

/// The lines that changed, and what that comes to.
fn show_change(answer: &Answer) -> Outcome {
    let change = answer.json()?;
    let count = |name: &str| change[name].as_array().map_or(0, Vec::len);
    let parts: Vec<String> = ["added", "removed", "changed"]
        .into_iter()
        .filter(|name| count(name) > 0)
        .map(|name| format!("{} {name}", out::count(count(name), "rule")))
        .collect();
    let parts = if parts.is_empty() { "no rule is another".to_owned() } else { parts.join(", ") };
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

/// Lines that others wrote, without what would do something to the terminal.
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
            let answer = client.send(call)?;
            out::print(&lines(&String::from_utf8_lossy(&answer.body)));
            return Ok(());
        };
        let rules = read(file)?;
        let domain = domain_or(self.domain.as_ref(), &rules).map_err(|failure| failure.about_file(file))?;
        let call = Call::new(Method::PUT, &["rules", &domain]).query("dry_run", Some(true)).yaml(rules);
        let answer = client.send(call).map_err(|failure| failure.about_file(file))?;
        out::print(&lines(&text(&answer.json()?, "diff")));
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
        let answer = self.admin.client()?.send(call)?;
        if self.output.is_json() {
            print_body(&answer);
            return Ok(());
        }
        show_change(&answer)
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
