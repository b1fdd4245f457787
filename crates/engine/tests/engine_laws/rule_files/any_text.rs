//! Whatever is in a file, reading it ends, and with an answer.

use proptest::prelude::*;

use super::load;

/// Text in which the signs of YAML and the words of rule files are frequent.
fn rule_like() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => prop::sample::select(vec![
            "domain", "descriptors", "key", "value", "rate_limit", "limits", "unit", "requests_per_unit",
            "requests", "per", "burst", "tiers", "tenants", "tenant", "metadata", "replaces", "name",
            "concurrency", "max", "timeout", "on_store_error", "calendar", "unlimited", "minute", "5", "1h30m",
        ]).prop_map(str::to_owned),
        6 => prop::sample::select(vec![
            ": ", ":\n", "\n", "\n  ", "\n    ", "- ", "\n- ", "\n  - ", "{", "}", "[", "]", ", ", "\"", "'",
            "&a ", "*a", "<<: ", "? ", "| ", "> ", "!", "%", "# ", "---\n", "...\n", "\t", "~", "\u{feff}", "\0",
            "\r", "é",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(word, 0..80).prop_map(|words| words.concat())
}

/// What loads or not, each problem has a file, a message on one line, and a place within the text.
fn check(text: &str) {
    let Err(problems) = load(text) else { return };
    assert!(!problems.0.is_empty());
    let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() as u64;
    for problem in &problems.0 {
        assert_eq!(problem.file, "r.yaml");
        assert!(!problem.message.is_empty() && !problem.message.contains('\n'), "{problem}");
        assert!(problem.place.is_none_or(|place| place.line <= lines + 1 && place.column >= 1), "{problem}");
    }
    let places: Vec<_> = problems.0.iter().map(|problem| problem.place).collect();
    assert!(places.is_sorted(), "{problems}");
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(2_000))]

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn text_that_looks_like_rules_is_answered(text in rule_like()) {
        check(&text);
        check(&format!("domain: d\ndescriptors:\n- key: a\n  {text}"));
    }

    #[test]
    fn a_file_that_was_cut_or_changed_is_answered(cut in 0..900_usize, at in 0..900_usize, by in any::<char>()) {
        let whole = super::whole_files::DESIGN;
        check(whole.get(..cut).unwrap_or(whole));
        let mut changed: Vec<char> = whole.chars().collect();
        let at = at % changed.len();
        changed[at] = by;
        check(&changed.into_iter().collect::<String>());
    }
}
