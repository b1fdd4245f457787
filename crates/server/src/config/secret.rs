//! Secrets, and the passwords in URLs, which errors, logs, `tidegate config` and `Debug` must not show.

use std::fmt;

/// Printed instead of a secret.
const HIDDEN: &str = "***";

/// A parameter with one of these words in its name is secret.
const SECRET_WORDS: [&str; 7] = ["password", "passwd", "pwd", "secret", "token", "api_key", "apikey"];

/// A text that is always printed as `***`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, which must not be printed.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Prints `***`, or nothing if the text is empty.
impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "" } else { HIDDEN })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Returns a URL without user, password and secret parameters, even if it is malformed: the text between the scheme and
/// the last `@` is hidden, and so is the value of every parameter such as `password=`.
///
/// ```
/// use tidegate_server::config::secret::redacted;
///
/// assert_eq!(redacted("postgre://ann:hunter2@db/x?sslmode=off"), "postgre://***@db/x?sslmode=off");
/// assert_eq!(redacted("host=db password=hunter2 user=ann"), "host=db password=*** user=ann");
/// ```
pub fn redacted(text: &str) -> String {
    let shown = match text.rsplit_once('@') {
        None => text.to_owned(),
        Some((before, after)) => {
            let scheme = before.find("://").map(|at| at + 3).or_else(|| before.find(':').map(|at| at + 1));
            format!("{}{HIDDEN}@{after}", &before[..scheme.unwrap_or(0)])
        }
    };
    without_parameters(&shown)
}

/// Hides the values of secret parameters.
fn without_parameters(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        let name_start = before.rfind(|char: char| !char.is_alphanumeric() && !"_-".contains(char));
        let name = before[name_start.map_or(0, |at| at + 1)..].to_ascii_lowercase();
        out.push_str(before);
        out.push('=');
        let is_secret = SECRET_WORDS.iter().any(|word| name.contains(word)) && !name.ends_with("_file");
        let end = after.find(|char: char| char.is_whitespace() || "&;,".contains(char));
        let end = end.unwrap_or(after.len());
        if is_secret && end > 0 {
            out.push_str(HIDDEN);
            rest = &after[end..];
        } else {
            rest = after;
        }
    }
    out.push_str(rest);
    out
}
