//! Numbers with units: sizes, durations, fractions.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate::rules::file::micros;

const BYTE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Parses a whole number; `1_000` is 1000.
pub(super) fn whole(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if !digits || leading_zero || text.starts_with('_') || text.ends_with('_') {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// Parses a number of bytes: `256KiB`, `1MB`, `4096`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "" => 1,
        unit => BYTE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    whole(number.trim_end())?.checked_mul(unit)
}

/// Parses a duration as in rule files, and also `0`, `0s` and similar if `zero` is allowed.
pub(crate) fn length(text: &str, zero: bool) -> Result<Duration, &'static str> {
    let nothing = text.strip_prefix('0').is_some_and(|unit| unit.bytes().all(|b| b.is_ascii_alphabetic()));
    match micros(text) {
        Ok(us) => Ok(Duration::from_micros(us)),
        Err(_) if nothing && zero => Ok(Duration::ZERO),
        Err(_) if nothing => Err("; it must be longer than 0"),
        Err(remedy) => Err(remedy),
    }
}

/// Parses a decimal fraction in millionths, without floating-point numbers.
pub(super) fn millionths(text: &str) -> Option<u32> {
    const DECIMALS: usize = 6;
    let (ones, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(ones) || !digits(decimals) || decimals.len() > DECIMALS || ones.len() > 1 {
        return None;
    }
    let part: u32 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
    let all = ones.parse::<u32>().ok()? * 1_000_000 + part;
    (all <= 1_000_000).then_some(all)
}

/// Prints a number of bytes in the largest unit in which it is whole.
pub(super) fn size(bytes: u64) -> String {
    let units = BYTE_UNITS.iter().filter(|(name, _)| name.contains('i'));
    let unit = units.into_iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    let (name, unit) = unit.copied().unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

/// Prints a duration with as few units as possible.
pub(super) fn duration(length: Duration) -> String {
    const UNITS: [(&str, u128); 6] = [
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
        ("us", 1),
    ];
    let mut left = length.as_micros();
    let mut text = String::new();
    for (name, unit) in UNITS {
        if left >= unit {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}{name}", left / unit);
            left %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}
