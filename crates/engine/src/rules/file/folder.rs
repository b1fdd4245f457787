//! Loads rules from a path: a single file, or the rule files of a folder.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{MAX_FILE_BYTES, Outcome, read, too_large};
use crate::rules::limit_spec::Defaults;
use crate::rules::model::Domain;
use crate::rules::problem::{Place, Problem, Problems};
use crate::rules::yaml;

/// The most rule files in a folder.
const MAX_FILES: usize = 10_000;

/// Reads a rule file, or the `*.yaml` and `*.yml` files of a folder in the order of their names.
///
/// Symbolic links are followed. Names that begin with a dot are skipped: in a Kubernetes `ConfigMap`,
/// `..data` contains the same files again.
///
/// # Errors
/// Returns every mistake of every file, in the order of the files, including files that cannot be read and
/// domains that are defined twice.
pub fn load_path(path: &Path, defaults: &Defaults) -> Result<Vec<Domain>, Problems> {
    let files = match files(path) {
        Ok(files) => files,
        Err(message) => return Err(Problems(vec![problem(path, message)])),
    };
    let (mut domains, mut problems) = (Vec::new(), Vec::new());
    let mut defined: HashMap<String, String> = HashMap::new();
    for file in &files {
        let Outcome { name, domain } = load_file(file, *defaults);
        let file = file.display().to_string();
        let mut found = Vec::new();
        match domain {
            Ok(domain) => domains.push(domain),
            Err(Problems(wrong)) => found = wrong,
        }
        if let Some((name, place)) = name {
            match defined.entry(name) {
                Entry::Vacant(vacant) => {
                    vacant.insert(file);
                }
                Entry::Occupied(first) => found.push(defined_twice(file, place, first.key(), first.get())),
            }
        }
        // Problems without a position concern the whole file, and come last.
        found.sort_by_key(|problem| (problem.place.is_none(), problem.place));
        problems.append(&mut found);
    }
    if problems.is_empty() { Ok(domains) } else { Err(Problems(problems)) }
}

fn defined_twice(file: String, place: Place, name: &str, first: &str) -> Problem {
    let message = format!("domain {name:?} is defined in {first} already; keep one of the two files");
    Problem { file, place: Some(place), field: "domain".to_owned(), message }
}

fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        // A broken link is kept, so that it is reported. A folder is not a rule file, whatever its name.
        if is_rule_file(&file) && !file.is_dir() {
            files.push(file);
        }
        if files.len() > MAX_FILES {
            return Err(format!(
                "the folder has more than {MAX_FILES} rule files; use fewer and larger ones"
            ));
        }
    }
    if files.is_empty() {
        return Err("the folder has no rule files; their names end in .yaml or .yml".to_owned());
    }
    files.sort();
    Ok(files)
}

/// Returns whether a file in a folder is a rule file, according to its name.
pub(crate) fn is_rule_file(file: &Path) -> bool {
    let hidden = file.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = file.extension().and_then(OsStr::to_str);
    !hidden && matches!(extension, Some("yaml" | "yml"))
}

fn load_file(path: &Path, defaults: Defaults) -> Outcome {
    let source = path.display().to_string();
    let bytes = match read_bounded(path) {
        Ok(bytes) => bytes,
        Err(message) => return Outcome::refused(&source, None, message),
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => read(&source, text, defaults),
        Err(error) => {
            let valid = error.valid_up_to();
            let before = std::str::from_utf8(&bytes[..valid]).unwrap_or_default();
            let message = format!("byte 0x{:02x} is not UTF-8; save the file as UTF-8", bytes[valid]);
            Outcome::refused(&source, Some(yaml::place_of(before, valid)), message)
        }
    }
}

/// Reads a file of at most [`MAX_FILE_BYTES`]. The size is checked first, so that a huge file is rejected at
/// once, and again while reading, because special files report no size.
fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    if size > MAX_FILE_BYTES as u64 {
        return Err(too_large(size));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn unreadable(error: io::Error) -> String {
    format!("cannot be read: {error}; check the path and its permissions")
}

fn problem(path: &Path, message: String) -> Problem {
    Problem { file: path.display().to_string(), place: None, field: String::new(), message }
}
