//! Failures of commands, with exit codes and hints.

use std::fmt;
use std::path::Path;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::client::ApiResponse;
use super::table::plain;

/// The maximum number of failures that are shown.
const SHOWN: usize = 100;

/// Why a command failed.
#[derive(Debug)]
pub(in crate::cli) enum Failure {
    /// The command line is invalid.
    Usage(String),
    /// The node refused.
    Refused(Refusal),
    /// The input is invalid.
    Invalid(String),
    /// Something does not exist on this machine.
    Missing(String),
    /// The node cannot be reached, or did not respond in time.
    Unreachable(String),
    /// At least two failures.
    All(Vec<Failure>),
    /// Anything else.
    Other(String),
}

/// The kinds of failures, each with its own exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum FailureKind {
    Failed,
    Usage,
    Refused,
    NotFound,
    Conflict,
    Unreachable,
}

impl FailureKind {
    fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Self::NotFound,
            StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => Self::Conflict,
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Self::Unreachable
            }
            status if status.is_client_error() => Self::Refused,
            _ => Self::Failed,
        }
    }

    /// Returns the exit code.
    pub(in crate::cli) fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::NotFound => 4,
            Self::Conflict => 5,
            Self::Unreachable => 6,
        }
    }

    /// Returns the name in JSON.
    pub(in crate::cli) fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Unreachable => "unreachable",
        }
    }
}

/// An error response of a node.
#[derive(Debug)]
pub(in crate::cli) struct Refusal {
    pub(in crate::cli) status: StatusCode,
    /// The file that was refused, if a file was sent.
    file: Option<String>,
    detail: String,
    errors: Vec<FieldError>,
    retry_after: Option<String>,
    /// The advice that replaces a retry.
    instead: Option<&'static str>,
}

/// Problem details (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    errors: Vec<FieldError>,
}

#[derive(Debug, Deserialize, Serialize)]
struct FieldError {
    field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    reason: String,
}

impl Failure {
    pub(in crate::cli) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(in crate::cli) fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// Returns the failure for a response that is not a success.
    pub(super) fn refused(url: &str, response: &ApiResponse) -> Self {
        let status = response.status;
        let retry_after = response.header("retry-after");
        let problem: Option<Problem> = serde_json::from_slice(&response.body).ok();
        let (detail, errors) = match problem {
            Some(problem) if !problem.detail.is_empty() => (problem.detail, problem.errors),
            Some(problem) if !problem.title.is_empty() => (problem.title, problem.errors),
            _ => {
                let body = String::from_utf8_lossy(&response.body);
                (format!("{url} answered {status}: {}", plain(body.trim())), Vec::new())
            }
        };
        Self::Refused(Refusal { status, file: None, detail, errors, retry_after, instead: None })
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Combines at least one failure.
    pub(super) fn all(mut failures: Vec<Self>) -> Self {
        match failures.len() {
            1 => failures.remove(0),
            _ => Self::All(failures),
        }
    }

    /// Returns this failure with the file that it is about.
    pub(super) fn about_file(self, file: &Path) -> Self {
        self.about(&file.display().to_string())
    }

    /// Returns this failure with the file, or the line of it, that it is about.
    pub(super) fn about(self, file: &str) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(Refusal { file: Some(file.to_owned()), ..refusal }),
            Self::Other(message) => Self::Other(format!("{file}: {message}")),
            Self::All(all) => Self::All(all.into_iter().map(|one| one.about(file)).collect()),
            // These are not about the file.
            other @ (Self::Usage(_) | Self::Invalid(_) | Self::Missing(_) | Self::Unreachable(_)) => other,
        }
    }

    /// Returns this failure with what can be done while the node cannot do what it was asked for.
    pub(super) fn or_else(self, instead: &'static str) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(Refusal { instead: Some(instead), ..refusal }),
            other => other,
        }
    }

    /// Returns the kind of the failure.
    pub(in crate::cli) fn kind(&self) -> FailureKind {
        match self {
            Self::Usage(_) => FailureKind::Usage,
            Self::Refused(refusal) => FailureKind::of_status(refusal.status),
            Self::Invalid(_) => FailureKind::Refused,
            Self::Missing(_) => FailureKind::NotFound,
            Self::Unreachable(_) => FailureKind::Unreachable,
            // The common kind, if there is one.
            Self::All(all) => {
                let mut kinds = all.iter().map(Self::kind);
                let first = kinds.next().unwrap_or(FailureKind::Failed);
                if kinds.all(|kind| kind == first) { first } else { FailureKind::Refused }
            }
            Self::Other(_) => FailureKind::Failed,
        }
    }

    /// Returns the failure as JSON.
    pub(in crate::cli) fn json(&self) -> Json {
        let kind = self.kind();
        let mut error = json!({ "kind": kind.name(), "exit_code": kind.code() });
        match self {
            Self::Usage(message)
            | Self::Invalid(message)
            | Self::Missing(message)
            | Self::Unreachable(message)
            | Self::Other(message) => {
                error["message"] = json!(message);
            }
            Self::All(all) => {
                error["message"] = json!(format!("{} failures", all.len()));
                error["failures"] = all.iter().map(Self::json).collect();
            }
            Self::Refused(refusal) => {
                error["message"] = json!(refusal.detail);
                error["status"] = json!(refusal.status.as_u16());
                if let Some(file) = &refusal.file {
                    error["file"] = json!(file);
                }
                if !refusal.errors.is_empty() {
                    error["errors"] = json!(refusal.errors);
                }
                if let Some(seconds) = &refusal.retry_after {
                    error["retry_after"] = json!(seconds);
                }
            }
        }
        error
    }

    /// Returns whether a precondition of the request failed.
    pub(super) fn is_precondition(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.status == StatusCode::PRECONDITION_FAILED)
    }

    /// Returns whether any other request would fail too: the node is unreachable, or rejects this caller.
    pub(super) fn is_about_node(&self) -> bool {
        match self {
            Self::Refused(refusal) => {
                matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
                    || self.kind() == FailureKind::Unreachable
            }
            _ => self.kind() == FailureKind::Unreachable,
        }
    }

    /// Returns whether the node responded that something does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.status == StatusCode::NOT_FOUND)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message)
            | Self::Invalid(message)
            | Self::Missing(message)
            | Self::Unreachable(message)
            | Self::Other(message) => {
                write!(out, "error: {message}")
            }
            Self::Refused(refusal) => write!(out, "error: {refusal}"),
            Self::All(all) => {
                for (index, one) in all.iter().take(SHOWN).enumerate() {
                    write!(out, "{}{one}", if index == 0 { "" } else { "\n" })?;
                }
                match all.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(out, "\nerror: and {more} more"),
                }
            }
        }
    }
}

