//! What is wrong with a descriptor.

use super::{Table, expect_problems, field, file, rule};

const FIELDS: Table = &[
    ("value: [x]", &["r.yaml:4:12: descriptors[0].value: must be text, got a list"]),
    (
        "concurrency: 5",
        &["r.yaml:4:18: descriptors[0].concurrency: must be a mapping, got 5; its fields: max, timeout"],
    ),
    (
        "concurrency: {}",
        &[
            "r.yaml:4:18: descriptors[0].concurrency.max: missing; say how many slots may be held at once",
            "r.yaml:4:18: descriptors[0].concurrency.timeout: missing; say when a lost slot returns, as in 60s",
        ],
    ),
    (
        "concurrency: {max: 0, timeout: 60}",
        &[
            "r.yaml:4:24: descriptors[0].concurrency.max: must be a whole number from 1 to 1000000, got 0",
            r#"r.yaml:4:36: descriptors[0].concurrency.timeout: must be a duration such as 250ms, 90s or 1h30m, got "60"; add a unit, as in 90s"#,
        ],
    ),
    (
        "concurrency: {max: 1000001, timeout: 60s}",
        &[
            "r.yaml:4:24: descriptors[0].concurrency.max: must be a whole number from 1 to 1000000, got 1000001",
        ],
    ),
    (
        "concurrency: {max: 1, timeout: 4000d}",
        &[
            "r.yaml:4:36: descriptors[0].concurrency.timeout: the window must be at most 10 years, got 345600000000000 microseconds",
        ],
    ),
    (
        "concurrency: {max: 1, timeout: [60s], min: 1}",
        &[
            "r.yaml:4:36: descriptors[0].concurrency.timeout: must be text, got a list",
            "r.yaml:4:43: descriptors[0].concurrency.min: unknown field; allowed: max, timeout",
        ],
    ),
    (
        "on_store_error: alow",
        &[
            r#"r.yaml:4:21: descriptors[0].on_store_error: must be one of allow, deny, local, got "alow"; did you mean allow?"#,
        ],
    ),
    (
        "on_store_error: [allow]",
        &["r.yaml:4:21: descriptors[0].on_store_error: must be one of allow, deny, local, got a list"],
    ),
    (
        "on_store_error: {first: deny}",
        &[
            "r.yaml:4:21: descriptors[0].on_store_error.after: missing; write all of `{first: deny, after: 5s, then: local}`",
            "r.yaml:4:21: descriptors[0].on_store_error.then: missing; write all of `{first: deny, after: 5s, then: local}`",
        ],
    ),
    (
        "on_store_error: {first: denied, after: 5, then: 1, last: allow}",
        &[
            r#"r.yaml:4:29: descriptors[0].on_store_error.first: must be one of allow, deny, local, got "denied""#,
            r#"r.yaml:4:44: descriptors[0].on_store_error.after: must be a duration such as 250ms, 90s or 1h30m, got "5"; add a unit, as in 90s"#,
            r#"r.yaml:4:53: descriptors[0].on_store_error.then: must be one of allow, deny, local, got "1""#,
            "r.yaml:4:56: descriptors[0].on_store_error.last: unknown field; allowed: first, after, then",
        ],
    ),
    ("consistency: leased", &["r.yaml:4:18: descriptors[0].consistency: leased is not built yet; use exact"]),
    ("consistency: synced", &["r.yaml:4:18: descriptors[0].consistency: synced is not built yet; use exact"]),
    ("consistency: eventual", &[r#"r.yaml:4:18: descriptors[0].consistency: must be exact, got "eventual""#]),
    (
        "enforce_percent: 101",
        &["r.yaml:4:22: descriptors[0].enforce_percent: must be a whole number from 0 to 100, got 101"],
    ),
    (
        "enforce_percent: 50%",
        &[r#"r.yaml:4:22: descriptors[0].enforce_percent: must be a whole number from 0 to 100, got "50%""#],
    ),
    ("shadow_mode: 1", &["r.yaml:4:18: descriptors[0].shadow_mode: must be true or false, got 1"]),
    (
        r#"quota_mode: "yes""#,
        &[r#"r.yaml:4:17: descriptors[0].quota_mode: must be true or false, got "yes"; remove the quotes"#],
    ),
    (
        "detailed_metric: maybe",
        &[r#"r.yaml:4:22: descriptors[0].detailed_metric: must be true or false, got "maybe""#],
    ),
    ("hide_keys: maybe", &[r#"r.yaml:4:16: descriptors[0].hide_keys: must be true or false, got "maybe""#]),
    ("warn_at: 80", &["r.yaml:4:14: descriptors[0].warn_at: must be a list, got 80"]),
    (
        "warn_at: [80, 0, 101, 80]",
        &[
            "r.yaml:4:19: descriptors[0].warn_at[1]: must be a whole number from 1 to 100, got 0",
            "r.yaml:4:22: descriptors[0].warn_at[2]: must be a whole number from 1 to 100, got 101",
            "r.yaml:4:27: descriptors[0].warn_at[3]: 80 is in the list already; remove one of the two",
        ],
    ),
    (
        "warn_at: [1, 2, 3, 4, 5, 6, 7, 8, 9]",
        &["r.yaml:4:39: descriptors[0].warn_at[8]: a rule has at most 8 percentages in warn_at"],
    ),
    (
        "value_to_metric: [true]",
        &["r.yaml:4:22: descriptors[0].value_to_metric: must be true or false, got a list"],
    ),
    (
        "share_threshold: true",
        &[
            "r.yaml:4:22: descriptors[0].share_threshold: shares one counter among the values of a wildcard, so value needs a `*`",
        ],
    ),
    (
        "share_threshold: perhaps",
        &[r#"r.yaml:4:22: descriptors[0].share_threshold: must be true or false, got "perhaps""#],
    ),
    ("metadata: text", &[r#"r.yaml:4:15: descriptors[0].metadata: must be a mapping, got "text""#]),
    (
        "metadata: {a: .inf, b: [{c: -.NaN}], d: 1e999, e: 1, e: 2}",
        &[
            r#"r.yaml:4:19: descriptors[0].metadata.a: JSON has no number ".inf"; quote it to keep it as text"#,
            r#"r.yaml:4:33: descriptors[0].metadata.b[0].c: JSON has no number "-.NaN"; quote it to keep it as text"#,
            r#"r.yaml:4:45: descriptors[0].metadata.d: JSON has no number "1e999"; quote it to keep it as text"#,
            "r.yaml:4:58: descriptors[0].metadata.e: the same key is on line 4 already; keep one of them",
        ],
    ),
    ("descriptors: {key: b}", &["r.yaml:4:18: descriptors[0].descriptors: must be a list, got a mapping"]),
    ("key: b", &["r.yaml:4:5: descriptors[0].key: the same key is on line 3 already; keep one of them"]),
    (
        "limit: {requests: 5}",
        &[
            "r.yaml:4:5: descriptors[0].limit: unknown field; allowed: key, value, name, rate_limit, limits, tiers, concurrency, on_store_error, consistency, enforce_percent, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, hide_keys, warn_at, metadata; did you mean limits?",
        ],
    ),
];

#[test]
fn a_wrong_field_of_a_descriptor_is_told_at_its_place() {
    expect_problems(field, FIELDS);
}

const DESCRIPTORS: Table = &[
    ("value: x", &["r.yaml:3:5: descriptors[0].key: missing; every descriptor names the key it matches"]),
    ("key:", &["r.yaml:3:5: descriptors[0].key: missing; every descriptor names the key it matches"]),
    (
        r#"key: """#,
        &["r.yaml:3:10: descriptors[0].key: must not be empty; every descriptor names the key it matches"],
    ),
    ("key: {a: b}", &["r.yaml:3:10: descriptors[0].key: must be text, got a mapping"]),
    (
        "key: path*",
        &[
            "r.yaml:3:10: descriptors[0].key: must not contain `*`: wildcards belong in value, keys are matched exactly",
        ],
    ),
    (
        "keys: a",
        &[
            "r.yaml:3:5: descriptors[0].keys: unknown field; allowed: key, value, name, rate_limit, limits, tiers, concurrency, on_store_error, consistency, enforce_percent, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, hide_keys, warn_at, metadata; did you mean key?",
            "r.yaml:3:5: descriptors[0].key: missing; every descriptor names the key it matches",
        ],
    ),
    (
        r"
        key: a
        value: x
        share_threshold: true
        ",
        &[
            "r.yaml:5:22: descriptors[0].share_threshold: shares one counter among the values of a wildcard, so value needs a `*`",
        ],
    ),
];

#[test]
fn a_wrong_descriptor_is_told_at_its_place() {
    expect_problems(rule, DESCRIPTORS);
}

const TWICE: Table = &[
    (
        r#"
        domain: d
        descriptors:
          - {key: a, value: x}
          - {key: a}
          - key: b
            descriptors:
              - {key: c}
              - {key: c, value: ""}
          - key: a
            value: x
          - {key: a, value: x}
        "#,
        &[
            "r.yaml:8:9: descriptors[2].descriptors[1]: the same key and value as the descriptor on line 7; merge the two or change one",
            "r.yaml:9:5: descriptors[3]: the same key and value as the descriptor on line 3; merge the two or change one",
            "r.yaml:11:5: descriptors[4]: the same key and value as the descriptor on line 3; merge the two or change one",
        ],
    ),
    (
        r"
        domain: d
        descriptors:
          - {key: a, name: n}
          - key: b
            descriptors:
              - {key: c, name: n}
        ",
        &[
            "r.yaml:6:24: descriptors[1].descriptors[0].name: is the name of the rule on line 3 already; give each rule its own",
        ],
    ),
];

#[test]
fn what_occurs_twice_is_told_with_the_line_of_the_first() {
    expect_problems(file, TWICE);
}
