//! Why a request is decided as it is.

mod kinds;
mod values;

use tidegate::{Limiter, Request};

/// The explanation as text, without the line break at its end.
fn text(limiter: &Limiter, request: &Request<'_>) -> String {
    limiter.explain(request).to_string().trim_end().to_owned()
}

/// The lines of a test's text, without their indentation.
fn lines(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text).trim_end();
    let indent = text.len() - text.trim_start_matches(' ').len();
    text.lines().map(|line| line.get(indent..).unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Checks the text, line by line.
fn expect(limiter: &Limiter, request: &Request<'_>, expected: &str) {
    let (found, expected) = (text(limiter, request), lines(expected));
    assert_eq!(found, expected, "\nfound:\n{found}\n\nexpected:\n{expected}\n");
}
