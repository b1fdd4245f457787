//! Addresses of stores, and what is said of bad ones.

use tidegate_stores::redis::url::{Host, StoreUrl, Topology};

fn read(text: &str) -> StoreUrl {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    text.parse::<StoreUrl>().expect_err("a bad address").to_string()
}

fn host(name: &str, port: u16) -> Host {
    Host { name: name.to_owned(), port }
}

#[test]
fn every_topology_has_its_scheme() {
    let single = read("redis://cache:7000/3");
    assert_eq!((single.topology, single.hosts, single.db), (Topology::Single, vec![host("cache", 7000)], 3));
    let sentinel = read("redis+sentinel://a,b:26380,[::1]/limits?db=2");
    assert_eq!(sentinel.topology, Topology::Sentinel { name: "limits".to_owned() });
    assert_eq!(sentinel.hosts, [host("a", 26379), host("b", 26380), host("::1", 26379)]);
    assert_eq!(sentinel.db, 2);
    assert_eq!(read("redis+cluster://a,b").topology, Topology::Cluster);
    assert_eq!(read("redis+sharded://a,b,c").hosts.len(), 3);
    assert!(read("rediss+cluster://a").tls && !read("valkey://a").tls);
}

#[test]
fn credentials_may_be_in_the_address_or_in_a_file() {
    let named = read("rediss://ann:p%40ss%2Fword@cache?ca=/etc/ca.pem");
    assert_eq!((named.username.as_deref(), named.password.as_deref()), (Some("ann"), Some("p@ss/word")));
    assert_eq!(named.ca.as_deref(), Some("/etc/ca.pem".as_ref()));
    let unnamed = read("redis://:secret@cache");
    assert_eq!((unnamed.username, unnamed.password.as_deref()), (None, Some("secret")));
    let file = read("redis://ann@cache?password_file=/run/secrets/redis");
    assert_eq!(file.password_file.as_deref(), Some("/run/secrets/redis".as_ref()));
}

#[test]
fn a_password_is_never_shown() {
    let url = read("redis://ann:hunter2@cache/1");
    assert_eq!(url.to_string(), "redis://ann@cache:6379/1");
    assert!(!format!("{url:?}").contains("hunter2"));
    assert!(!refused("redis://ann:hunter2@cache:port").contains("hunter2"));
}

#[test]
fn what_is_wrong_is_said_with_what_to_write() {
    for (text, why) in [
        ("mysql://x", "mysql is not a store; write redis:// or rediss:// (TLS)"),
        ("redis://", "a host is missing"),
        ("redis://a:0x1", "0x1 must be a port between 1 and 65535"),
        ("redis://a,b", "several servers are redis+sharded://, redis+cluster:// or redis+sentinel://"),
        ("redis+sentinel://a,b", "sentinels need the primary's name"),
        ("redis+ring://a", "+ring is unknown; write +sentinel, +cluster or +sharded"),
        ("redis://a/first", "/first must be the number of a database"),
        ("redis+cluster://a/1", "a cluster has database 0 only"),
        ("redis://a?timeout=1", "timeout is unknown; ca, password_file and db are known"),
        ("redis://:p@a?password_file=/f", "give a password or a password_file, not both"),
    ] {
        let said = refused(text);
        assert!(said.contains(why), "{text}: {said}");
    }
}
