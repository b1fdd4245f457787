//! The keys that reach the server.

use tidegate_load::payload::{Check, EnvoyRateLimit};
use tidegate_load::{Keys, Plan};

use crate::server::{Reply, Server, Setup};
use crate::{drive, plan_of};

#[test]
fn every_key_of_sequential_is_asked_exactly_once() {
    let server = Server::start(Setup::grpc(|_| Reply::grpc(true)));
    let plan = Plan { keys: Keys::Sequential(10_000), ..plan_of(&server.endpoint, 4, 32, 10_000) };
    drive(&plan, &mut EnvoyRateLimit::new("api", "user")).unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 10_000);
    assert!(seen.values().all(|&count| count == 1));
}

#[test]
fn hot_asks_for_one_key() {
    let server = Server::start(Setup::http(|_| Reply::http(200)));
    drive(&plan_of(&server.endpoint, 2, 1, 100), &mut Check::new("localhost", "api", "user")).unwrap();
    assert_eq!(server.seen().into_iter().collect::<Vec<_>>(), [("user-00000000".to_owned(), 100)]);
}

#[test]
fn zipf_reaches_the_server_as_drawn() {
    let server = Server::start(Setup::grpc(|_| Reply::grpc(true)));
    let keys = Keys::Zipf { n: 50, exponent: 1.0 };
    drive(
        &Plan { keys, ..plan_of(&server.endpoint, 4, 32, 50_000) },
        &mut EnvoyRateLimit::new("api", "user"),
    )
    .unwrap();
    let total: f64 = (1..=50).map(|rank| 1.0 / f64::from(rank)).sum();
    for (key, count) in server.seen() {
        let rank = key.strip_prefix("user-").unwrap().parse::<u32>().unwrap() + 1;
        let expected = 50_000.0 / f64::from(rank) / total;
        let difference = f64::from(count as u32) - expected;
        assert!(difference.abs() < 6.0 * expected.sqrt(), "{key}: {count} for {expected}");
    }
}
