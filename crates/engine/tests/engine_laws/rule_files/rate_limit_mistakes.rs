//! What is wrong with a `rate_limit`.

use super::{Table, expect_problems, field, rule};

const RATE_LIMITS: Table = &[
    (
        "rate_limit: 5",
        &[
            "r.yaml:4:17: descriptors[0].rate_limit: must be a mapping, got 5; its fields: unit, requests_per_unit, unlimited, name, replaces, algorithm, burst, buckets, mode, calendar",
        ],
    ),
    (
        "rate_limit: {}",
        &[
            "r.yaml:4:17: descriptors[0].rate_limit.requests_per_unit: missing; say how many requests per unit are allowed (0 denies all), or set unlimited: true",
            "r.yaml:4:17: descriptors[0].rate_limit.unit: missing; give one of second, minute, hour, day, week, month, year",
        ],
    ),
    (
        "rate_limit: {unit: fortnight, requests_per_unit: 5}",
        &[
            r#"r.yaml:4:24: descriptors[0].rate_limit.unit: must be one of second, minute, hour, day, week, month, year, got "fortnight""#,
        ],
    ),
    (
        "rate_limit: {unit: minutes, requests_per_unit: 5}",
        &[
            r#"r.yaml:4:24: descriptors[0].rate_limit.unit: must be one of second, minute, hour, day, week, month, year, got "minutes"; did you mean minute?"#,
        ],
    ),
    (
        "rate_limit: {unit: 90s, requests_per_unit: 5}",
        &[
            r#"r.yaml:4:24: descriptors[0].rate_limit.unit: must be one of second, minute, hour, day, week, month, year, got "90s"; for a duration use limits with per"#,
        ],
    ),
    (
        "rate_limit: {unit: unknown, requests_per_unit: 5}",
        &[
            r#"r.yaml:4:24: descriptors[0].rate_limit.unit: must be one of second, minute, hour, day, week, month, year, got "unknown""#,
        ],
    ),
    (
        "rate_limit: {unit: [minute], requests_per_unit: 5}",
        &[
            "r.yaml:4:24: descriptors[0].rate_limit.unit: must be one of second, minute, hour, day, week, month, year, got a list",
        ],
    ),
    (
        "rate_limit: {unit: minute}",
        &[
            "r.yaml:4:17: descriptors[0].rate_limit.requests_per_unit: missing; say how many requests per unit are allowed (0 denies all), or set unlimited: true",
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: -1}",
        &[
            "r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got -1",
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: 4294967296}",
        &[
            "r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got 4294967296",
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: 1.5}",
        &[
            "r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got 1.5",
        ],
    ),
    (
        r#"rate_limit: {unit: minute, requests_per_unit: "5"}"#,
        &[
            r#"r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got "5"; remove the quotes"#,
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: 010}",
        &[
            "r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got 010; write it without leading zeros",
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: many}",
        &[
            r#"r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got "many""#,
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: [5]}",
        &[
            "r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got a list",
        ],
    ),
    (
        "rate_limit: {unit: minute, requests: 5}",
        &[
            "r.yaml:4:17: descriptors[0].rate_limit.requests_per_unit: missing; say how many requests per unit are allowed (0 denies all), or set unlimited: true",
            "r.yaml:4:32: descriptors[0].rate_limit.requests: unknown field; allowed: unit, requests_per_unit, unlimited, name, replaces, algorithm, burst, buckets, mode, calendar; did you mean requests_per_unit?",
        ],
    ),
    (
        "rate_limit: {unlimited: true, unit: minute, requests_per_unit: 5, algorithm: gcra, burst: 1}",
        &[
            "r.yaml:4:41: descriptors[0].rate_limit.unit: means nothing where unlimited is true; remove unit or unlimited",
            "r.yaml:4:82: descriptors[0].rate_limit.algorithm: means nothing where unlimited is true; remove algorithm or unlimited",
            "r.yaml:4:95: descriptors[0].rate_limit.burst: means nothing where unlimited is true; remove burst or unlimited",
        ],
    ),
    (
        "rate_limit: {unlimited: maybe, unit: minute, requests_per_unit: 5}",
        &[r#"r.yaml:4:29: descriptors[0].rate_limit.unlimited: must be true or false, got "maybe""#],
    ),
    (
        "rate_limit: {name: x, unit: minute, requests_per_unit: 5, replaces: [{name: x}]}",
        &[
            r#"r.yaml:4:74: descriptors[0].rate_limit.replaces[0]: a limit cannot replace itself; "x" is its own name"#,
        ],
    ),
    (
        r#"rate_limit: {unit: minute, requests_per_unit: 5, replaces: [{name: ""}, {}, x, {nam: y}]}"#,
        &[
            "r.yaml:4:72: descriptors[0].rate_limit.replaces[0].name: must not be empty; name the limit to replace",
            "r.yaml:4:77: descriptors[0].rate_limit.replaces[1].name: missing; name the limit to replace",
            r#"r.yaml:4:81: descriptors[0].rate_limit.replaces[2]: must be a mapping, got "x"; its fields: name"#,
            "r.yaml:4:84: descriptors[0].rate_limit.replaces[3].name: missing; name the limit to replace",
            "r.yaml:4:85: descriptors[0].rate_limit.replaces[3].nam: unknown field; allowed: name; did you mean name?",
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: 5, replaces: x}",
        &[r#"r.yaml:4:64: descriptors[0].rate_limit.replaces: must be a list, got "x""#],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: 5, burst: 3}",
        &[
            "r.yaml:4:61: descriptors[0].rate_limit.burst: burst belongs to token_bucket, gcra and leaky_bucket, but the algorithm here is sliding_window; set algorithm or remove burst",
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: 2000000, algorithm: sliding_log}",
        &[
            "r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: sliding_log keeps one entry per request, so it allows at most 1000000, got 2000000; use sub_windows for large counts",
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: 0x10}",
        &[
            r#"r.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got "0x10""#,
        ],
    ),
    (
        "rate_limit: {unit: minute, requests_per_unit: 5, calendar: [UTC], algorithm: fixed_window}",
        &[
            r#"r.yaml:4:24: descriptors[0].rate_limit.unit: must be one of day, week, month, year where calendar is set, got "minute""#,
            "r.yaml:4:64: descriptors[0].rate_limit.calendar: must be text, got a list",
        ],
    ),
];

#[test]
fn a_wrong_rate_limit_is_told_at_its_place() {
    expect_problems(field, RATE_LIMITS);
}

const CONTRADICTIONS: Table = &[
    (
        r"
        key: a
        rate_limit: {unlimited: true}
        limits: [{requests: 1, per: second}]
        ",
        &[
            "r.yaml:5:13: descriptors[0].limits: would never apply, for rate_limit is unlimited; remove one of the two",
        ],
    ),
    (
        r"
        key: a
        rate_limit: {unit: minute, requests_per_unit: 5}
        limits:
          - {requests: 1, per: minute}
        ",
        &[
            r#"r.yaml:6:9: descriptors[0].limits[0]: the limit on line 4 is called "minute" too; give each its own name"#,
        ],
    ),
];

#[test]
fn what_contradicts_a_rate_limit_is_told() {
    expect_problems(rule, CONTRADICTIONS);
}
