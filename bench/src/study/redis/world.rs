//! A service on a Redis, and a second Redis that is called directly.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use tidegate_load::payload::{EnvoyRateLimit, THREE_DESCRIPTORS};
use tidegate_load::{Keys, Length, Plan, Report};
use tidegate_testkit::redis::RedisServer;

use super::kind::rules;
use super::{Programs, ratelimit};
use crate::error::{Error, ensure};
use crate::study::bed::{
    BATCHED, Bound, GENERATOR_CORE, Launcher, Passes, SERVER_CORE, Server, Tidegate, USERS, drive,
};

pub(super) struct World {
    pub(super) tidegate: Tidegate,
    /// The store of the service, on the core of the generator.
    pub(super) store: RedisServer,
    /// The Redis that is called directly, on the core that the service uses otherwise.
    pub(super) bare: RedisServer,
    /// envoyproxy/ratelimit on the core and the store of the service, if it is installed.
    pub(super) ratelimit: Option<Server>,
}

impl World {
    pub(super) fn start(programs: &Programs) -> Result<Self, Error> {
        let store = redis_on(GENERATOR_CORE)?;
        let tidegate = start_on(&store, &programs.launcher, &[])?;
        let mut world = Self { tidegate, bare: redis_on(SERVER_CORE)?, store, ratelimit: None };
        let start = |program: &PathBuf| ratelimit::start(program, &programs.launcher, &world);
        world.ratelimit = programs.ratelimit.as_ref().map(start).transpose()?;
        Ok(world)
    }

    /// Starts a service on the same store whose threads never poll for replies but sleep until they arrive.
    pub(super) fn start_sleepy(&self, launcher: &Launcher) -> Result<Tidegate, Error> {
        start_on(&self.store, launcher, &[("TIDEGATE_REDIS__BUSY_POLL", "0")])
    }

    /// Returns the plan of a closed loop with many concurrent calls over Zipf-distributed keys.
    pub(super) fn plan(&self, passes: Passes) -> Plan {
        Plan {
            connections: BATCHED.connections,
            streams: BATCHED.streams,
            keys: Keys::Zipf { n: USERS, exponent: 1.0 },
            warm_up: passes.warm_up,
            length: Length::Time(passes.length),
            pids: vec![self.tidegate.child.pid(), process_id(&self.store)],
            ..Plan::new(tidegate_load::Endpoint::Tcp(self.addr()))
        }
    }

    fn addr(&self) -> SocketAddr {
        self.tidegate.grpc()
    }
}

fn start_on(store: &RedisServer, launcher: &Launcher, also: &[(&str, &str)]) -> Result<Tidegate, Error> {
    let url = store.url();
    let settings = [
        ("TIDEGATE_STORE", url.as_str()),
        // Long enough that brief use of the core by others invalidates no pass, and short enough that timers behave
        // as by default: ahead of all others.
        ("TIDEGATE_REDIS__DEADLINE", "100ms"),
    ];
    Tidegate::start(launcher, &rules(), &[&settings, also].concat())
}

/// Runs a pass over limits that never deny.
pub(super) fn pass(plan: &Plan, mut requests: EnvoyRateLimit) -> Result<Report, Error> {
    drive("the service", plan, &mut requests, |_| {})
}

/// Returns requests with one descriptor of one entry.
pub(super) fn one_descriptor(entry: &str) -> EnvoyRateLimit {
    EnvoyRateLimit::new("api", entry)
}

/// Returns requests with three descriptors: a key and endpoint, an address, and all.
pub(super) fn three_descriptors() -> EnvoyRateLimit {
    EnvoyRateLimit::with_descriptors("api", THREE_DESCRIPTORS)
}

/// Starts a Redis without persistence.
pub(super) fn redis_on(core: usize) -> Result<RedisServer, Error> {
    let _bound = Bound::to(core)?;
    Ok(RedisServer::start())
}

pub(super) fn process_id(server: &RedisServer) -> u32 {
    server.process_id().unwrap_or_default()
}

/// Returns the CPU seconds that a server has used so far, in user and kernel mode.
pub(super) fn cpu_s(server: &RedisServer) -> Result<f64, Error> {
    let path = format!("/proc/{}/stat", process_id(server));
    let text = fs::read_to_string(&path).map_err(Error::io(path.as_ref()))?;
    // The process name, in brackets, may have spaces; user and kernel time are the 12th and 13th fields after it.
    let fields = text.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    let ticks: Vec<f64> = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    ensure(ticks.len() == 2, || format!("{path} has no CPU time: {text}"))?;
    Ok(ticks.iter().sum::<f64>() / rustix::param::clock_ticks_per_second() as f64)
}
