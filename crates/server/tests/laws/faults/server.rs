//! One server: killed, hung, forgetful, full, slow, cut off.

use std::time::Duration;

use tidegate_testkit::redis::RedisServer;
use tokio::time::Instant;

use super::client::Source;
use super::load::{Load, go_on_for};
use super::{EVERY_POLICY, LIMIT, SHARE, node};

/// The store decides again so soon after it is back.
const BACK_WITHIN: Duration = Duration::from_secs(1);
/// Long enough for the breaker to open and for every policy to show.
const A_WHILE: Duration = Duration::from_millis(2_000);

#[test]
fn a_killed_server_is_a_matter_of_policy_until_it_is_back() {
    let server = RedisServer::start();
    let node = node(&server.url());
    let load = Load::on(&node, &EVERY_POLICY);
    go_on_for(A_WHILE);
    server.kill();
    let killed = Instant::now();
    go_on_for(A_WHILE);
    let ended = Instant::now();
    server.restart();
    let back = Instant::now();
    go_on_for(A_WHILE);
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_policies(killed, ended);
    notes.assert_back(back, BACK_WITHIN);
    eprintln!("calls {}, back {:?}", notes.seen.len(), notes.back_after(back));
    // It keeps nothing on disk, and so starts anew.
    assert!(notes.admitted("tight", Source::Redis) <= 2 * LIMIT);
    assert_eq!(notes.admitted("tight", Source::Fallback), SHARE);
}
