//! What went wrong, in words that say what to do next.

use std::fmt;

use http::StatusCode;
use serde::Deserialize;

use super::client::Answer;
use super::table::plain;

/// Why a command did not do what it should.
#[derive(Debug)]
pub(in crate::cli) enum Failure {
    /// The command line makes no sense.
    Usage(String),
    /// The node refused.
    Refused(Refusal),
    /// Anything else.
    Other(String),
}

/// What a node says when it refuses.
#[derive(Debug)]
pub(in crate::cli) struct Refusal {
    pub(in crate::cli) status: StatusCode,
    detail: String,
    errors: Vec<FieldError>,
    retry_after: Option<String>,
}

/// A problem of RFC 9457, as far as people need it.
#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    errors: Vec<FieldError>,
}

#[derive(Debug, Deserialize)]
struct FieldError {
    field: String,
    reason: String,
}

impl Failure {
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(super) fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// From an answer that is not a success.
    pub(super) fn refused(url: &str, answer: &Answer) -> Self {
        let status = answer.status;
        let retry_after = answer.header("retry-after");
        let problem: Option<Problem> = serde_json::from_slice(&answer.body).ok();
        let (detail, errors) = match problem {
            Some(problem) if !problem.detail.is_empty() => (problem.detail, problem.errors),
            Some(problem) if !problem.title.is_empty() => (problem.title, problem.errors),
            _ => {
                let said = String::from_utf8_lossy(&answer.body);
                (format!("{url} answered {status}: {}", plain(said.trim())), Vec::new())
            }
        };
        Self::Refused(Refusal { status, detail, errors, retry_after })
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 1 }
    }

    /// Whether the node said that there is no such thing.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.status == StatusCode::NOT_FOUND)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Other(message) => write!(out, "error: {message}"),
            Self::Refused(refusal) => write!(out, "error: {refusal}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", plain(&self.detail))?;
        let told = |error: &&FieldError| !self.detail.contains(&error.reason);
        for error in self.errors.iter().filter(told) {
            write!(out, "\n  {}: {}", plain(&error.field), plain(&error.reason))?;
        }
        match self.status {
            StatusCode::UNAUTHORIZED => write!(
                out,
                "\nhint: give a token with --token-file or TIDEGATE_TOKEN; on the node's own machine, run this where \
                 its settings are (or with --config), and its `admin-token` is used"
            ),
            StatusCode::FORBIDDEN => {
                write!(
                    out,
                    "\nhint: ask an administrator for a token with that role (`tidegate token create`)"
                )
            }
            StatusCode::PRECONDITION_FAILED => {
                write!(out, "\nhint: somebody changed it meanwhile; look at it, and run the command again")
            }
            StatusCode::SERVICE_UNAVAILABLE => match &self.retry_after {
                Some(seconds) => write!(out, "\nhint: try again in {} s", plain(seconds)),
                None => write!(out, "\nhint: try again"),
            },
            _ => Ok(()),
        }
    }
}
