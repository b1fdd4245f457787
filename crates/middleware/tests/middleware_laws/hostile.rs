//! Names and values from anywhere make valid headers and valid JSON.

use http::HeaderValue;
use proptest::prelude::*;
use sfv::{List, Parser};
use tidegate::{Domain, Request, Rule, per_minute};

use crate::support::{EVERY, START, header, headers, json, limiter};

fn hostile() -> impl Strategy<Value = String> {
    let nasty = prop::sample::select(vec![
        "\"", "\\", ",", ";", "%", ":", "#", "\r\n", "\0", "\u{7f}", "ü", "日本", "🦀", "=", " ", "a", "--",
        "\u{202e}", "\t",
    ]);
    prop_oneof![
        prop::collection::vec(nasty, 1..12).prop_map(|parts| parts.concat()),
        ".{1,300}".prop_map(String::from),
    ]
}

fn decoded(name: &str) -> String {
    let mut bytes = name.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
    }
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn hostile_names_and_values_never_break_a_header(
        domain in hostile(), rule in hostile(), limit in hostile(), value in hostile(),
    ) {
        let by_name = Rule::by("k").named(&rule).limit(per_minute(1).named(&limit));
        let built = tidegate::Limiter::builder()
            .domain(Domain::new(&domain).rule(by_name))
            .clock(tidegate::VirtualClock::new())
            .build();
        // The rules refuse some names themselves.
        let Ok(limiter) = built else { return Ok(()) };
        let request = Request::new(&domain, [("k", value.as_str())]);
        for _ in 0..2 {
            let decision = limiter.check_now(&request);
            for (name, value) in headers(EVERY, &request, &decision, START) {
                prop_assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{name}: {value:?}");
                prop_assert!(HeaderValue::from_str(&value).is_ok());
                prop_assert!(value.len() < 600, "{name} has {} bytes", value.len());
                if name == "ratelimit" || name == "ratelimit-policy" {
                    prop_assert_eq!(Parser::new(&value).parse::<List>().unwrap().len(), 1);
                }
            }
            let body = json(&request, &decision);
            prop_assert_eq!(body["decided_by"]["rule"].as_str(), Some(rule.as_str()));
            prop_assert_eq!(body["limits"][0]["name"].as_str(), Some(limit.as_str()));
            if !decision.allowed() {
                let policy = body["violated-policies"][0].as_str().unwrap();
                if policy.len() < 200 {
                    prop_assert_eq!(decoded(policy), format!("{rule}:{limit}"));
                }
            }
        }
    }

    #[test]
    fn no_two_names_run_together(
        one in (hostile(), hostile()), other in (hostile(), hostile()), same_text in any::<bool>(),
    ) {
        // The hardest pairs: one text, cut at two places.
        let (one, other) = if same_text {
            ((format!("{}:{}", one.0, one.1), other.1.clone()), (one.0, format!("{}:{}", one.1, other.1)))
        } else {
            (one, other)
        };
        prop_assume!(one != other);
        let policy = |(rule, limit): &(String, String)| {
            let by = Rule::by("k").named(rule).limit(per_minute(1).named(limit));
            let (limiter, _) = limiter(Domain::new("d").rule(by));
            let request = Request::new("d", [("k", "v")]);
            let found = headers(EVERY, &request, &limiter.check_now(&request), START);
            header(&found, "ratelimit-policy").unwrap().split("\";q=").next().unwrap().to_owned()
        };
        prop_assert_ne!(policy(&one), policy(&other));
    }
}
