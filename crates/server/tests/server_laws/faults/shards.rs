//! Independent servers: one of three is gone.

use tidegate_testkit::redis::{RedisServer, Setup, sharded_url};
use tokio::time::Instant;

use super::client::Source;
use super::load::{Asked, Load, go_on_for};
use super::{A_WHILE, BACK_WITHIN, LIMIT, SHARE, degradation, homes, patient_node};

#[test]
fn the_keys_of_other_shards_are_untouched() {
    let servers = RedisServer::start_many(&Setup::redis(), 3);
    // A killed server refuses at once: whoever waits for the others longer is told no later.
    let node = patient_node(&sharded_url(&servers));
    let all: Vec<&RedisServer> = servers.iter().collect();
    let values = homes::values(&node, &all, "open", 2);
    let asked: Vec<Asked> = ["open", "closed", "tight"]
        .into_iter()
        .flat_map(|key| values.iter().flatten().map(move |value| (key, *value)))
        .collect();
    let load = Load::on(&node, &asked).beside(&servers);
    go_on_for(A_WHILE);
    servers[1].kill();
    let killed = Instant::now();
    go_on_for(A_WHILE);
    assert_eq!(degradation(&node), 1, "some servers are away");
    let ended = Instant::now();
    servers[1].restart();
    let load = load.beside([&servers[1]]);
    let back = Instant::now();
    go_on_for(A_WHILE);
    let notes = load.stop();
    notes.assert_calm();
    // Where the counters of `open` are was looked up; those of other keys are somewhere else.
    let lost = notes.only(|seen| values[1].contains(&seen.value) && seen.key == "open");
    let kept = notes.only(|seen| !values[1].contains(&seen.value) && seen.key == "open");
    lost.assert_policies(killed, ended);
    lost.assert_back(back, BACK_WITHIN);
    kept.assert_by_store();
    let restarted = 2 * LIMIT;
    for value in values.iter().flatten() {
        let tight = notes.only(|seen| seen.value == *value);
        assert!(tight.admitted("tight", Source::Redis) <= restarted);
        assert!(tight.admitted("tight", Source::Fallback) <= SHARE);
    }
}
