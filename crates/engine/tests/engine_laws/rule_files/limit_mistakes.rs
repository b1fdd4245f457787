//! What is wrong with `limits`.

use super::{Table, expect_problems, field, limit, rule};

const ITEMS: Table = &[
    (
        "requests: 1",
        &[
            "r.yaml:4:14: descriptors[0].limits[0].per: missing; give one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m",
        ],
    ),
    (
        "per: second",
        &[
            "r.yaml:4:14: descriptors[0].limits[0].requests: missing; say how many requests per window are allowed",
        ],
    ),
    (
        "requests: 9007199254740993, per: second",
        &[
            "r.yaml:4:25: descriptors[0].limits[0].requests: must be a whole number from 0 to 9007199254740992, got 9007199254740993",
        ],
    ),
    (
        "requests: 99999999999999999999, per: second",
        &[
            "r.yaml:4:25: descriptors[0].limits[0].requests: must be a whole number from 0 to 9007199254740992, got 99999999999999999999",
        ],
    ),
    (
        "requests: 1, per: fortnight",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "fortnight""#,
        ],
    ),
    (
        "requests: 1, per: 90",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "90"; add a unit, as in 90s"#,
        ],
    ),
    (
        "requests: 1, per: 0s",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "0s"; it must be longer than 0"#,
        ],
    ),
    (
        "requests: 1, per: -5s",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "-5s"; it must be longer than 0"#,
        ],
    ),
    (
        "requests: 1, per: 1ns",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "1ns"; nothing is shorter than a microsecond"#,
        ],
    ),
    (
        "requests: 1, per: 2mo",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "2mo"; months and years differ in length, write days as in 30d"#,
        ],
    ),
    (
        "requests: 1, per: 4000d",
        &[
            "r.yaml:4:33: descriptors[0].limits[0].per: the window must be at most 10 years, got 345600000000000 microseconds",
        ],
    ),
    (
        "requests: 1, per: hours",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "hours"; did you mean hour?"#,
        ],
    ),
    (
        "requests: 1, per: second, algorithm: leeky_bucket",
        &[
            r#"r.yaml:4:52: descriptors[0].limits[0].algorithm: must be one of fixed_window, sliding_window, sub_windows, sliding_log, token_bucket, gcra, leaky_bucket, got "leeky_bucket"; did you mean leaky_bucket?"#,
        ],
    ),
    (
        "requests: 1, per: second, algorithm: [gcra]",
        &[
            "r.yaml:4:52: descriptors[0].limits[0].algorithm: must be one of fixed_window, sliding_window, sub_windows, sliding_log, token_bucket, gcra, leaky_bucket, got a list",
        ],
    ),
    (
        "requests: 1, per: second, burst: 5",
        &[
            "r.yaml:4:48: descriptors[0].limits[0].burst: burst belongs to token_bucket, gcra and leaky_bucket, but the algorithm here is sliding_window; set algorithm or remove burst",
        ],
    ),
    (
        "requests: 1, per: second, algorithm: gcra, burst: 0",
        &["r.yaml:4:65: descriptors[0].limits[0].burst: burst must be at least 1, got 0"],
    ),
    (
        "requests: 1, per: year, algorithm: gcra, burst: 1000",
        &[
            "r.yaml:4:63: descriptors[0].limits[0].burst: a burst of 1000 at 1 per window takes over 10 years to drain; lower burst or raise requests",
        ],
    ),
    (
        "requests: 1, per: second, algorithm: gcra, burst: lots",
        &[
            r#"r.yaml:4:65: descriptors[0].limits[0].burst: must be a whole number from 0 to 9007199254740992, got "lots""#,
        ],
    ),
    (
        "requests: 1, per: second, buckets: 5",
        &[
            "r.yaml:4:50: descriptors[0].limits[0].buckets: buckets belongs to sub_windows, but the algorithm here is sliding_window; set algorithm or remove buckets",
        ],
    ),
    (
        "requests: 1, per: second, algorithm: sub_windows, buckets: 0",
        &["r.yaml:4:74: descriptors[0].limits[0].buckets: buckets must be between 1 and 10000, got 0"],
    ),
    (
        "requests: 1, per: second, algorithm: sub_windows, buckets: 10001",
        &["r.yaml:4:74: descriptors[0].limits[0].buckets: buckets must be between 1 and 10000, got 10001"],
    ),
    (
        "requests: 1, per: second, mode: queue",
        &[
            "r.yaml:4:47: descriptors[0].limits[0].mode: mode belongs to leaky_bucket, but the algorithm here is sliding_window; set algorithm or remove mode",
        ],
    ),
    (
        "requests: 1, per: second, algorithm: leaky_bucket, mode: fast",
        &[r#"r.yaml:4:72: descriptors[0].limits[0].mode: must be one of meter, queue, got "fast""#],
    ),
    (
        "requests: 1, per: second, burst: 5, buckets: 6, mode: queue",
        &[
            "r.yaml:4:48: descriptors[0].limits[0].burst: burst belongs to token_bucket, gcra and leaky_bucket, but the algorithm here is sliding_window; set algorithm or remove burst",
            "r.yaml:4:60: descriptors[0].limits[0].buckets: buckets belongs to sub_windows, but the algorithm here is sliding_window; set algorithm or remove buckets",
            "r.yaml:4:69: descriptors[0].limits[0].mode: mode belongs to leaky_bucket, but the algorithm here is sliding_window; set algorithm or remove mode",
        ],
    ),
    (
        "requests: 1, per: day, calendar: Europe/Berlin",
        &[
            "r.yaml:4:48: descriptors[0].limits[0].calendar: calendar windows need algorithm fixed_window, got sliding_window: only its windows have a beginning",
        ],
    ),
    (
        "requests: 1, per: hour, algorithm: fixed_window, calendar: Europe/Berlin",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of day, week, month, year where calendar is set, got "hour""#,
        ],
    ),
    (
        "requests: 1, per: day, algorithm: fixed_window, calendar: Europe/Berlim",
        &[
            r#"r.yaml:4:73: descriptors[0].limits[0].calendar: must be an IANA time zone such as UTC or Europe/Berlin, got "Europe/Berlim"; did you mean Europe/Berlin?"#,
        ],
    ),
    (
        "requests: 1, per: 1d, algorithm: fixed_window, calendar: Mars",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of day, week, month, year where calendar is set, got "1d""#,
            r#"r.yaml:4:72: descriptors[0].limits[0].calendar: must be an IANA time zone such as UTC or Europe/Berlin, got "Mars""#,
        ],
    ),
    (
        "requests: 1, per: second, unit: minute",
        &[
            "r.yaml:4:41: descriptors[0].limits[0].unit: unknown field; allowed: name, algorithm, requests, per, burst, buckets, mode, calendar, replaces",
        ],
    ),
    (
        "requests: x, per: y, algorithm: z, burst: a, buckets: b, mode: c, calendar: d, replaces: e, name: [f]",
        &[
            r#"r.yaml:4:25: descriptors[0].limits[0].requests: must be a whole number from 0 to 9007199254740992, got "x""#,
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of day, week, month, year where calendar is set, got "y""#,
            r#"r.yaml:4:47: descriptors[0].limits[0].algorithm: must be one of fixed_window, sliding_window, sub_windows, sliding_log, token_bucket, gcra, leaky_bucket, got "z""#,
            r#"r.yaml:4:57: descriptors[0].limits[0].burst: must be a whole number from 0 to 9007199254740992, got "a""#,
            r#"r.yaml:4:69: descriptors[0].limits[0].buckets: must be a whole number from 0 to 4294967295, got "b""#,
            r#"r.yaml:4:78: descriptors[0].limits[0].mode: must be one of meter, queue, got "c""#,
            r#"r.yaml:4:91: descriptors[0].limits[0].calendar: must be an IANA time zone such as UTC or Europe/Berlin, got "d""#,
            r#"r.yaml:4:104: descriptors[0].limits[0].replaces: must be a list, got "e""#,
            "r.yaml:4:113: descriptors[0].limits[0].name: must be text, got a list",
        ],
    ),
    (
        "requests: 1, per: 1d, calendar: Mars",
        &[
            r#"r.yaml:4:33: descriptors[0].limits[0].per: must be one of day, week, month, year where calendar is set, got "1d""#,
            r#"r.yaml:4:47: descriptors[0].limits[0].calendar: must be an IANA time zone such as UTC or Europe/Berlin, got "Mars""#,
            "r.yaml:4:47: descriptors[0].limits[0].calendar: calendar windows need algorithm fixed_window, got sliding_window: only its windows have a beginning",
        ],
    ),
];

