//! Tenants, tiers and overrides.

use serde_json::{Value, json};

use super::{RULES, ask_at, fields, requests, start};
use crate::support::service::{Service, Setup, until};
use crate::support::wall_time;

#[test]
fn an_override_comes_before_the_tier_and_the_tier_before_the_rule() {
    let service = start();
    let ann = json!({ "api_key": "ann" });
    assert_eq!(service.passing(&ann, 100), 5);
    // Raised limits go on from what was counted.
    let put = service.put_quota("ann", &json!({ "tier": "pro" }));
    assert_eq!(
        (&put["quotas"]["default"]["requests_per_unit"], &put["quotas"]["default"]["from"]),
        (&json!(50), &json!("tier"))
    );
    assert_eq!(service.passing(&ann, 100), 45);
    let put = service.put_quota("ann", &json!({ "tier": "pro", "overrides": requests(60)["overrides"] }));
    assert_eq!(put["quotas"]["default"]["from"], "override");
    assert_eq!(service.passing(&ann, 100), 10);
    // Lowered ones too.
    service.put_quota("ann", &requests(7));
    assert_eq!(service.passing(&ann, 100), 0);
    assert_eq!(service.ask("DELETE", "/admin/v1/quotas/ann", &Value::Null).status, 204);
    assert_eq!(service.passing(&ann, 100), 0, "the counter stays");
    assert_eq!(service.passing(&json!({ "api_key": "bob" }), 100), 5, "others are as they were");
}

#[test]
fn an_override_of_an_endpoint_is_its_own() {
    let service = start();
    let orders = json!({ "api_key": "ann", "endpoint": "POST /orders" });
    let over = json!({ "overrides": [
        { "descriptor": "endpoint:POST /orders", "requests_per_unit": 8, "unit": "year" },
        { "descriptor": "region:eu", "requests_per_unit": 4, "unit": "year" },
        { "descriptor": "region", "requests_per_unit": 1, "unit": "year" },
    ] });
    let put = service.put_quota("ann", &over);
    assert_eq!(put["quotas"]["overrides"][0]["descriptor"], "endpoint:POST /orders");
    assert_eq!(service.passing(&orders, 100), 8);
    assert_eq!(service.passing(&json!({ "api_key": "ann", "region": "eu" }), 100), 4);
    assert_eq!(service.passing(&json!({ "api_key": "ann", "region": "us" }), 100), 1);
    assert_eq!(service.passing(&json!({ "api_key": "bob", "region": "us" }), 100), 2);
}

#[test]
fn overrides_begin_and_end_on_time_and_follow_each_other() {
    let service = start();
    let now = wall_time();
    let at = |seconds: i64| (now + jiff::SignedDuration::from_secs(seconds)).to_string();
    let over = json!({ "overrides": [
        { "requests_per_unit": 0, "unit": "year", "effective_at": at(-10), "expires_at": at(6) },
        { "requests_per_unit": 1000, "unit": "year", "effective_at": at(6) },
    ] });
    let put = service.put_quota("ann", &over);
    assert_eq!(put["quotas"]["overrides"][0]["in_effect"], true);
    let ann = json!({ "api_key": "ann" }).to_string();
    assert_eq!(service.check("api", &ann).status, 429);
    until("the second one begins", || service.check("api", &ann).status == 200);
    assert!(wall_time() >= now + jiff::SignedDuration::from_secs(6), "it began too early");
    let shown = service.ask("GET", "/admin/v1/quotas/ann", &Value::Null).json();
    assert_eq!(shown["quotas"]["default"]["requests_per_unit"], 1000);
}

