//! Per entry: the exact value, then wildcards in file order, then the key alone.

use super::expect_rules;
use crate::support::limiter;

#[test]
fn the_exact_value_goes_before_wildcards_and_those_before_the_key_alone() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - {key: path, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: path, value: /api/*, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: path, value: '*/orders', rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: path, value: /api/users, rate_limit: {unit: minute, requests_per_unit: 9}}
",
    );
    expect_rules(
        &limiter,
        &[
            (&[("path", "/api/users")], "path=/api/users"),
            (&[("path", "/api/user")], "path=/api/*"),
            (&[("path", "/api/users/5")], "path=/api/*"),
            (&[("path", "/api/")], "path=/api/*"),
            // Both fit; the first in the file is taken.
            (&[("path", "/api/orders")], "path=/api/*"),
            (&[("path", "/shop/orders")], "path=*/orders"),
            (&[("path", "/orders")], "path=*/orders"),
            (&[("path", "/api")], "path"),
            (&[("path", "")], "path"),
            (&[("path", "/API/users")], "path"),
        ],
    );
}

#[test]
fn wildcards_are_tried_in_file_order_however_narrow() {
    for (first, second) in [("*", "a*"), ("a*", "*"), ("a*", "*c"), ("*c", "a*")] {
        let rule = |value: &str| {
            format!("  - {{key: k, value: '{value}', rate_limit: {{unit: minute, requests_per_unit: 9}}}}\n")
        };
        let text = format!("domain: d\ndescriptors:\n{}{}", rule(first), rule(second));
        let (limiter, _) = limiter(&text);
        expect_rules(&limiter, &[(&[("k", "abc")], &format!("k={first}"))]);
    }
}

#[test]
fn a_star_stands_for_any_text_wherever_it_is() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - {key: k, value: GET /*/items/*/parts, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: k, value: '*-*', rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: k, value: x**, rate_limit: {unit: minute, requests_per_unit: 9}}
",
    );
    let parts = "k=GET /*/items/*/parts";
    expect_rules(
        &limiter,
        &[
            (&[("k", "GET /v1/items/7/parts")], parts),
            (&[("k", "GET //items//parts")], parts),
            (&[("k", "GET /v1/items/7/items/8/parts")], parts),
            (&[("k", "GET /v1/items/parts")], ""),
            (&[("k", "GET /v1/items/7/parts/1")], ""),
            (&[("k", "a-b")], "k=*-*"),
            (&[("k", "-")], "k=*-*"),
            (&[("k", "x")], "k=x**"),
            (&[("k", "xyz")], "k=x**"),
            (&[("k", "x-z")], "k=*-*"),
            (&[("k", "yx")], ""),
        ],
    );
}

#[test]
fn a_rule_without_a_value_and_one_with_an_empty_value_are_the_same() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - {key: k, value: '', rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: l, value: '*', rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: m, value: x, rate_limit: {unit: minute, requests_per_unit: 9}}
",
    );
    expect_rules(
        &limiter,
        &[
            (&[("k", "")], "k"),
            (&[("k", "any")], "k"),
            (&[("l", "")], "l=*"),
            (&[("m", "")], ""),
            (&[("m", "x")], "m=x"),
        ],
    );
}

#[test]
fn keys_match_exactly() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 9}}
",
    );
    expect_rules(
        &limiter,
        &[
            (&[("remote_address", "v")], "remote_address"),
            (&[("remote_addresS", "v")], ""),
            (&[("Remote_address", "v")], ""),
            (&[("remote-address", "v")], ""),
            (&[("remote_address ", "v")], ""),
            (&[("remote", "v")], ""),
            (&[("k", "v")], "k"),
            (&[("", "v")], ""),
        ],
    );
}
