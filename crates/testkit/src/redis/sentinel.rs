//! A primary and two replicas, monitored by three Sentinels.

use super::client::Reply;
use super::server::{RedisServer, url_of_many};
use super::setup::Setup;
use super::wait::until;

/// The name of the primary in the Sentinels' configuration.
const NAME: &str = "limits";
/// A primary that is silent for this many milliseconds is considered down.
const DOWN_AFTER_MS: u32 = 500;
/// After twice this time the Sentinels vote again, if none got enough votes. A normal failover takes a little
/// over one second, because Sentinels check once per second whether the chosen replica has become primary.
const FAILOVER_TIMEOUT_MS: u32 = 2_000;
/// How often Sentinels exchange messages, in ms. The defaults of 1 to 10 s are most of the time that a
/// failover takes. Five ping periods must be longer than the second between two checks of a replica whose
/// primary is down: Sentinels discard older information about it, and then there is no replica to choose.
/// Versions before 7 do not have this command and are slow.
const PERIODS: &str = "SENTINEL DEBUG INFO-PERIOD 500 PING-PERIOD 400 ASK-PERIOD 100 PUBLISH-PERIOD 100";

/// Three servers, one of them the primary, and three Sentinels.
#[derive(Debug)]
pub struct SentinelTrio {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl Setup {
    /// Starts three servers with this setup and three Sentinels, and waits until all know each other and the
    /// replicas are in sync with the primary.
    ///
    /// # Panics
    ///
    /// Panics if one does not start, or with [`tls`](Self::tls), which only single servers support.
    pub fn start_sentinel(&self) -> SentinelTrio {
        assert!(!self.tls, "the kit has TLS for single servers only");
        let primary = self.start();
        let follow = format!("127.0.0.1 {}", primary.port());
        let replica = self.clone().set("replicaof", &follow);
        let servers = vec![primary, replica.start(), replica.start()];
        until("replicas are linked", || servers[1..].iter().all(is_linked).then_some(()));
        let watch = self.sentinel_of(servers[0].port());
        let sentinels = RedisServer::start_many(&watch, 3);
        let periods: Vec<&str> = PERIODS.split(' ').collect();
        for sentinel in &sentinels {
            let _ = sentinel.try_command(&periods);
        }
        let trio = SentinelTrio { servers, sentinels };
        trio.wait_until_whole();
        trio
    }

    fn sentinel_of(&self, primary: u16) -> Setup {
        let mut setup = Setup::new(self.program);
        setup.sentinel = true;
        let setup = setup
            .set("sentinel", &format!("monitor {NAME} 127.0.0.1 {primary} 2"))
            .set("sentinel", &format!("down-after-milliseconds {NAME} {DOWN_AFTER_MS}"))
            .set("sentinel", &format!("failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}"))
            .set("sentinel", &format!("parallel-syncs {NAME} 2"));
        match &self.password {
            Some(password) => setup.set("sentinel", &format!("auth-pass {NAME} {password}")),
            None => setup,
        }
    }
}

impl SentinelTrio {
    /// Returns a `redis+sentinel://` URL with the Sentinels and the name of the primary.
    pub fn url(&self) -> String {
        let credentials = self.servers[0].url();
        let credentials = credentials.split_once("//").and_then(|(_, rest)| rest.rsplit_once('@'));
        let url = url_of_many("redis+sentinel", &self.sentinels);
        match credentials {
            Some((credentials, _)) => url.replacen("//", &format!("//{credentials}@"), 1) + "/" + NAME,
            None => url + "/" + NAME,
        }
    }

    /// Returns the name of the primary in the Sentinels' configuration.
    pub fn name(&self) -> &str {
        NAME
    }

    /// Returns the three servers, whichever of them is the primary.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns the three Sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Returns the primary that all running Sentinels agree on.
    ///
    /// # Panics
    ///
    /// Panics if they do not agree in time.
    pub fn primary(&self) -> &RedisServer {
        until("sentinels agree on a primary", || self.agreed())
    }

    /// Waits until every replica is in sync, then kills the primary and returns it.
    ///
    /// # Panics
    ///
    /// Panics if the replicas are not in sync in time.
    pub fn kill_primary(&self) -> &RedisServer {
        self.wait_until_whole();
        let primary = self.primary();
        primary.kill();
        primary
    }

    /// Waits until the Sentinels have promoted another server than `old`, and returns the new primary.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn wait_for_failover(&self, old: &RedisServer) -> &RedisServer {
        until("sentinels have promoted a replica", || {
            let primary = self.agreed().filter(|primary| primary.port() != old.port())?;
            (primary.info("role")? == "master").then_some(primary)
        })
    }

    /// Waits until all three servers are running, two of them replicate the primary, and the Sentinels know
    /// all of them.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn wait_until_whole(&self) {
        until("two replicas follow the primary", || {
            let primary = self.agreed()?;
            let mut others = self.servers.iter().filter(|server| server.port() != primary.port());
            let follow = |server: &RedisServer| {
                is_linked(server) && server.info("master_port") == Some(primary.port().to_string())
            };
            let whole = others.all(follow) && primary.info("role")? == "master";
            (whole && self.sentinels.iter().all(knows_all)).then_some(())
        });
    }

    fn agreed(&self) -> Option<&RedisServer> {
        let mut ports = self.sentinels.iter().filter(|sentinel| sentinel.runs()).map(primary_port);
        let port = ports.next()??;
        let agree = ports.all(|other| other == Some(port));
        self.servers.iter().find(|server| agree && server.port() == port)
    }
}

fn is_linked(server: &RedisServer) -> bool {
    server.info("master_link_status").as_deref() == Some("up")
}

fn primary_port(sentinel: &RedisServer) -> Option<u16> {
    let reply = sentinel.try_command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).ok()?;
    if let Reply::Array(parts) = reply { parts.get(1)?.text().parse().ok() } else { None }
}

/// Returns whether a Sentinel sees two replicas, two other Sentinels, and a healthy primary.
fn knows_all(sentinel: &RedisServer) -> bool {
    let Ok(Reply::Array(fields)) = sentinel.try_command(&["SENTINEL", "MASTER", NAME]) else { return false };
    let field = |name: &str| {
        let at = fields.chunks_exact(2).find(|pair| pair[0].text() == name);
        at.map(|pair| pair[1].text()).unwrap_or_default()
    };
    field("num-slaves") == "2" && field("num-other-sentinels") == "2" && field("flags") == "master"
}
