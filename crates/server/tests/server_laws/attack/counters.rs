//! Whoever fills what all share: reservations, limits of requests, counters.

use serde_json::{Value, json};

use super::arena::{Arena, RULES, either};
use crate::support::service::{Answer, Setup, post};

fn ask(arena: &Arena, path: &str, body: &Value) -> Answer {
    post(arena.service.http, path, &body.to_string())
}

/// The statuses of a batch.
fn statuses(answer: &Answer) -> Vec<u64> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer
        .json()
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["status"].as_u64().expect("a status"))
        .collect()
}

#[test]
fn reservations_of_one_client() {
    let mut arena = Arena::new("reservations", Setup::rules(RULES));
    let rounds = either(5, 100);
    arena.tries(format!("{rounds}00 reservations of one user, and as many that no limit applies to"));
    let mut refused = 0;
    for descriptor in [json!({"user": "eve"}), json!({"nobody": "eve"})] {
        let one = json!({"domain": "api", "descriptor": descriptor, "cost": 0, "ttl_ms": 86_400_000});
        for _ in 0..rounds {
            for _ in 0..100 {
                let answer = ask(&arena, "/v1/reserve", &one);
                assert!([200, 403, 503].contains(&answer.status), "{}", answer.body);
                refused += usize::from(answer.status != 200);
            }
        }
        arena.look();
    }
    let good = json!({"domain": "api", "descriptor": {"user": "good"}, "cost": 1});
    let answer = ask(&arena, "/v1/reserve", &good);
    assert_eq!(answer.status, 200, "others still can: {}", answer.body);
    arena.held(&format!("{refused} refused to that user; others reserve"));
}

#[test]
fn limits_that_one_client_brings() {
    let mut arena = Arena::new("inline limits", Setup::rules(RULES));
    let rounds: u32 = either(3, 50);
    arena.tries(format!("{rounds},000 different limits of a dozen routes, in batches, at cost 0 and 1"));
    let mut refused = 0;
    for round in 0..rounds {
        let one = |number: u32| {
            let limit = json!({"requests": 10 + number + 1000 * round, "per": "hour"});
            let route = format!("eve-{}", round % 12);
            json!({"domain": "api", "descriptor": {"route": route}, "limits": [limit], "cost": number % 2})
        };
        let batch: Vec<_> = (0..1000).map(one).collect();
        let answer = ask(&arena, "/v1/check", &Value::Array(batch));
        refused += statuses(&answer).iter().filter(|status| **status == 403).count();
        arena.look();
    }
    assert!(refused > 0, "one route cannot have them all");
    let good = json!({
        "domain": "api", "descriptor": {"route": "good"}, "limits": [{"requests": 5, "per": "minute"}]
    });
    let answer = ask(&arena, "/v1/check", &good);
    assert_eq!(answer.status, 200, "others still can: {}", answer.body);
    arena.held(&format!("{refused} refused to these routes; others bring theirs"));
}

/// Rounds of keys that live shortly and of keys that live long must not free one that is at its limit.
#[test]
fn keys_that_are_made_up_to_displace_others() {
    let mut arena = Arena::new("eviction", Setup::rules(RULES).with("memory.max_keys", "20000"));
    let rounds: u32 = either(4, 60);
    arena.tries(format!("{rounds} rounds of 10,000 made-up keys where 20,000 fit"));
    let once = |name: String| json!({"domain": "api", "descriptor": {"once": name}});
    let victims: Vec<_> = (0..200).map(|number| once(format!("victim-{number}"))).collect();
    let spent = ask(&arena, "/v1/check", &Value::Array(victims.clone()));
    assert!(statuses(&spent).iter().all(|status| *status == 200));
    for round in 0..rounds {
        for part in 0..10 {
            let flood = |number: u32| {
                let name = format!("{round}-{part}-{number}");
                let short = json!({"requests": 1, "per": "second", "algorithm": "fixed_window"});
                match round % 2 {
                    0 => json!({"domain": "api", "descriptor": {"route": name}, "limits": [short]}),
                    _ => once(name),
                }
            };
            ask(&arena, "/v1/check", &Value::Array((0..1000).map(flood).collect()));
        }
        arena.look();
    }
    let again = ask(&arena, "/v1/check", &Value::Array(victims));
    let freed = statuses(&again).iter().filter(|status| **status == 200).count();
    assert_eq!(freed, 0, "keys at their limits were forgotten");
    arena.held("0 of 200 keys at their limits are freed");
}
