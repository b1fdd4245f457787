//! Every field, and every spelling of its values, that a file may have.

use super::{file, limit, load, rule};

/// Each text loads, and what it loads as contains the fragment.
fn expect(whole: fn(&str) -> String, table: &[(&str, &str)]) {
    for (text, fragment) in table {
        let domain = load(&whole(text)).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        let found = format!("{domain:?}");
        assert!(found.contains(fragment), "{text}\nfound:    {found}\nexpected: {fragment}");
    }
}

#[test]
fn the_top_of_a_file() {
    expect(
        file,
        &[
            ("domain: api", r#"name: "api", tenant: None, hierarchical: false, tenants: {}"#),
            ("domain: api", r#"inline_limits: None, forward_auth: None, rules: [], source: "r.yaml""#),
            ("domain: 123", r#"name: "123""#),
            ("domain: !!str 5", r#"name: "5""#),
            ("{domain: d, descriptors: }", "rules: []"),
            ("{domain: d, descriptors: []}", "rules: []"),
            ("{domain: d, descriptors: ~}", "rules: []"),
            ("{domain: d, tenant: api_key}", r#"tenant: Some("api_key")"#),
            ("{domain: d, hierarchical: true}", "hierarchical: true"),
            ("{domain: d, inline_limits: {max: 1}}", "inline_limits: Some(1)"),
            ("{domain: d, inline_limits: {max: 1_000_000}}", "inline_limits: Some(1000000)"),
            ("{domain: d, tenant: k, tenants: {}}", "tenants: {}"),
            (
                "{domain: d, forward_auth: {descriptors: [[{key: ip, from: client_ip}]]}}",
                r#"forward_auth: Some(ForwardAuth { proxy: None, deny_status: 429, descriptors: [[MappedEntry { key: "ip", from: ClientIp, default: None }]] })"#,
            ),
            (
                "{domain: d, forward_auth: {proxy: caddy, deny_status: 403, descriptors: [[{key: k, header: X-Key, default: none}, {key: p, from: path}]]}}",
                r#"proxy: Some(Caddy), deny_status: 403, descriptors: [[MappedEntry { key: "k", from: Header("x-key"), default: Some("none") }, MappedEntry { key: "p", from: Path"#,
            ),
            (
                "
                tenants: {acme: free, 42: pro}
                domain: d
                tenant: k
                descriptors: [{key: k, tiers: {free: , pro: {}}}]
                ",
                r#"tenants: {"42": "pro", "acme": "free"}"#,
            ),
        ],
    );
}

#[test]
fn text_is_kept_as_it_is_written() {
    expect(
        rule,
        &[
            ("key: a", r#"key: "a", value: None, name: None, limits: [], unlimited: false"#),
            ("{key: a, value: b}", r#"key: "a", value: Some("b")"#),
            ("{key: a, value: 123}", r#"value: Some("123")"#),
            ("{key: a, value: 1.0}", r#"value: Some("1.0")"#),
            ("{key: a, value: 0x1F}", r#"value: Some("0x1F")"#),
            ("{key: a, value: yes}", r#"value: Some("yes")"#),
            ("{key: a, value: true}", r#"value: Some("true")"#),
            ("{key: a, value: 'null'}", r#"value: Some("null")"#),
            (r#"{key: a, value: "*"}"#, r#"value: Some("*")"#),
            ("{key: a, value: GET /x/*/y}", r#"value: Some("GET /x/*/y")"#),
            (r#"{key: "\u00e9"}"#, r#"key: "é""#),
            // Empty and absent are the same, as in envoyproxy/ratelimit.
            (r#"{key: a, value: ""}"#, "value: None"),
            ("{key: a, value: }", "value: None"),
            ("{key: a, value: null}", "value: None"),
            (r#"{key: a, name: "" }"#, "name: None"),
        ],
    );
}

#[test]
fn flags_have_the_spellings_of_go() {
    for word in ["true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON"] {
        expect(rule, &[(&format!("{{key: a, shadow_mode: {word}}}"), "shadow_mode: true")]);
    }
    for word in ["false", "False", "FALSE", "no", "No", "NO", "n", "N", "off", "Off", "OFF", ""] {
        expect(rule, &[(&format!("{{key: a, shadow_mode: {word}}}"), "shadow_mode: false")]);
    }
}

#[test]
fn the_fields_of_a_descriptor() {
    expect(
        rule,
        &[
            ("{key: a, name: n}", r#"name: Some("n")"#),
            ("{key: a, quota_mode: true}", "quota_mode: true"),
            ("{key: a, detailed_metric: true}", "detailed_metric: true"),
            ("{key: a, value_to_metric: true}", "value_to_metric: true"),
            ("{key: a, hide_keys: true}", "hide_keys: true"),
            ("{key: a, warn_at: [100, 80]}", "warn_at: [100, 80]"),
            ("{key: a, value: x*, share_threshold: true}", "share_threshold: true"),
            ("{key: a, share_threshold: false}", "share_threshold: false"),
            ("{key: a}", "enforce_percent: 100, shadow_mode: false"),
            ("{key: a, enforce_percent: 0}", "enforce_percent: 0,"),
            ("{key: a, enforce_percent: 100}", "enforce_percent: 100,"),
            ("{key: a, consistency: exact}", r#"key: "a""#),
            ("{key: a}", "on_store_error: Local"),
            ("{key: a, on_store_error: allow}", "on_store_error: Allow"),
            ("{key: a, on_store_error: deny}", "on_store_error: Deny"),
            ("{key: a, on_store_error: local}", "on_store_error: Local"),
            (
                "{key: a, on_store_error: {first: deny, after: 5s, then: allow}}",
                "on_store_error: Staged { first: Deny, after: 5s, then: Allow }",
            ),
            (
                "{key: a, concurrency: {max: 20, timeout: 1m30s}}",
                "concurrency: Some(Concurrency { max: 20, timeout: 90s })",
            ),
            ("{key: a, rate_limit: , limits: , tiers: , metadata: , concurrency: }", "limits: []"),
            ("{key: a, limits: [], rate_limit: {unlimited: true}}", "unlimited: true"),
            ("{key: a, descriptors: [{key: b}]}", r#"rules: [Rule { key: "b""#),
            ("{key: a, descriptors: }", "rules: [] }]"),
        ],
    );
}

#[test]
fn the_fields_of_a_rate_limit() {
    let units = [("second", 1), ("Minute", 60), ("HOUR", 3_600), ("day", 86_400), ("week", 604_800)];
    for (unit, seconds) in units.into_iter().chain([("month", 2_592_000), ("year", 31_536_000)]) {
        let text = format!("{{key: a, rate_limit: {{unit: {unit}, requests_per_unit: 4294967295}}}}");
        let fragment = format!("requests: 4294967295, window: Period {{ us: {seconds}000000 }}");
        expect(rule, &[(&text, &fragment)]);
    }
    expect(
        rule,
        &[
            ("{key: a, rate_limit: {unit: day, requests_per_unit: 0}}", "requests: 0,"),
            ("{key: a, rate_limit: {unlimited: true}}", "limits: [], unlimited: true"),
            ("{key: a, rate_limit: {unlimited: true, requests_per_unit: 3}}", "unlimited: true"),
            (r#"{key: a, rate_limit: {unlimited: true, unit: ""}}"#, "unlimited: true"),
            ("{key: a, rate_limit: {unlimited: true, unit: unknown}}", "unlimited: true"),
            (
                "{key: a, rate_limit: {unlimited: true, replaces: [{name: x}]}}",
                r#"unlimited: true, replaces: ["x"]"#,
            ),
            (
                "{key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: x}, {name: y}]}}",
                r#"replaces: ["x", "y"] }], unlimited: false, replaces: []"#,
            ),
            // The rule goes by the limit's name, unless it has its own.
            (
                "{key: a, rate_limit: {name: n, unit: day, requests_per_unit: 1}}",
                r#"name: Some("n"), limits: [LimitSpec { name: Some("n")"#,
            ),
            (
                "{key: a, name: own, rate_limit: {name: n, unit: day, requests_per_unit: 1}}",
                r#"name: Some("own"), limits: [LimitSpec { name: Some("n")"#,
            ),
            (
                "{key: a, rate_limit: {unit: day, requests_per_unit: 1, algorithm: leaky_bucket, burst: 7, mode: queue}}",
                "algorithm: Some(LeakyBucket), burst: Some(7), buckets: None, mode: Some(Queue)",
            ),
            (
                "{key: a, rate_limit: {unit: hour, requests_per_unit: 1, algorithm: sub_windows, buckets: 12}}",
                "algorithm: Some(SubWindows), burst: None, buckets: Some(12), mode: None",
            ),
            (
                "{key: a, rate_limit: {unit: MONTH, requests_per_unit: 1, algorithm: fixed_window, calendar: Asia/Tokyo}}",
                "window: Calendar(Calendar(Month, Asia/Tokyo))",
            ),
        ],
    );
}

#[test]
fn names_of_rate_limits_may_be_shared() {
    // As in envoyproxy/ratelimit, where `replaces` then replaces all of them.
    let shared = "{unit: day, requests_per_unit: 1, name: n}";
    let text = format!("key: a\nrate_limit: {shared}\ndescriptors: [{{key: b, rate_limit: {shared}}}]");
    expect(rule, &[(&text, r#"name: Some("n")"#)]);
}

#[test]
fn the_fields_of_a_limit() {
    expect(
        limit,
        &[
            (
                "requests: 1, per: minute",
                "LimitSpec { name: None, requests: 1, window: Period { us: 60000000 }, algorithm: None, \
                 burst: None, buckets: None, mode: None, replaces: [] }",
            ),
            ("requests: 9007199254740992, per: second", "requests: 9007199254740992"),
            (
                "name: n, requests: 1, per: Week",
                r#"name: Some("n"), requests: 1, window: Period { us: 604800000000 }"#,
            ),
            ("requests: 1, per: 250ms", "Period { us: 250000 }"),
            ("requests: 1, per: 90s", "Period { us: 90000000 }"),
            ("requests: 1, per: 1h30m", "Period { us: 5400000000 }"),
            ("requests: 1, per: 1h 30m", "Period { us: 5400000000 }"),
            ("requests: 1, per: 1.5h", "Period { us: 5400000000 }"),
            ("requests: 1, per: 2d", "Period { us: 172800000000 }"),
            ("requests: 1, per: 1w", "Period { us: 604800000000 }"),
            ("requests: 1, per: 1us", "Period { us: 1 }"),
            ("requests: 1, per: 3650d", "Period { us: 315360000000000 }"),
            ("requests: 1, per: day, algorithm: fixed_window", "Some(FixedWindow)"),
            ("requests: 1, per: day, algorithm: sliding_window", "Some(SlidingWindow)"),
            (
                "requests: 1, per: day, algorithm: sub_windows, buckets: 24",
                "Some(SubWindows), burst: None, buckets: Some(24)",
            ),
            ("requests: 1, per: day, algorithm: sliding_log", "Some(SlidingLog)"),
            ("requests: 1, per: day, algorithm: token_bucket, burst: 5", "Some(TokenBucket), burst: Some(5)"),
            ("requests: 1, per: day, algorithm: gcra", "Some(TokenBucket), burst: None"),
            (
                "requests: 1, per: day, algorithm: leaky_bucket, mode: meter",
                "buckets: None, mode: Some(Meter)",
            ),
            (
                "requests: 1, per: day, algorithm: leaky_bucket, mode: queue, burst: 9",
                "burst: Some(9), buckets: None, mode: Some(Queue)",
            ),
            (
                "requests: 1, per: day, algorithm: fixed_window, calendar: Europe/Berlin",
                "Calendar(Calendar(Day, Europe/Berlin))",
            ),
            (
                "requests: 1, per: Year, algorithm: fixed_window, calendar: europe/berlin",
                "Calendar(Calendar(Year, Europe/Berlin))",
            ),
            (
                "requests: 1, per: week, algorithm: fixed_window, calendar: UTC",
                "Calendar(Calendar(Week, UTC))",
            ),
            ("requests: 1, per: day, replaces: [{name: x}]", r#"replaces: ["x"] }]"#),
        ],
    );
}

#[test]
fn rate_limit_and_limits_add_up() {
    let text = "{key: a, rate_limit: {unit: day, requests_per_unit: 1}, limits: [{requests: 2, per: hour}]}";
    expect(rule, &[(text, "requests: 1, window: Period { us: 86400000000 }"), (text, "requests: 2, window")]);
}

#[test]
fn what_tiers_change() {
    let tiers = |change: &str| {
        format!(
            "domain: d\ntenant: k\ndescriptors:\n  - key: k\n    limits:\n      \
             - {{name: steady, requests: 1, per: second, algorithm: token_bucket, burst: 5}}\n      \
             - {{name: daily, requests: 9, per: day, algorithm: fixed_window, calendar: Asia/Tokyo}}\n      \
             - {{requests: 9, per: hour}}\n    \
             tiers: {change}"
        )
    };
    let none = "Change(LimitChange { requests: None, burst: None, window: None, algorithm: None })";
    let changed = |fields: &str, value: &str| {
        none.replace(&format!("{fields}: None"), &format!("{fields}: Some({value})"))
    };
    let table = [
        ("{pro: }", r#"tiers: {"pro": {}}"#.to_owned()),
        ("{pro: {}, free: }", r#"tiers: {"free": {}, "pro": {}}"#.to_owned()),
        ("{pro: {steady: unlimited}}", r#"tiers: {"pro": {"steady": Unlimited}}"#.to_owned()),
        ("{pro: {hour: unlimited}}", r#"tiers: {"pro": {"hour": Unlimited}}"#.to_owned()),
        ("{pro: {steady: {requests: 7}}}", changed("requests", "7")),
        ("{pro: {steady: {burst: 7}}}", changed("burst", "7")),
        ("{pro: {steady: {per: 90s}}}", changed("window", "Period { us: 90000000 }")),
        // Another algorithm does not inherit the burst it has no use for.
        ("{pro: {steady: {algorithm: sliding_log}}}", changed("algorithm", "SlidingLog")),
        // The calendar stays.
        ("{pro: {daily: {per: month}}}", changed("window", "Calendar(Calendar(Month, Asia/Tokyo))")),
    ];
    for (text, fragment) in &table {
        expect(file, &[(&tiers(text), fragment)]);
    }
}

#[test]
fn metadata_becomes_json() {
    let text = r#"
        key: a
        metadata:
          number: 5
          negative: -3
          float: 1.5
          exponent: 1e3
          hexadecimal: 0x1F
          largest: 18446744073709551615
          flag: yes
          nothing:
          text: some text
          quoted: "5"
          identifier: 007
          version: 1.2.3
          date: 2024-01-01
          infinity: inf
          5: five
          list: [1, [x], {y: z}]
        "#;
    let json = r#"metadata: {"number": Number(5), "negative": Number(-3), "float": Number(1.5), "#;
    let more = [
        r#""exponent": Number(1000.0), "hexadecimal": Number(31), "largest": Number(18446744073709551615), "#,
        r#""flag": Bool(true), "nothing": Null, "text": String("some text"), "quoted": String("5"), "#,
        r#""identifier": String("007"), "version": String("1.2.3"), "date": String("2024-01-01"), "#,
        r#""infinity": String("inf"), "5": String("five"), "#,
        r#""list": Array [Number(1), Array [String("x")], Object {"y": String("z")}]}"#,
    ];
    expect(rule, &[(text, &format!("{json}{}", more.concat()))]);
}

#[test]
fn aliases_and_merge_keys_stand_for_what_they_name() {
    let written_out = "
        domain: d
        descriptors:
          - {key: a, rate_limit: {unit: day, requests_per_unit: 1}, shadow_mode: true}
          - {key: b, rate_limit: {unit: day, requests_per_unit: 1}}
          - {key: c, rate_limit: {unit: day, requests_per_unit: 1}, shadow_mode: true, value: v}
          - {key: d, rate_limit: {unit: day, requests_per_unit: 2}}
        ";
    let aliased = "
        domain: d
        descriptors:
          - &a {key: a, rate_limit: &limit {unit: &unit day, requests_per_unit: 1}, shadow_mode: true}
          - {key: b, rate_limit: *limit}
          - {<<: [{value: v, key: not this}, *a], key: c}
          - {key: d, rate_limit: {<<: *limit, requests_per_unit: 2, unit: *unit}}
        ";
    assert_eq!(load(&file(aliased)).unwrap(), load(&file(written_out)).unwrap());
}