impl FieldError {
    /// Returns `api.yaml:8:36: descriptors[0]: reason`.
    fn in_file(&self, file: &str) -> String {
        let place = self.line.zip(self.column).map(|(line, column)| format!(":{line}:{column}"));
        let field = if self.field.is_empty() { String::new() } else { format!(" {}:", plain(&self.field)) };
        format!("{}{}:{field} {}", plain(file), place.unwrap_or_default(), plain(&self.reason))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) if !self.errors.is_empty() => {
                let lines: Vec<String> = self.errors.iter().map(|error| error.in_file(file)).collect();
                write!(out, "{}", lines.join("\nerror: "))?;
            }
            Some(file) => write!(out, "{}: {}", plain(file), plain(&self.detail))?,
            None => {
                write!(out, "{}", plain(&self.detail))?;
                // The detail has the reason of a single error.
                for error in self.errors.iter().filter(|_| self.errors.len() > 1) {
                    write!(out, "\n  {}: {}", plain(&error.field), plain(&error.reason))?;
                }
            }
        }
        match self.status {
            StatusCode::UNAUTHORIZED => write!(
                out,
                "\nhint: give a token with --token-file or TIDEGATE_TOKEN; on the machine of the node, run this in the \
                 folder of its settings (or with --config) to use its `admin-token`"
            ),
            StatusCode::FORBIDDEN => {
                write!(
                    out,
                    "\nhint: ask an administrator for a token with that role (`tidegate token create`)"
                )
            }
            StatusCode::PRECONDITION_FAILED => {
                write!(
                    out,
                    "\nhint: it was changed in the meantime; read it again, and run the command again"
                )
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                match &self.retry_after {
                    Some(seconds) => write!(out, "\nhint: try again in {} s", plain(seconds))?,
                    None => write!(out, "\nhint: try again")?,
                }
                self.instead.map_or(Ok(()), |instead| write!(out, ", or {instead}"))
            }
            _ => Ok(()),
        }
    }
}