#[test]
fn what_makes_no_sense_is_refused_by_the_name_of_its_field() {
    let service = start();
    let one = |over: Value| json!({ "overrides": [over] });
    let cases = [
        (one(json!({ "requests_per_unit": -1, "unit": "year" })), "overrides[0].requests_per_unit"),
        (
            one(json!({ "requests_per_unit": 9_007_199_254_740_993_i64, "unit": "year" })),
            "overrides[0].requests_per_unit",
        ),
        (one(json!({ "requests_per_unit": 1.5, "unit": "year" })), "overrides[0].requests_per_unit"),
        (one(json!({ "requests_per_unit": 1, "unit": "fortnight" })), "overrides[0].unit"),
        (one(json!({ "requests_per_unit": 1 })), "overrides[0].unit"),
        (one(json!({ "requests_per_unit": 1, "duration": "soon" })), "overrides[0].duration"),
        (one(json!({ "requests_per_unit": 1, "duration": "90s", "unit": "year" })), "overrides[0].duration"),
        (one(json!({ "requests_per_unit": 1, "unit": "year", "burst": 0 })), "overrides[0].burst"),
        (one(json!({ "requests_per_unit": 1, "unit": "year", "burst": 5 })), "overrides[0].burst"),
        (
            one(json!({ "requests_per_unit": 1, "unit": "year", "algorithm": "magic" })),
            "overrides[0].algorithm",
        ),
        (
            one(json!({ "requests_per_unit": 1, "unit": "year", "descriptor": "endpoint:GET /" })),
            "overrides[0].descriptor",
        ),
        (one(json!({ "requests_per_unit": 1, "unit": "year", "domain": "nowhere" })), "overrides[0].domain"),
        (one(json!({ "requests_per_unit": 1, "unit": "year", "limit": "nothing" })), "overrides[0].limit"),
        (
            one(json!({ "requests_per_unit": 1, "unit": "year", "effective_at": "tomorrow" })),
            "overrides[0].effective_at",
        ),
        (
            one(
                json!({ "requests_per_unit": 1, "unit": "year", "effective_at": "2030-01-02T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z" }),
            ),
            "overrides[0].expires_at",
        ),
        (
            json!({ "overrides": [{ "requests_per_unit": 1, "unit": "year" }, { "requests_per_unit": 2, "unit": "year" }] }),
            "overrides[1].effective_at",
        ),
        (json!({ "tier": "gold" }), "tier"),
        (json!({ "tiers": "pro" }), "tiers"),
        (json!({ "tier": "" }), "tier"),
    ];
    for (body, field) in cases {
        let answer = service.ask("PUT", "/admin/v1/quotas/ann", &body);
        assert_eq!(answer.status, 422, "{body}: {}", answer.body);
        assert_eq!(fields(&answer), [field], "{body}: {}", answer.body);
    }
    let answer = ask_at(service.admin, Some(&service.token()), "PUT", "/admin/v1/quotas/ann", &[], "{");
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert_eq!(service.ask("GET", "/admin/v1/quotas/ann", &Value::Null).status, 404, "nothing was kept");
}

#[test]
fn names_may_be_anything_but_empty_and_endless() {
    let service = start();
    let long = "x".repeat(256);
    let names = [
        ("a%2Fb", "a/b"),
        ("gr%C3%BC%C3%9Fe", "grüße"),
        ("%25", "%"),
        ("a%20b%3Fc%23d", "a b?c#d"),
        ("%27%3B%20DROP%20TABLE%20tenants%3B--", "'; DROP TABLE tenants;--"),
        ("..", ".."),
        (&*long, &*long),
    ];
    for (encoded, name) in names {
        let put = service.put_quota(encoded, &requests(1));
        assert_eq!(put["tenant"], name);
        assert_eq!(service.passing(&json!({ "api_key": name }), 5), 1, "{name}");
        let shown = service.ask("GET", &format!("/admin/v1/quotas/{encoded}"), &Value::Null);
        assert_eq!(shown.json()["tenant"], name);
    }
    let list = service.ask("GET", "/admin/v1/quotas", &Value::Null).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(names.len()));
    for bad in [format!("{long}x"), "a%00b".to_owned(), "a%0D%0Ab".to_owned()] {
        let answer = service.ask("PUT", &format!("/admin/v1/quotas/{bad}"), &requests(1));
        assert_eq!(answer.status, 422, "{bad}: {}", answer.body);
    }
    let answer = service.ask("PUT", "/admin/v1/quotas/a%FFb", &requests(1));
    assert!((400..500).contains(&answer.status), "{}", answer.body);
}

