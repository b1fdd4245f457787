//! What is wrong with tiers.

use super::{Table, expect_problems, field, file};

const TIERS: Table = &[
    (
        r"
        domain: d
        tenant: a
        descriptors:
          - key: a
            limits: [{name: steady, requests: 1, per: second}]
            tiers:
              pro: {stedy: unlimited}
              gold: {steady: 5}
              silver: {steady: {}}
              bronze: {steady: {request: 5}}
              tin: {steady: {requests: x, burst: 5, per: z, algorithm: y}}
              iron: {steady: {burst: 5}}
              lead: [steady]
              zinc: {steady: {algorithm: sliding_log, requests: 2000000}}
              pro: {}
        ",
        &[
            "r.yaml:7:13: descriptors[0].tiers.pro.stedy: the rule has no limit of that name; limits: steady; did you mean steady?",
            "r.yaml:8:22: descriptors[0].tiers.gold.steady: must be unlimited or a mapping with requests, per, burst, algorithm, got 5",
            "r.yaml:9:24: descriptors[0].tiers.silver.steady: changes nothing; give requests, per, burst, algorithm, or write unlimited",
            "r.yaml:10:25: descriptors[0].tiers.bronze.steady.request: unknown field; allowed: requests, per, burst, algorithm; did you mean requests?",
            r#"r.yaml:11:32: descriptors[0].tiers.tin.steady.requests: must be a whole number from 0 to 9007199254740992, got "x""#,
            r#"r.yaml:11:50: descriptors[0].tiers.tin.steady.per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "z""#,
            r#"r.yaml:11:64: descriptors[0].tiers.tin.steady.algorithm: must be one of fixed_window, sliding_window, sub_windows, sliding_log, token_bucket, gcra, leaky_bucket, got "y""#,
            "r.yaml:12:30: descriptors[0].tiers.iron.steady.burst: burst belongs to token_bucket, gcra and leaky_bucket, but the algorithm here is sliding_window; set algorithm or remove burst",
            "r.yaml:13:13: descriptors[0].tiers.lead: must be a mapping, got a list",
            "r.yaml:14:57: descriptors[0].tiers.zinc.steady.requests: sliding_log keeps one entry per request, so it allows at most 1000000, got 2000000; use sub_windows for large counts",
            "r.yaml:15:7: descriptors[0].tiers.pro: the same key is on line 7 already; keep one of them",
        ],
    ),
    (
        r"
        domain: d
        tenant: a
        descriptors:
          - key: a
            tiers: {pro: {x: unlimited}}
        ",
        &["r.yaml:5:19: descriptors[0].tiers.pro.x: the rule has no limits; add one, or remove the tier's"],
    ),
    (
        r"
        domain: d
        tenant: a
        descriptors:
          - key: a
            limits: [{name: c, algorithm: fixed_window, requests: 1, per: day, calendar: UTC}]
            tiers: {pro: {c: {per: 90s}}}
        ",
        &[
            r#"r.yaml:6:28: descriptors[0].tiers.pro.c.per: must be one of day, week, month, year where calendar is set, got "90s""#,
        ],
    ),
];

#[test]
fn a_wrong_tier_is_told_at_its_place() {
    expect_problems(file, TIERS);
}

const NO_TENANT: Table = &[(
    "tiers: {pro: {x: unlimited}}",
    &[
        "r.yaml:4:12: descriptors[0].tiers: needs `tenant` at the top of the file: the key of the entry that names the tenant",
        "r.yaml:4:19: descriptors[0].tiers.pro.x: the rule has no limits; add one, or remove the tier's",
    ],
)];

#[test]
fn tiers_need_to_know_whose_they_are() {
    expect_problems(field, NO_TENANT);
}

/// What is wrong with a limit is told once, not again for each tier.
const FOLLOW_UPS: Table = &[
    (
        r"
        domain: d
        tenant: a
        descriptors:
          - key: a
            limits: [{requests: 1, per: fortnight}]
            tiers: {pro: {hour: unlimited}, gold: {day: {requests: 5}}}
        ",
        &[
            r#"r.yaml:5:33: descriptors[0].limits[0].per: must be one of second, minute, hour, day, week, month, year, or a duration such as 250ms, 90s or 1h30m, got "fortnight""#,
        ],
    ),
    (
        r"
        domain: d
        tenant: a
        descriptors:
          - key: a
            limits: [{name: x, requests: 1, per: second, burst: 5}]
            tiers: {pro: {x: {requests: 2}}, gold: {x: {per: minute}}}
        ",
        &[
            "r.yaml:5:57: descriptors[0].limits[0].burst: burst belongs to token_bucket, gcra and leaky_bucket, but the algorithm here is sliding_window; set algorithm or remove burst",
        ],
    ),
    (
        r"
        domain: d
        tenant: a
        descriptors:
          - {key: a, rate_limit: 5, tiers: {pro: {x: {requests: 2}}}}
        ",
        &[
            "r.yaml:4:26: descriptors[0].rate_limit: must be a mapping, got 5; its fields: unit, requests_per_unit, unlimited, name, replaces, algorithm, burst, buckets, mode, calendar",
        ],
    ),
];

#[test]
fn tiers_do_not_repeat_the_mistakes_of_limits() {
    expect_problems(file, FOLLOW_UPS);
}
