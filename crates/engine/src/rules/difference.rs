//! The changes of a reload, for the log.

use std::collections::BTreeMap;

use super::tree::RuleSet;

/// The most rules that are named. The rest is only counted.
const NAMED: usize = 10;

/// Rules that differ between two rule sets, as `domain/rule`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
}

impl Difference {
    pub(crate) fn between(before: &RuleSet, after: &RuleSet) -> Self {
        let (old, new) = (texts(before), texts(after));
        let missing = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
            one.keys().filter(|rule| !other.contains_key(*rule)).cloned().collect()
        };
        let differs = |(rule, text): &(&String, &String)| old.get(*rule).is_some_and(|old| old != *text);
        Self {
            added: missing(&new, &old),
            removed: missing(&old, &new),
            changed: new.iter().filter(differs).map(|(rule, _)| rule.clone()).collect(),
        }
    }

    /// Formats a list of rules as in `api/user, api/ip and 3 more`, or `none`.
    pub(crate) fn named(rules: &[String]) -> String {
        let (first, others) = rules.split_at(rules.len().min(NAMED));
        match (first.join(", "), others.len()) {
            (names, 0) if names.is_empty() => "none".to_owned(),
            (names, 0) => names,
            (names, more) => format!("{names} and {more} more"),
        }
    }
}

/// Returns the contents of each rule as text, and of each domain without its rules.
fn texts(rules: &RuleSet) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for mut domain in rules.listing() {
        for rule in std::mem::take(&mut domain.rules) {
            // Serialization does not fail: a listing has only texts and numbers.
            let text = serde_json::to_string(&rule).unwrap_or_default();
            texts.insert(format!("{}/{}", domain.domain, rule.rule), text);
        }
        let text = serde_json::to_string(&domain).unwrap_or_default();
        texts.insert(domain.domain, text);
    }
    texts
}

#[cfg(test)]
mod tests {
    use tidegate_core::KeySeed;

    use super::*;
    use crate::rules::file::load;
    use crate::rules::limit_spec::Defaults;

    fn rules(text: &str) -> RuleSet {
        let defaults = Defaults::default();
        let domain = load("rules.yaml", text, &defaults).expect("they are rules");
        RuleSet::compile(&[domain], &defaults, KeySeed(7)).expect("they compile")
    }

    #[test]
    fn rules_are_named_that_came_went_or_say_something_else() {
        let before = rules(
            "domain: api\ndescriptors:\n  - {key: same, rate_limit: {unit: day, requests_per_unit: 1}}\n  \
             - {key: gone, rate_limit: {unit: day, requests_per_unit: 1}}\n  \
             - {key: more, rate_limit: {unit: day, requests_per_unit: 1}}\n",
        );
        let after = rules(
            "domain: api\ndescriptors:\n  - {key: same, rate_limit: {unit: day, requests_per_unit: 1}}\n  \
             - {key: new, rate_limit: {unit: day, requests_per_unit: 1}}\n  \
             - {key: more, rate_limit: {unit: day, requests_per_unit: 2}}\n",
        );
        let found = Difference::between(&before, &after);
        let one = |rule: &str| vec![rule.to_owned()];
        let (added, removed, changed) = (one("api/new"), one("api/gone"), one("api/more"));
        assert_eq!(found, Difference { added, removed, changed });
        assert_eq!(Difference::between(&after, &after), Difference::default());
        let many: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        assert_eq!(Difference::named(&many), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
        assert_eq!(Difference::named(&[]), "none");
    }
}