#[test]
fn nobody_overwrites_what_they_have_not_seen() {
    let service = start();
    let put = |headers: &[(&str, &str)], count: i64| {
        let (token, body) = (service.token(), requests(count).to_string());
        ask_at(service.admin, Some(&token), "PUT", "/admin/v1/quotas/ann", headers, &body)
    };
    let first = put(&[("if-none-match", "*")], 1);
    assert_eq!(first.status, 200);
    let tag = first.header("etag").expect("a tag").to_owned();
    assert_eq!(put(&[("if-none-match", "*")], 2).status, 412);
    let second = put(&[("if-match", &tag)], 2);
    assert_eq!(second.status, 200);
    assert_eq!(put(&[("if-match", &tag)], 3).status, 412);
    assert_eq!(put(&[("if-match", "\"nonsense\"")], 3).status, 412);
    // The same again is the same.
    let newer = second.header("etag").expect("a tag");
    assert_eq!(put(&[], 2).header("etag"), Some(newer));
    let gone = ask_at(
        service.admin,
        Some(&service.token()),
        "DELETE",
        "/admin/v1/quotas/ann",
        &[("if-match", &tag)],
        "",
    );
    assert_eq!(gone.status, 412);
}

#[test]
fn lists_are_searched_and_turned_page_by_page() {
    let service = start();
    for number in 0..12 {
        let tier = if number % 2 == 0 { "pro" } else { "free" };
        service.put_quota(
            &format!("{}-{number:02}", if number < 6 { "acme" } else { "zeta" }),
            &json!({ "tier": tier }),
        );
    }
    let names = |query: &str| -> Vec<String> {
        let (mut names, mut cursor) = (Vec::new(), String::new());
        loop {
            let page =
                service.ask("GET", &format!("/admin/v1/quotas?{query}&limit=5{cursor}"), &Value::Null).json();
            let items = page["items"].as_array().expect("items");
            names.extend(items.iter().map(|item| item["tenant"].as_str().expect("a name").to_owned()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return names,
            }
        }
    };
    assert_eq!(names("").len(), 12);
    assert_eq!(names("q=acme"), (0..6).map(|number| format!("acme-{number:02}")).collect::<Vec<_>>());
    assert_eq!(names("tier=pro").len(), 6);
    assert_eq!(names("tier=free&q=zeta-"), ["zeta-07", "zeta-09", "zeta-11"]);
    assert_eq!(names("q=nobody").len(), 0);
    for (query, field) in
        [("limit=0", "limit"), ("limit=x", "limit"), ("cursor=x", "cursor"), ("colour=red", "colour")]
    {
        let answer = service.ask("GET", &format!("/admin/v1/quotas?{query}"), &Value::Null);
        assert_eq!(
            (answer.status, fields(&answer)),
            (422, vec![field.to_owned()]),
            "{query}: {}",
            answer.body
        );
    }
}

#[test]
fn tenants_and_counters_outlive_a_restart_and_a_reload() {
    let service = start();
    service.put_quota("ann", &requests(3));
    let ann = json!({ "api_key": "ann" });
    assert_eq!(service.passing(&ann, 2), 2);
    service.change_rules(&RULES.replace("requests: 5", "requests: 6"));
    assert_eq!(service.passing(&ann, 10), 1);
    let service = Setup::after(service.stop()).start();
    assert_eq!(service.passing(&ann, 10), 0);
    assert_eq!(service.passing(&json!({ "api_key": "bob" }), 10), 6);
}

/// Windows by name and by length, also where the length is that of a named one; on every algorithm.
#[test]
fn what_is_shown_of_a_tenant_can_be_put_again() {
    const ALGORITHMS: [&str; 7] = [
        "fixed_window",
        "sliding_window",
        "sub_windows",
        "sliding_log",
        "token_bucket",
        "gcra",
        "leaky_bucket",
    ];
    let service = Setup::rules(
        "domain: api\ntenant: api_key\ndescriptors:\n  - key: api_key\n    limits:\n      \
         - {name: all, requests: 5, per: minute}\n      \
         - {name: monthly, algorithm: fixed_window, requests: 5, per: month, calendar: Europe/Berlin}\n",
    )
    .start();
    let units = ["second", "minute", "hour", "day", "week", "month", "year"].map(|unit| ("unit", unit));
    let lengths =
        ["1s", "60s", "1m", "90s", "250ms", "1500us", "1h", "60m", "1h30m", "24h", "1d", "7d", "30d", "365d"]
            .map(|length| ("duration", length));
    let windows = || units.into_iter().chain(lengths).chain([("duration", "hour")]);
    let cases = windows().flat_map(|window| ALGORITHMS.map(|algorithm| ("all", window, Some(algorithm))));
    let calendars =
        units[3..].iter().filter(|(_, unit)| *unit != "hour").map(|window| ("monthly", *window, None));
    for (limit, (field, window), algorithm) in cases.chain(calendars) {
        let case = format!("{limit} {field} {window} {algorithm:?}");
        let mut put = json!({ "limit": limit, "requests_per_unit": 3 });
        put[field] = json!(window);
        if let Some(algorithm) = algorithm {
            put["algorithm"] = json!(algorithm);
        }
        let answer = service.ask("PUT", "/admin/v1/quotas/ann", &json!({ "overrides": [put] }));
        // Not every length can be divided.
        if algorithm == Some("sub_windows") && answer.status == 422 {
            continue;
        }
        assert_eq!(answer.status, 200, "{case}: {}", answer.body);
        let shown = service.ask("GET", "/admin/v1/quotas/ann", &Value::Null).json();
        let mut again = shown["quotas"]["overrides"].clone();
        again[0].as_object_mut().expect("an override").remove("in_effect");
        let body = json!({ "tier": shown["tier"], "overrides": again });
        let second = service.put_quota("ann", &body);
        assert_eq!(second["revision"], shown["revision"], "{case}: {body}");
        assert_eq!(second["quotas"]["overrides"], shown["quotas"]["overrides"], "{case}");
    }
}

#[test]
fn nodes_count_the_same_tenants_whether_they_loaded_or_heard_of_them() {
    let service = start();
    service.put_quota("ann", &requests(1));
    service.put_quota("bob", &json!({ "tier": "pro" }));
    service.put_quota("nothing", &json!({}));
    let later = json!({ "requests_per_unit": 1, "unit": "year", "effective_at": "2199-01-01T00:00:00Z" });
    service.put_quota("later", &json!({ "overrides": [later] }));
    let has_two = |service: &Service| {
        let metrics = crate::support::service::get(service.admin, "/metrics").body;
        assert!(metrics.contains("\nratelimit_tenants 2\n"), "{metrics}");
    };
    has_two(&service);
    has_two(&Setup::after(service.stop()).start());
}

#[test]
fn the_tenants_own_key_is_its_default() {
    let service = start();
    for descriptor in ["api_key", "api_key:ann", "default", ""] {
        let put = json!({ "descriptor": descriptor, "requests_per_unit": 9, "unit": "year" });
        let shown = service.put_quota("ann", &json!({ "overrides": [put] }));
        assert_eq!(shown["quotas"]["overrides"][0]["descriptor"], "default", "{descriptor}");
        assert_eq!(shown["quotas"]["default"]["requests_per_unit"], 9);
    }
    let other =
        json!({ "overrides": [{ "descriptor": "api_key:bob", "requests_per_unit": 9, "unit": "year" }] });
    assert_eq!(service.ask("PUT", "/admin/v1/quotas/ann", &other).status, 422);
}
