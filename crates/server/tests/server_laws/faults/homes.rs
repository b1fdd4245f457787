//! Which server has which counter, found out by looking.

use tidegate_testkit::redis::RedisServer;

use crate::support::service::Service;

/// The place among the servers, all primaries, of the counter that a value of a key has. They forget what
/// they had.
fn home_of(node: &Service, servers: &[&RedisServer], key: &str, value: u32) -> usize {
    for server in servers {
        server.command(&["FLUSHALL"]);
    }
    super::decided_by_store(node, &format!(r#"{{"{key}":"v{value}"}}"#));
    let has_it = |server: &&RedisServer| {
        // Counters of sliding windows, and not the list of nodes.
        !server.command(&["KEYS", "*:s*"]).items().is_empty()
    };
    servers.iter().position(has_it).expect("some server has the counter")
}

/// So many values of a key whose counters are on each server.
pub(super) fn values(node: &Service, servers: &[&RedisServer], key: &str, each: usize) -> Vec<Vec<u32>> {
    let mut found = vec![Vec::new(); servers.len()];
    for value in 0..1_000 {
        let home = &mut found[home_of(node, servers, key, value)];
        if home.len() < each {
            home.push(value);
        }
        if found.iter().all(|values| values.len() == each) {
            return found;
        }
    }
    panic!("a server has no counters: {found:?}");
}
