//! Rules that no request ever reaches.
//!
//! The value of an entry is looked up among the exact values, then among the patterns in file order, and then
//! goes to the rule for any value. So an exact value is always reached; a pattern is not reached if an
//! earlier one matches everything that it matches; and the rule for any value is not reached if some pattern
//! matches everything. The child rules of an `unlimited` rule are reached like any other.

use std::collections::HashMap;

use super::super::model::Rule;
use super::super::pattern::Pattern;
use super::{FindingKind, Linter, Severity};

/// The most patterns of one key that are compared with later ones. More are rare.
const MAX_COMPARED: usize = 1_000;

pub(super) fn find(linter: &mut Linter<'_>) {
    // By parent rule and key: the patterns so far, and a pattern that matches everything.
    let mut earlier: HashMap<(Option<*const Rule>, &str), Vec<&str>> = HashMap::new();
    let mut all: HashMap<(Option<*const Rule>, &str), &str> = HashMap::new();
    let (mut found, mut for_any) = (Vec::new(), Vec::new());
    for (index, visit) in linter.rules.iter().enumerate() {
        let rule = visit.rule();
        let level =
            (visit.ancestors().last().map(|rule| std::ptr::from_ref::<Rule>(rule)), rule.key.as_str());
        match rule.given_value() {
            None => for_any.push((index, level)),
            Some(value) if Pattern::is_pattern(value) => {
                if covers(value, "*") {
                    all.insert(level, value);
                }
                let before = earlier.entry(level).or_default();
                if let Some(first) = before.iter().find(|first| covers(first, value)) {
                    found.push((index, behind(&rule.key, first)));
                } else if before.len() < MAX_COMPARED {
                    before.push(value);
                }
            }
            Some(_) => {}
        }
    }
    for (index, level) in for_any {
        found.extend(all.get(&level).map(|value| (index, behind_all(level.1, value))));
    }
    for (index, message) in found {
        linter.add(index, Severity::Error, FindingKind::UnreachableRule, message);
    }
}

fn behind(key: &str, first: &str) -> String {
    format!("never applies: {key}={first} comes before it and matches all that it matches; put it first")
}

fn behind_all(key: &str, value: &str) -> String {
    format!(
        "never applies: patterns come before it, and {key}={value} matches every value; remove one of the two"
    )
}

/// Returns whether `first` matches everything that `second` matches.
///
/// Replace the stars of `second` with a character that `first` does not contain. If `first` matches the
/// result, its own stars cover these positions, and would cover any other text there. If it does not, the
/// result is a text that `second` matches and `first` does not.
fn covers(first: &str, second: &str) -> bool {
    // Most pairs differ in their prefix.
    if first.split_once('*').is_none_or(|(head, _)| !second.starts_with(head)) {
        return false;
    }
    let foreign = ('\u{e000}'..='\u{f8ff}').find(|char| !first.contains(*char)).unwrap_or('\u{e000}');
    Pattern::new(first).matches(&second.replace('*', foreign.encode_utf8(&mut [0; 4])))
}

#[cfg(test)]
mod tests {
    use super::{Pattern, covers};

    #[test]
    fn a_pattern_covers_another_if_it_matches_all_that_the_other_matches() {
        for (first, second, expected) in [
            ("*", "a*", true),
            ("*", "*", true),
            ("**", "*", true),
            ("*", "**", true),
            ("a*", "ab*", true),
            ("ab*", "a*", false),
            ("a*", "*", false),
            ("*a*", "b*a", true),
            ("a*c", "ab*c", true),
            ("a*c", "a*", false),
            ("a*b*c", "a*c", false),
            ("a*c", "a*b*c", true),
            ("a", "a", false),
            ("*.com", "*.example.com", true),
        ] {
            assert_eq!(covers(first, second), expected, "{first} and {second}");
        }
    }

    /// Returns every text of up to `length` of these characters.
    fn texts(characters: &str, length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..length {
            let to = all.len();
            for at in from..to {
                all.extend(characters.chars().map(|char| format!("{}{char}", all[at])).collect::<Vec<_>>());
            }
            from = to;
        }
        all
    }

    #[test]
    fn what_covers_is_what_trying_every_text_shows() {
        let values = texts("abx", 4);
        let patterns: Vec<_> = texts("ab*", 4).into_iter().filter(|text| text.contains('*')).collect();
        let matched: Vec<Vec<bool>> = patterns
            .iter()
            .map(|pattern| values.iter().map(|value| Pattern::new(pattern).matches(value)).collect())
            .collect();
        for (first, by_first) in patterns.iter().zip(&matched) {
            for (second, by_second) in patterns.iter().zip(&matched) {
                let all = by_first.iter().zip(by_second).all(|(first, second)| *first || !second);
                assert_eq!(covers(first, second), all, "{first} and {second}");
            }
        }
    }
}
