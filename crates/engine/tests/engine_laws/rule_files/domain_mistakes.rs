//! What is wrong with the top of a file.

use super::{Table, expect_problems, file};

const TOPS: Table = &[
    ("descriptors: []", &["r.yaml:1:1: domain: missing; every rule file names its domain: `domain: NAME`"]),
    ("domain:", &["r.yaml:1:1: domain: missing; every rule file names its domain: `domain: NAME`"]),
    (
        r#"domain: """#,
        &["r.yaml:1:9: domain: must not be empty; every rule file names its domain: `domain: NAME`"],
    ),
    ("domain: [a]", &["r.yaml:1:9: domain: must be text, got a list"]),
    (
        "- domain: a",
        &[
            "r.yaml:1:1: must be a mapping, got a list; its fields: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth",
        ],
    ),
    (
        "just text",
        &[
            r#"r.yaml:1:1: must be a mapping, got "just text"; its fields: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth"#,
        ],
    ),
    (
        r"
        domain: d
        descriptors: {key: a}
        ",
        &["r.yaml:2:14: descriptors: must be a list, got a mapping"],
    ),
    (
        r"
        domain: d
        descriptors:
          - a
          - [b]
          -
        ",
        &[
            r#"r.yaml:3:5: descriptors[0]: must be a mapping, got "a"; its fields: key, value, name, rate_limit, limits, tiers, concurrency, on_store_error, consistency, enforce_percent, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, hide_keys, warn_at, metadata"#,
            "r.yaml:4:5: descriptors[1]: must be a mapping, got a list; its fields: key, value, name, rate_limit, limits, tiers, concurrency, on_store_error, consistency, enforce_percent, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, hide_keys, warn_at, metadata",
            "r.yaml:5:4: descriptors[2]: must be a mapping, got nothing; its fields: key, value, name, rate_limit, limits, tiers, concurrency, on_store_error, consistency, enforce_percent, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, hide_keys, warn_at, metadata",
        ],
    ),
    (
        r"
        domain: d
        descriptorz: []
        ",
        &[
            "r.yaml:2:1: descriptorz: unknown field; allowed: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth; did you mean descriptors?",
        ],
    ),
    (
        r"
        domain: d
        limit: 5
        ",
        &[
            "r.yaml:2:1: limit: unknown field; allowed: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth",
        ],
    ),
    (
        r"
        domain: d
        Domain: e
        ",
        &[
            "r.yaml:2:1: Domain: unknown field; allowed: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth; did you mean domain?",
        ],
    ),
    (
        r#"
        domain: d
        0.25: x
        "": y
        "a b": z
        "#,
        &[
            r#"r.yaml:2:1: "0.25": unknown field; allowed: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth"#,
            r#"r.yaml:3:1: "": unknown field; allowed: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth"#,
            r#"r.yaml:4:1: "a b": unknown field; allowed: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth"#,
        ],
    ),
    (
        r"
        domain: d
        hierarchical: 1
        ",
        &["r.yaml:2:15: hierarchical: must be true or false, got 1"],
    ),
    (
        r#"
        domain: d
        hierarchical: "true"
        "#,
        &[r#"r.yaml:2:15: hierarchical: must be true or false, got "true"; remove the quotes"#],
    ),
    (
        r#"
        domain: d
        tenant: ""
        "#,
        &[
            "r.yaml:2:9: tenant: must not be empty; name the key of the entry that names the tenant, or leave it out",
        ],
    ),
    (
        r"
        domain: d
        tenant: [a]
        ",
        &["r.yaml:2:9: tenant: must be text, got a list"],
    ),
    (
        r"
        domain: d
        forward_auth: {}
        ",
        &[
            "r.yaml:2:15: forward_auth.descriptors: missing; list the descriptors to ask about, each a list of entries",
        ],
    ),
    (
        r"
        domain: d
        forward_auth: { descriptors: [[{ key: p, from: path }]] }
        ",
        &[
            "r.yaml:2:15: forward_auth.proxy: missing; name the proxy: nginx, traefik or caddy; each has its own headers for method, path and host",
        ],
    ),
    (
        r"
        domain: d
        forward_auth: { deny_status: 200, descriptors: [] }
        ",
        &[
            "r.yaml:2:30: forward_auth.deny_status: must be a whole number from 400 to 599, got 200",
            "r.yaml:2:48: forward_auth.descriptors: must not be empty; list the descriptors to ask about, each a list of entries",
        ],
    ),
    (
        r"
        domain: d
        forward_auth:
          proxy: apache
          descriptors:
            - []
            - [{ key: a }]
            - [{ key: a, header: x, from: path }]
            - [{ key: a, from: client }]
            - [{ header: x y }]
        ",
        &[
            r#"r.yaml:3:10: forward_auth.proxy: must be one of nginx, traefik, caddy, got "apache""#,
            "r.yaml:5:7: forward_auth.descriptors[0]: must have at least one entry, such as {key: ip, from: client_ip}",
            "r.yaml:6:8: forward_auth.descriptors[1][0].header: missing; say where the value is: header: NAME, or from: client_ip, method, path or host",
            "r.yaml:7:35: forward_auth.descriptors[2][0].from: cannot be combined with header; an entry has one value, remove one of them",
            r#"r.yaml:8:24: forward_auth.descriptors[3][0].from: must be one of client_ip, method, path, host, got "client"; did you mean client_ip?"#,
            "r.yaml:9:8: forward_auth.descriptors[4][0].key: missing; name the entry's key",
            r#"r.yaml:9:18: forward_auth.descriptors[4][0].header: must be the name of a header such as x-api-key, got "x y""#,
        ],
    ),
    (
        r"
        domain: d
        inline_limits: 5
        ",
        &["r.yaml:2:16: inline_limits: must be a mapping, got 5; its fields: max"],
    ),
    (
        r"
        domain: d
        inline_limits: {}
        ",
        &["r.yaml:2:16: inline_limits.max: missing; say how many distinct limits requests may bring"],
    ),
    (
        r"
        domain: d
        inline_limits: {max: 0}
        ",
        &["r.yaml:2:22: inline_limits.max: must be a whole number from 1 to 1000000, got 0"],
    ),
    (
        r"
        domain: d
        inline_limits: {max: 1000001}
        ",
        &["r.yaml:2:22: inline_limits.max: must be a whole number from 1 to 1000000, got 1000001"],
    ),
    (
        r"
        domain: d
        inline_limits: {maximum: 5}
        ",
        &[
            "r.yaml:2:16: inline_limits.max: missing; say how many distinct limits requests may bring",
            "r.yaml:2:17: inline_limits.maximum: unknown field; allowed: max; did you mean max?",
        ],
    ),
    (
        r"
        domain: d
        tenant: k
        tenants: {acme: gold}
        ",
        &[
            r#"r.yaml:3:17: tenants.acme: no rule has a tier "gold"; no rule has any; add it to the tiers of a rule"#,
        ],
    ),
    (
        r"
        domain: d
        tenant: k
        tenants: [acme]
        ",
        &["r.yaml:3:10: tenants: must be a mapping, got a list"],
    ),
    (
        r"
        domain: d
        tenant: k
        tenants: {acme: proo, b: pro, c: [pro], acme: pro}
        descriptors:
          - {key: k, limits: [{name: a, requests: 1, per: second}], tiers: {pro: {a: unlimited}, free: }}
        ",
        &[
            r#"r.yaml:3:17: tenants.acme: no rule has a tier "proo"; tiers: free, pro; did you mean pro?"#,
            "r.yaml:3:34: tenants.c: must be text, got a list",
            "r.yaml:3:41: tenants.acme: the same key is on line 3 already; keep one of them",
        ],
    ),
    (
        r"
        domain: d
        tenants: {acme: pro}
        descriptors:
          - {key: k, limits: [{name: a, requests: 1, per: second}], tiers: {pro: {a: unlimited}}}
        ",
        &[
            "r.yaml:2:10: tenants: needs `tenant` at the top of the file: the key of the entry that names the tenant",
            "r.yaml:4:68: descriptors[0].tiers: needs `tenant` at the top of the file: the key of the entry that names the tenant",
        ],
    ),
    (
        r"
        domain: d
        domain: e
        ",
        &["r.yaml:2:1: domain: the same key is on line 1 already; keep one of them"],
    ),
    (
        "---",
        &[
            "r.yaml:1:4: must be a mapping, got nothing; its fields: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth",
        ],
    ),
    (
        r"
        domain: d
        tenant: k
        tenants: {acme: }
        ",
        &["r.yaml:3:15: tenants.acme: must be text, got nothing"],
    ),
    (
        r"
        domain: a
        domain: [b]
        ",
        &["r.yaml:2:1: domain: the same key is on line 1 already; keep one of them"],
    ),
    (
        r"
        domain: d
        tenant: k
        tenants:
          acme: pro
          acme: gold
        descriptors:
          - {key: k, tiers: {pro: , gold: }}
        ",
        &["r.yaml:5:3: tenants.acme: the same key is on line 4 already; keep one of them"],
    ),
];

#[test]
fn a_wrong_top_is_told_at_its_place() {
    expect_problems(file, TOPS);
}
