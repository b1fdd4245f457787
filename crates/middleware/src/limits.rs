//! Limits as text: `10/minute`, `10 per minute; 200/hour`, `100/15min`.
//!
//! The grammar is `COUNT/UNIT` or `COUNT per UNIT`, joined by `;` or `,`. `vectors/limits.json` defines it.

use thiserror::Error;
use tidegate::{LimitSpec, MAX_COUNT, Window};

/// The error for a text that cannot be parsed as limits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text:?} is not a limit: {part:?} is not COUNT/UNIT; write one such as 10/minute, 5/30s or 100/hour;2000/day"
)]
pub struct LimitTextError {
    /// The whole text.
    pub text: String,
    /// The invalid part of the text.
    pub part: String,
}

/// The names of units without a final `s`, and their lengths in microseconds. Units up to the week may have a number.
const WORDS: [(&[&str], u64); 7] = [
    (&["second", "sec", "s"], SECOND_US),
    (&["minute", "min", "m"], 60 * SECOND_US),
    (&["hour", "hr", "h"], 3_600 * SECOND_US),
    (&["day", "d"], DAY_US),
    (&["week", "w"], 7 * DAY_US),
    (&["month"], 30 * DAY_US),
    (&["year"], 365 * DAY_US),
];

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;
const LONGEST_COUNTED_US: u64 = 7 * DAY_US;

/// Parses limits from text.
///
/// ```
/// use tidegate::per_minute;
///
/// assert_eq!(tidegate_middleware::limits::parse("10/minute")?, [per_minute(10)]);
/// assert!(tidegate_middleware::limits::parse("ten/minute").is_err());
/// # Ok::<(), tidegate_middleware::limits::LimitTextError>(())
/// ```
///
/// # Errors
/// Returns an error with the first part that is not a limit.
pub fn parse(text: &str) -> Result<Vec<LimitSpec>, LimitTextError> {
    let wrong = |part: &str| LimitTextError { text: text.to_owned(), part: part.trim().to_owned() };
    text.split([';', ',']).map(|part| parse_one(part).ok_or_else(|| wrong(part))).collect()
}

fn parse_one(text: &str) -> Option<LimitSpec> {
    let text = text.trim().to_ascii_lowercase();
    let (count, rest) = leading_digits(&text, true);
    let requests = parse_count(count).filter(|requests| *requests <= MAX_COUNT)?;
    let rest = rest.trim_start();
    let unit = rest.strip_prefix('/').or_else(|| rest.strip_prefix("per"))?.trim_start();
    Some(LimitSpec::new(requests, Window::Period { us: parse_unit(unit)? }))
}

fn parse_unit(text: &str) -> Option<u64> {
    let (number, word) = leading_digits(text, false);
    let word = word.trim();
    if number.is_empty() {
        return word_us(word);
    }
    let unit_us = if word == "ms" { 1_000 } else { word_us(word).filter(|us| *us <= LONGEST_COUNTED_US)? };
    let number = number.parse::<u64>().ok().filter(|number| *number > 0)?;
    number.checked_mul(unit_us)
}

fn word_us(word: &str) -> Option<u64> {
    if word == "ms" {
        return None; // a minute's letter with a final s would be milliseconds to most readers
    }
    let known = |word: &str| WORDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, us)| *us);
    known(word).or_else(|| word.strip_suffix('s').and_then(known))
}

/// Splits a text after its leading digits. If `grouped`, `_` is allowed among the digits.
fn leading_digits(text: &str, grouped: bool) -> (&str, &str) {
    let digit = |byte: u8| byte.is_ascii_digit() || (grouped && byte == b'_');
    let end = text.bytes().position(|byte| !digit(byte)).unwrap_or(text.len());
    text.split_at(end)
}

fn parse_count(text: &str) -> Option<u64> {
    text.starts_with(|first: char| first.is_ascii_digit())
        .then(|| text.replace('_', "").parse().ok())
        .flatten()
}
