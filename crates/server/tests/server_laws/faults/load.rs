//! Clients that ask all the time and note what they saw.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_testkit::processor_waits::ProcessorWaits;
use tidegate_testkit::redis::RedisServer;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::client::Client;
use super::notes::{Notes, Seen, Stall};
use crate::support::service::Service;

/// Clients of one node over gRPC; one more asks over HTTP.
const CLIENTS: usize = 5;
/// A client asks again so long after it was answered.
const PACE: Duration = Duration::from_millis(6);
/// However long a test takes.
const MOST_CALLS: usize = 15_000;
/// Those who ask what needs no store: as many as a node has threads here, so that each is watched.
const WATCHERS: usize = 2;
const WATCH_EVERY: Duration = Duration::from_millis(5);

/// A key of the rules, and a value that has a counter of its own.
pub(super) type Asked = (&'static str, u32);

/// Clients of a node, until they are stopped.
pub(super) struct Load {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<Notes>,
    waits: Arc<ProcessorWaits>,
}

impl Load {
    /// Clients that ask for all of these in turn.
    pub(super) fn on(service: &Service, asked: &[Asked]) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let (flag, asked) = (Arc::clone(&stopped), asked.to_vec());
        let (grpc, http) = (service.grpc, service.http);
        let waits = Arc::new(ProcessorWaits::start());
        waits.add_process(service.pid());
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let of_clients = Arc::clone(&waits);
        let thread = thread::spawn(move || {
            of_clients.add_this_thread();
            runtime.block_on(run(grpc, http, &asked, &flag))
        });
        Self { stopped, thread, waits }
    }

    /// With these servers as the node's store. What they wait for a processor is no fault of the node's; one that is
    /// started again has to be named again.
    pub(super) fn beside<'a>(self, servers: impl IntoIterator<Item = &'a RedisServer>) -> Self {
        servers.into_iter().filter_map(RedisServer::process_id).for_each(|id| self.waits.add_process(id));
        self
    }

    /// Lets them finish, and gives what they saw.
    pub(super) fn stop(self) -> Notes {
        self.stopped.store(true, Relaxed);
        let mut notes = self.thread.join().expect("clients note their errors and go on");
        let waits = Arc::into_inner(self.waits).expect("the clients have ended");
        notes.waited = waits.stop();
        notes
    }
}

/// Lets the load go on for a while, with the store as it is.
pub(super) fn go_on_for(time: Duration) {
    thread::sleep(time);
}

async fn run(grpc: SocketAddr, http: SocketAddr, asked: &[Asked], stopped: &Arc<AtomicBool>) -> Notes {
    // The watchers connect first, so that every thread of the node has one.
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        watchers.spawn(watch(Client::grpc(grpc).await, Arc::clone(stopped)));
    }
    let mut clients = JoinSet::new();
    for number in 0..=CLIENTS {
        let client = if number < CLIENTS { Client::grpc(grpc).await } else { Client::http(http).await };
        clients.spawn(ask_on(client, number, asked.to_vec(), Arc::clone(stopped)));
    }
    let mut notes = Notes::default();
    while let Some(seen) = clients.join_next().await {
        let (seen, errors) = seen.expect("no panic");
        notes.seen.extend(seen);
        notes.errors.extend(errors);
    }
    while let Some(stalls) = watchers.join_next().await {
        notes.stalls.extend(stalls.expect("no panic"));
    }
    notes.seen.sort_by_key(|seen| seen.at);
    notes
}

async fn ask_on(
    mut client: Client,
    number: usize,
    asked: Vec<Asked>,
    stopped: Arc<AtomicBool>,
) -> (Vec<Seen>, Vec<String>) {
    let (mut seen, mut errors) = (Vec::new(), Vec::new());
    for call in number..number + MOST_CALLS {
        if stopped.load(Relaxed) {
            break;
        }
        let (key, value) = asked[call % asked.len()];
        let at = Instant::now();
        match client.ask(key, &format!("v{value}")).await {
            Ok(decision) => seen.push(Seen { key, value, at, took: at.elapsed(), decision }),
            Err(error) => errors.push(format!("{key}: {error}")),
        }
        sleep(PACE).await;
    }
    (seen, errors)
}

/// Asks for what has no limit, again and again, and notes how late each answer is: from when it was due,
/// so that the time the client itself got no processor is in it.
async fn watch(mut client: Client, stopped: Arc<AtomicBool>) -> Vec<Stall> {
    let mut ticks = interval(WATCH_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut stalls = Vec::new();
    while !stopped.load(Relaxed) {
        let due = ticks.tick().await;
        let answer = client.ask("free", "").await;
        assert!(answer.is_ok_and(|decision| decision.allowed), "what has no limit is let pass");
        stalls.push(Stall { at: due, took: due.elapsed() });
    }
    stalls
}