#[test]
fn a_wrong_item_of_limits_is_told_at_its_place() {
    expect_problems(limit, ITEMS);
}

const LIMITS: Table = &[
    (
        "limits: {requests: 1, per: second}",
        &["r.yaml:4:13: descriptors[0].limits: must be a list, got a mapping"],
    ),
    (
        "limits: [5]",
        &[
            "r.yaml:4:14: descriptors[0].limits[0]: must be a mapping, got 5; its fields: name, algorithm, requests, per, burst, buckets, mode, calendar, replaces",
        ],
    ),
    (
        "limits: [{name: x, requests: 1, per: second, replaces: [{name: x}]}]",
        &[
            r#"r.yaml:4:61: descriptors[0].limits[0].replaces[0]: a limit cannot replace itself; "x" is its own name"#,
        ],
    ),
    (
        "limits: [{name: n, requests: 1, per: day}, {name: n, requests: 2, per: hour}, {name: n, requests: 2, per: week}]",
        &[
            r#"r.yaml:4:48: descriptors[0].limits[1]: the limit on line 4 is called "n" too; give each its own name"#,
            r#"r.yaml:4:83: descriptors[0].limits[2]: the limit on line 4 is called "n" too; give each its own name"#,
        ],
    ),
];

#[test]
fn wrong_limits_are_told_at_their_place() {
    expect_problems(field, LIMITS);
}

const SAME_NAMES: Table = &[(
    r"
        key: a
        limits:
          - {requests: 1, per: minute}
          - {requests: 2, per: 60s}
        ",
    &[
        r#"r.yaml:6:9: descriptors[0].limits[1]: the limit on line 5 is called "minute" too; give each its own name"#,
    ],
)];

#[test]
fn limits_with_one_name_are_told() {
    expect_problems(rule, SAME_NAMES);
}
