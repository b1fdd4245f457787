//! What the headers say is what the decision says.

use proptest::prelude::*;
use sfv::{BareItem, Item, List, ListEntry, Parser};
use tidegate::{Decision, Domain, LimitSpec, Request, Rule, Window, per_minute};
use tidegate_middleware::Headers;

use crate::support::{EVERY, START, any_story, body, header, headers, limiter};

/// The items of a structured field, each with its string.
fn items(value: &str) -> Vec<(String, Item)> {
    let list: List = Parser::new(value).parse().unwrap_or_else(|error| panic!("{value}: {error}"));
    list.into_iter()
        .map(|entry| match entry {
            ListEntry::Item(item) => {
                let name = item.bare_item.as_string().unwrap_or_else(|| panic!("{value}: not strings"));
                (name.as_str().to_owned(), item)
            }
            ListEntry::InnerList(_) => panic!("{value}: not a list of items"),
        })
        .collect()
}

fn integer(item: &Item, key: &str) -> u64 {
    let value = item.params.get(key).and_then(BareItem::as_integer).map(i64::from);
    u64::try_from(value.unwrap_or_else(|| panic!("no {key} in {item:?}"))).unwrap()
}

fn seconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000_000)).unwrap()
}

/// Every limit that is not in shadow has an item in both fields, with its numbers.
fn tells_every_limit(decision: &Decision, found: &[(String, String)]) {
    let told: Vec<_> = decision.limits().filter(|limit| !limit.shadow).collect();
    let policies = items(header(found, "ratelimit-policy").unwrap());
    let left = items(header(found, "ratelimit").unwrap());
    assert_eq!((policies.len(), left.len()), (told.len(), told.len()));
    for ((limit, (name, policy)), (same_name, left)) in told.iter().zip(&policies).zip(&left) {
        assert_eq!(name, same_name);
        assert!(name.starts_with(&format!("{}:{}", limit.rule, limit.name)), "{name}");
        assert_eq!(integer(policy, "q"), limit.limit.requests());
        assert_eq!(integer(policy, "w"), limit.limit.period_us().div_ceil(1_000_000).max(1));
        assert_eq!(integer(left, "r"), limit.remaining);
        assert!(integer(left, "t") <= seconds(limit.reset_after));
        assert!(limit.remaining > 0 || integer(left, "t") > 0, "nothing left, and more at once");
        let key = policy.params.get("pk").and_then(BareItem::as_byte_sequence);
        assert_eq!(key.map(<[u8]>::len), Some(8));
        assert_eq!(left.params.get("pk").and_then(BareItem::as_byte_sequence), key);
    }
    let mut names: Vec<_> = policies.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), policies.len(), "two policies have one name");
}

/// The older families tell the deciding limit, in the same seconds as the newest.
fn families_agree(decision: &Decision, found: &[(String, String)], now_us: u64) {
    let by = decision.decided_by().unwrap();
    let number = |name: &str| header(found, name).unwrap().parse::<u64>().unwrap();
    for family in ["", "x-"] {
        assert_eq!(number(&format!("{family}ratelimit-limit")), by.limit.requests());
        assert_eq!(number(&format!("{family}ratelimit-remaining")), by.remaining);
    }
    let delta = number("ratelimit-reset");
    let left = items(header(found, "ratelimit").unwrap());
    let prefix = format!("{}:{}", by.rule, by.name);
    assert!(left.iter().any(|(name, item)| name.starts_with(&prefix) && integer(item, "t") == delta));
    let at = number("x-ratelimit-reset");
    assert!(at * 1_000_000 >= now_us && at <= now_us.div_ceil(1_000_000) + delta);
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn a_structured_field_parser_reads_the_numbers_of_the_decision(story in any_story()) {
        story.play(|request, decision, now| {
            let found = headers(EVERY, request, decision, now);
            tells_every_limit(decision, &found);
            families_agree(decision, &found, now.0);
        });
    }

    #[test]
    fn equal_decisions_render_equal_bytes(story in any_story()) {
        // Two limiters: two stores with seeds of their own, as two nodes have.
        let render = || story.play(|request, decision, now| {
            (headers(EVERY, request, decision, now), body(request, decision))
        });
        prop_assert_eq!(render(), render());
    }
}

#[test]
fn each_family_has_its_switch() {
    let (limiter, _) = limiter(Domain::new("d").rule(Rule::by("k").limit(per_minute(1))));
    let request = Request::new("d", [("k", "v")]);
    assert!(limiter.check_now(&request).allowed());
    let denied = limiter.check_now(&request);
    let names = |of: Headers| -> Vec<String> {
        headers(of, &request, &denied, START).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(Headers::NONE), ["retry-after"]);
    assert_eq!(
        names(Headers { ratelimit: true, ..Headers::NONE }),
        ["ratelimit-policy", "ratelimit", "retry-after"]
    );
    assert_eq!(
        names(Headers { draft06: true, ..Headers::NONE }),
        ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"]
    );
    assert_eq!(
        names(Headers { x_ratelimit: true, ..Headers::NONE }),
        ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"]
    );
}

#[test]
fn a_partition_key_tells_keys_apart_and_is_the_same_for_the_same_key() {
    let (limiter, _) = limiter(Domain::new("d").rule(Rule::by("k").limit(per_minute(9))));
    let key = |value: &str| {
        let request = Request::new("d", [("k", value)]);
        let found = headers(EVERY, &request, &limiter.check_now(&request), START);
        let (_, item) = items(header(&found, "ratelimit").unwrap()).remove(0);
        item.params.get("pk").and_then(BareItem::as_byte_sequence).unwrap().to_vec()
    };
    assert_eq!(key("ann"), key("ann"));
    assert_ne!(key("ann"), key("bob"));
}

#[test]
fn a_count_beyond_structured_fields_is_told_as_their_largest() {
    let most = LimitSpec::new(1 << 53, Window::seconds(60)).fixed_window();
    let (limiter, _) = limiter(Domain::new("d").rule(Rule::by("k").limit(most)));
    let request = Request::new("d", [("k", "v")]);
    let found = headers(EVERY, &request, &limiter.check_now(&request), START);
    assert!(header(&found, "ratelimit-policy").unwrap().contains(";q=999999999999999;"));
    items(header(&found, "ratelimit").unwrap());
    assert_eq!(header(&found, "x-ratelimit-limit"), Some("9007199254740992"));
}

#[test]
fn a_request_of_many_descriptors_has_headers_of_bounded_length_and_the_limit_that_decided() {
    let (limiter, _) = limiter(Domain::new("d").rule(Rule::by("k").limit(per_minute(2))));
    let values: Vec<String> = (0..100).map(|index| format!("v{index}")).collect();
    let last = Request::new("d", [("k", "v99")]);
    assert!(limiter.check_now(&last).allowed());
    let first = Request::new("d", [("k", values[0].as_str())]);
    let request = values[1..].iter().fold(first, |request, value| request.and([("k", value.as_str())]));
    let found = headers(Headers::default(), &request, &limiter.check_now(&request), START);
    let left = header(&found, "ratelimit").unwrap();
    assert_eq!(items(left).len(), 33, "32, and the one that decided");
    assert!(left.ends_with(r#", "k:minute#100";r=0;t=60"#), "{left}");
}
