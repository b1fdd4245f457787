//! Files made to cost memory, time or stack are refused, with the reason.

use std::fmt::Write;

use super::{load, problems};

const TOO_DEEP: &str = "lists and mappings are nested too deep; at most 100 levels are allowed";

#[test]
fn a_billion_laughs_are_refused() {
    let mut text = "domain: d\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{below}]").unwrap();
    }
    let reason = "the file holds more than 1000000 values, aliases expanded; use fewer aliases or split it";
    assert_eq!(problems(&text), [format!("r.yaml:7:45: {reason}")]);
}

#[test]
fn merge_keys_count_as_what_they_merge() {
    let mut text = "domain: d\na0: &a0 {k: v}\n".to_owned();
    for level in 1..40 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} {{<<: [{below}], k{level}: v}}").unwrap();
    }
    let found = problems(&text);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("the file holds more than 1000000 values, aliases expanded"), "{found:?}");
}

#[test]
fn long_text_repeated_by_aliases_is_refused() {
    let text = format!("domain: d\nt: &t {}\nl:\n{}", "x".repeat(100_000), "- *t\n".repeat(200));
    let reason =
        "the file holds more than 16777216 bytes of text, aliases expanded; use fewer aliases or split it";
    assert_eq!(problems(&text), [format!("r.yaml:170:3: {reason}")]);
}

#[test]
fn a_file_of_too_many_values_is_refused() {
    let found = problems(&format!("domain: d\nx: [{}]", "a,".repeat(1_000_001)));
    let reason = "the file holds more than 1000000 values, aliases expanded; use fewer aliases or split it";
    assert_eq!(found, [format!("r.yaml:2:1999995: {reason}")]);
}

#[test]
fn deep_nesting_is_refused_in_every_notation() {
    assert_eq!(problems(&"[".repeat(1_000_000)), [format!("r.yaml:1:101: {TOO_DEEP}")]);
    assert_eq!(problems(&"{a: ".repeat(1_000_000)), [format!("r.yaml:1:401: {TOO_DEEP}")]);
    assert_eq!(problems(&"- ".repeat(1_000_000)), [format!("r.yaml:1:201: {TOO_DEEP}")]);
    assert_eq!(problems(&"? ".repeat(1_000_000)), [format!("r.yaml:1:201: {TOO_DEEP}")]);
    let mapping = (0..200).map(|level| " ".repeat(level) + "a:\n").collect::<String>();
    assert_eq!(problems(&mapping), [format!("r.yaml:101:101: {TOO_DEEP}")]);
    // Block and flow each stay within the parser's own bound.
    let mixed = format!("{}{}{}", "- ".repeat(60), "[".repeat(60), "]".repeat(60));
    assert_eq!(problems(&mixed), [format!("r.yaml:1:161: {TOO_DEEP}")]);
}

#[test]
fn aliases_do_not_get_around_the_depth() {
    let mut text = "domain: d\na0: &a0 [x]\n".to_owned();
    for level in 1..200 {
        writeln!(text, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    // The top is level 1, so a98 is level 2 to 100.
    assert_eq!(problems(&text), [format!("r.yaml:101:12: {TOO_DEEP}")]);
}

#[test]
fn descriptors_nest_32_deep_and_no_deeper() {
    let nested = |levels: usize| {
        let mut text = "domain: d\n".to_owned();
        for level in 0..levels {
            let indent = "  ".repeat(level);
            writeln!(text, "{indent}descriptors:\n{indent}- key: a").unwrap();
        }
        text
    };
    load(&nested(32)).unwrap();
    let found = problems(&nested(33));
    let field = vec!["descriptors"; 33].join("[0].");
    assert_eq!(
        found,
        [format!("r.yaml:67:67: {field}: descriptors are nested too deep; at most 32 levels are allowed")]
    );
}

#[test]
fn a_file_holds_100_000_rules_and_no_more() {
    let rules = |count: usize| {
        let mut text = "domain: d\ndescriptors:\n".to_owned();
        for rule in 0..count {
            writeln!(text, "- {{key: k{rule}}}").unwrap();
        }
        text
    };
    load(&rules(100_000)).unwrap();
    assert_eq!(
        problems(&rules(100_002)),
        ["r.yaml:100003:3: descriptors[100000]: more than 100000 rules; split the file into several domains"]
    );
}

#[test]
fn a_rule_has_64_limits_and_no_more() {
    let limits = |count: usize| {
        let limits: Vec<String> =
            (0..count).map(|limit| format!("{{name: n{limit}, requests: 1, per: day}}")).collect();
        format!("domain: d\ndescriptors:\n- key: a\n  limits: [{}]", limits.join(", "))
    };
    load(&limits(64)).unwrap();
    let found = problems(&limits(66));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].ends_with("descriptors[0].limits[64]: a rule has at most 64 limits; split the rule"),
        "{found:?}"
    );
}

#[test]
fn keys_values_and_names_have_at_most_4096_bytes() {
    for field in ["key", "value", "name"] {
        let text = |bytes: usize| {
            let others = if field == "key" { "" } else { "key: a, " };
            format!("domain: d\ndescriptors: [{{{others}{field}: {}}}]", "x".repeat(bytes))
        };
        load(&text(4_096)).unwrap();
        let found = problems(&text(4_097));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].ends_with(&format!("{field}: must be at most 4096 bytes long, got 4097")),
            "{found:?}"
        );
    }
}

#[test]
fn names_of_tenants_have_at_most_4096_bytes() {
    let text = |bytes: usize| {
        let tiers = "descriptors: [{key: k, tiers: {pro: }}]";
        format!("domain: d\ntenant: k\n{tiers}\ntenants:\n  ? {}\n  : pro", "x".repeat(bytes))
    };
    load(&text(4_096)).unwrap();
    let found = problems(&text(4_097));
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with("must be at most 4096 bytes long, got 4097"), "{found:?}");
}

#[test]
fn a_file_of_garbage_tells_its_first_thousand_mistakes() {
    let fields: Vec<String> = (0..1_500).map(|field| format!("f{field}: 1")).collect();
    let found = problems(&format!("domain: d\n{}", fields.join("\n")));
    assert_eq!(found.len(), 1_001);
    assert!(found[999].starts_with("r.yaml:1001:1: f999: unknown field"), "{}", found[999]);
    assert_eq!(found[1_000], "r.yaml: and 500 more problems; fix these first");
}

#[test]
fn messages_stay_short_whatever_was_written() {
    let long = "x".repeat(100_000);
    let text = format!(
        "domain: d\n{}: 1\nhierarchical: {long}\ninline_limits: {{max: {}}}",
        &long[..900],
        "9".repeat(1_000)
    );
    for problem in problems(&text) {
        assert!(problem.len() < 250, "{problem}");
    }
}
