//! The file of the contexts: `tidegate/contexts.json` in the user's configuration folder, which only the user can read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::Outcome;
use super::super::failure::Failure;

/// The maximum length of a context's name.
const MAX_NAME_BYTES: usize = 64;

/// A node, with the token and certificates for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::admin) struct Context {
    /// The admin address of the node.
    pub(in crate::cli::admin) admin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli::admin) token_file: Option<PathBuf>,
    /// The file with the certificate authorities to trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli::admin) ca: Option<PathBuf>,
    /// The file with the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli::admin) cert: Option<PathBuf>,
    /// The file with its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli::admin) key: Option<PathBuf>,
}

/// All contexts, and the one in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::admin) struct Contexts {
    pub(in crate::cli::admin) current: Option<String>,
    #[serde(default)]
    pub(in crate::cli::admin) contexts: BTreeMap<String, Context>,
}

/// Returns the path of the file: in `XDG_CONFIG_HOME`, else in `~/.config`. `None` without a home folder.
pub(in crate::cli::admin) fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(folder.join("tidegate").join("contexts.json"))
}

impl Contexts {
    /// Reads the file. Without a file there are no contexts.
    pub(in crate::cli::admin) fn load() -> Outcome<Self> {
        path().map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    fn read(path: &Path) -> Outcome<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(error) => return Err(unusable(path, &error)),
        };
        serde_json::from_str(&text).map_err(|error| unusable(path, &error))
    }

    /// Writes the file atomically. Returns its path.
    pub(super) fn save(&self) -> Outcome<PathBuf> {
        let path = path().ok_or_else(|| {
            Failure::other("there is no home folder for the contexts; set HOME or XDG_CONFIG_HOME")
        })?;
        self.write(&path).map_err(|error| unusable(&path, &error))?;
        Ok(path)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let text = serde_json::to_string_pretty(self)? + "\n";
        let draft = path.with_extension(format!("json.{}", std::process::id()));
        // An existing draft was left by a process with the same ID that has ended.
        let _ = fs::remove_file(&draft);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let written = written.and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Returns the context with this name.
    pub(in crate::cli::admin) fn find(&self, name: &str) -> Outcome<&Context> {
        self.contexts.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let known = if names.is_empty() {
                "there are none yet: create one with `tidegate context set NAME --admin URL`".to_owned()
            } else {
                format!("known contexts: {}", names.join(", "))
            };
            Failure::Missing(format!("there is no context {name:?}; {known}"))
        })
    }
}

/// Parses a name, which needs no quotes in shells and files.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if text.is_empty() || text.len() > MAX_NAME_BYTES || text.starts_with('-') || !text.bytes().all(plain) {
        return Err(format!("must be up to {MAX_NAME_BYTES} letters, digits, `-`, `_`, `.` or `@`"));
    }
    Ok(text.to_owned())
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::other(format!("cannot use the contexts in {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_nobody_else_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/tidegate/contexts.json");
        assert_eq!(Contexts::read(&path).expect("none yet"), Contexts::default());
        let mut contexts = Contexts { current: Some("prod".to_owned()), ..Contexts::default() };
        let prod = Context { admin: "https://tidegate".to_owned(), ..Context::default() };
        contexts.contexts.insert("prod".to_owned(), prod);
        for _ in 0..2 {
            contexts.write(&path).expect("it can be written");
            assert_eq!(Contexts::read(&path).expect("it can be read"), contexts);
        }
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
        let left: Vec<_> = fs::read_dir(path.parent().expect("a folder")).expect("it is there").collect();
        assert_eq!(left.len(), 1, "no draft is left");
    }

    #[test]
    fn names_need_no_quotes() {
        for good in ["prod", "eu-1", "ann@prod.example", "A_b"] {
            assert_eq!(parse_name(good).as_deref(), Ok(good));
        }
        let long = "x".repeat(65);
        for bad in ["", "-x", "a b", "a/b", "a\n", "*", "\u{fc}", &long] {
            assert!(parse_name(bad).is_err(), "{bad:?}");
        }
    }
}
