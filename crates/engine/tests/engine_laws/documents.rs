//! The rules in the documents and examples are rules that load.
//!
//! In docs/rules.md and docs/algorithms.md, what follows ```` ```yaml ```` says what a block is:
//!
//! - nothing: a whole rule file, which loads
//! - `fragment`: a part of one, which loads where it belongs: at the top of a file that has a domain,
//!   or as fields of a descriptor, or of a limit
//! - `refused`: a whole rule file with a mistake, which does not load

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::rules::file;
use tidegate::{Defaults, Domain, Limiter, Problems};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fenced block of YAML.
struct Block {
    /// `file:line`, for messages.
    place: String,
    kind: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let path = repository().join(document);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{document}: {error}"));
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => {
                let (language, kind) = info.trim().split_once([' ', ',']).unwrap_or((info.trim(), ""));
                let place = format!("{document}:{}", index + 1);
                open =
                    Some(Block { place, kind: format!("{language} {}", kind.trim()), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{document}: a block is not closed");
    blocks.retain(|block| block.kind.starts_with("yaml ") || block.kind.starts_with("yml "));
    blocks
}

fn load(text: &str) -> Result<Domain, Problems> {
    let domain = file::load("block", text, &Defaults::default())?;
    match Limiter::builder().domain(domain.clone()).build() {
        Ok(_) => Ok(domain),
        Err(error) => panic!("it loads, but is no rules: {error}"),
    }
}

fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    text.lines().flat_map(|line| [&indent, line, "\n"]).collect()
}

/// What is wrong with a fragment wherever it is put; nothing if it fits somewhere.
fn fragment(text: &str) -> Option<String> {
    let places = [
        format!("domain: example\n{text}"),
        format!("domain: example\ntenant: example\n{text}"),
        format!("domain: example\ntenant: example\ndescriptors:\n  - key: example\n{}", indented(text, 4)),
        format!("domain: example\ntenant: example\ndescriptors:\n{}", indented(text, 2)),
        format!("domain: example\ndescriptors:\n  - key: example\n    limits:\n{}", indented(text, 6)),
    ];
    let faults: Vec<String> =
        places.iter().map_while(|text| load(text).err()).map(|why| why.to_string()).collect();
    (faults.len() == places.len()).then(|| faults.join("\n  or: "))
}

fn expect_good(document: &str, at_least: usize) {
    let blocks = blocks(document);
    let whole = blocks.iter().filter(|block| block.kind == "yaml ").count();
    assert!(whole >= at_least, "{document} has {whole} whole rule files, expected at least {at_least}");
    let wrong = blocks.iter().filter_map(|block| {
        let fault = match block.kind.as_str() {
            "yaml " => load(&block.text).err().map(|problems| problems.to_string()),
            "yaml fragment" => fragment(&block.text),
            "yaml refused" => load(&block.text).ok().map(|_| "it loads, but should be refused".to_owned()),
            other => Some(format!("```{other} is not one of yaml, yaml fragment, yaml refused")),
        };
        fault.map(|fault| format!("{}: {fault}", block.place))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_rules_in_the_manual_of_rules_load() {
    expect_good("docs/rules.md", 5);
}

#[test]
fn the_rules_in_the_manual_of_algorithms_load() {
    expect_good("docs/algorithms.md", 1);
}

#[test]
fn the_rules_of_the_quickstart_load() {
    let folder = repository().join("examples/quickstart");
    let domains =
        file::load_path(&folder, &Defaults::default()).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(!domains.is_empty());
    let limiter = Limiter::builder().rules(&folder).watch(false).build();
    limiter.unwrap_or_else(|error| panic!("{error}"));
}
