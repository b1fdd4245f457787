//! The queue from one thread to one server: requests that arrive while a batch is in flight go with the next.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::Shared;
use super::batch::{Batch, Operation, Waiter};
use super::breaker::Circuit;
use super::busy_poll::BusyPoll;
use super::checkup::rehearsal;
use super::node::{Node, broken, fenced, replaced};
use super::reply::Reply;
use super::wire::Call;
use crate::charge::Charge;
use crate::error::StoreError;

/// How often a failed server is probed.
pub(super) const PROBE_EVERY: Duration = Duration::from_millis(100);
/// Timeout of making a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
/// After this many consecutive late batches a new connection is made.
const MAX_LATE: u32 = 2;
/// How long to wait before repeating a call whose keys are being moved.
const MOVING_PAUSE: Duration = Duration::from_millis(1);

/// Requests of one thread that wait for their batch to one server.
#[derive(Default)]
pub(super) struct Lane {
    gathering: Mutex<Gathering>,
    arrived: Notify,
}

#[derive(Default)]
struct Gathering {
    /// The batches, each with its group: charges of one group can be settled by one call of the script.
    batches: Vec<(u32, Batch)>,
    waiting: usize,
    closed: bool,
}

impl Lane {
    /// Adds a request to the next batch.
    pub(super) fn push(
        &self,
        max_waiting: usize,
        shared: &Shared,
        group: u32,
        charges: &[Charge<'_>],
        operation: Operation,
        waiter: Option<Waiter>,
    ) -> Result<(), Refusal> {
        let mut gathering = self.gathering.lock();
        if gathering.closed {
            return Err(Refusal::Closed(waiter));
        }
        if gathering.waiting >= max_waiting {
            return Err(Refusal::Full);
        }
        gathering.waiting += 1;
        let arrived = Instant::now();
        let mut waiter = waiter;
        let last = gathering.batches.iter_mut().rev().find(|(other, _)| *other == group);
        if let Some((_, batch)) = last {
            match batch.push(charges, operation, arrived, waiter) {
                Ok(()) => return Ok(()),
                Err(back) => waiter = back,
            }
        }
        let mut batch = Batch::new(shared.settings.partitions);
        // A new batch accepts any request.
        let _ = batch.push(charges, operation, arrived, waiter);
        let first = gathering.batches.is_empty();
        gathering.batches.push((group, batch));
        drop(gathering);
        if first {
            self.arrived.notify_one();
        }
        Ok(())
    }

    fn take(&self) -> Vec<Batch> {
        let mut gathering = self.gathering.lock();
        gathering.waiting = 0;
        std::mem::take(&mut gathering.batches).into_iter().map(|(_, batch)| batch).collect()
    }
}

/// Reasons a lane can reject a request.
pub(super) enum Refusal {
    /// The task that drives the lane has ended. Holds the waiter.
    Closed(Option<Waiter>),
    /// Too many requests are waiting already.
    Full,
}

/// Closes the lane when the task that drives it ends, for example with its runtime.
struct Closing(Arc<Lane>);

impl Drop for Closing {
    fn drop(&mut self) {
        let mut gathering = self.0.gathering.lock();
        gathering.closed = true;
        for (_, batch) in std::mem::take(&mut gathering.batches) {
            batch.fail(&StoreError::Unreachable("its runtime has ended".into()));
        }
    }
}

/// Drives a lane until its node is retired.
pub(super) async fn drive(lane: Arc<Lane>, node: Arc<Node>, shared: Arc<Shared>) {
    let mut driver = Driver { lane: Closing(lane), node, shared, connection: None, redirect: None, late: 0 };
    // One timer for all batches: a new timer for each would become the next to fire in the runtime, and cost two
    // system calls per batch. A timer that is only moved later, as here, stays in place until it fires.
    let mut timer = pin!(sleep(Duration::ZERO));
    let busy_poll = || BusyPoll::new(driver.shared.settings.busy_poll);
    let (mut for_requests, mut for_answers) = (busy_poll(), busy_poll());
    while !driver.node.is_gone() {
        let event = for_requests.wait_for(driver.event()).await;
        match event {
            Event::Arrived => driver.settle_gathered(timer.as_mut(), &mut for_answers).await,
            Event::Probed(found) => driver.probed(found),
            Event::Gone => {}
        }
    }
}

/// The events that an idle driver waits for.
enum Event {
    /// Requests have arrived.
    Arrived,
    /// A failed server was probed. If it works again: the connection, and the term it was made in.
    Probed(Option<(u64, MultiplexedConnection)>),
    /// The server is no longer part of the store.
    Gone,
}

struct Driver {
    lane: Closing,
    node: Arc<Node>,
    shared: Arc<Shared>,
    /// The connection, and the term of the server in which it was made.
    connection: Option<(u64, MultiplexedConnection)>,
    /// The connection to the cluster server that calls were redirected to, and its address.
    redirect: Option<(String, MultiplexedConnection)>,
    /// Number of consecutive late batches.
    late: u32,
}

impl Driver {
    async fn event(&self) -> Event {
        tokio::select! {
            () = self.lane.0.arrived.notified() => Event::Arrived,
            // Requests that arrive meanwhile do not wait for the probe: another lane may have closed the breaker.
            found = self.probe(), if self.node.breaker.circuit() == Circuit::Open => Event::Probed(found),
            () = self.node.gone() => Event::Gone,
        }
    }

    /// Sends the waiting batches, and those that arrive meanwhile, until none is left.
    async fn settle_gathered(&mut self, mut timer: Pin<&mut Sleep>, for_answers: &mut BusyPoll) {
        loop {
            let batches = self.lane.0.take();
            let Some(oldest) = batches.first().and_then(Batch::oldest) else { return };
            let Some(term) = self.node.open_term() else {
                self.give_up(batches, &fenced());
                continue;
            };
            let began = quanta::Instant::now();
            let deadline = oldest + self.shared.settings.deadline;
            timer.as_mut().reset(deadline);
            let in_time = async {
                tokio::select! {
                    biased;
                    settled = self.exchange(&batches) => Some(settled),
                    () = timer.as_mut() => None,
                }
            };
            let settled = for_answers.wait_for(in_time).await;
            self.node.latency.add(began.elapsed());
            if self.node.term() != term {
                // Whatever the reply is, what the old server has counted is lost.
                self.give_up(batches, &replaced());
                continue;
            }
            match settled {
                Some(Ok(replies)) => self.conclude(batches, replies),
                Some(Err(error)) => self.fail(batches, &error),
                None => {
                    self.late += 1;
                    if self.late >= MAX_LATE {
                        self.disconnect();
                    }
                    self.fail(batches, &StoreError::Late);
                }
            }
        }
    }

    fn conclude(&mut self, batches: Vec<Batch>, replies: Vec<Settled>) {
        self.late = 0;
        let mut failed = None;
        for (batch, settled) in batches.into_iter().zip(replies) {
            let error = match settled.reply {
                Reply::Found(found) => match batch.conclude(&settled.wire, &found) {
                    Ok(foreign) => {
                        self.shared.events.found_foreign(&self.node, foreign);
                        continue;
                    }
                    Err(error) => {
                        self.shared.events.failed(&self.node, &error);
                        error
                    }
                },
                reply => {
                    // All possible retries have been made.
                    let error = if let Reply::Failed(error) = reply { error } else { StoreError::Garbled };
                    self.shared.events.failed(&self.node, &error);
                    batch.fail(&error);
                    error
                }
            };
            failed = Some(error);
        }
        match failed {
            None => {
                self.node.breaker.succeeded();
                self.node.heard();
            }
            Some(error) => {
                if error == StoreError::Garbled {
                    // The next reply on this connection could be the rest of this one.
                    self.disconnect();
                }
                self.count_failure(&error);
            }
        }
    }

    /// Fails batches because the server is being replaced. The failure is not counted against its successor.
    fn give_up(&mut self, batches: Vec<Batch>, error: &StoreError) {
        self.late = 0;
        self.disconnect();
        for batch in batches {
            self.shared.events.failed(&self.node, error);
            batch.fail(error);
        }
        self.shared.refresh_topology();
    }

    fn fail(&mut self, batches: Vec<Batch>, error: &StoreError) {
        for batch in batches {
            self.shared.events.failed(&self.node, error);
            batch.fail(error);
        }
        if matches!(error, StoreError::Unreachable(_) | StoreError::Broken(_)) {
            self.disconnect();
        }
        self.count_failure(error);
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.redirect = None;
    }

    fn count_failure(&self, error: &StoreError) {
        if self.node.breaker.failed() {
            self.shared.events.opened(&self.node, error);
        }
        self.shared.refresh_topology();
    }

    /// Sends batches in one write and waits for the reply to each.
    async fn exchange(&mut self, batches: &[Batch]) -> Result<Vec<Settled>, StoreError> {
        let mut connection = self.connection().await?;
        let calls = batches.iter().map(|batch| self.shared.call_builder(false).call(batch)).collect();
        let mut settled = send(&mut connection, calls).await?;
        for (batch, settled) in batches.iter().zip(&mut settled) {
            // The deadline bounds this loop.
            while !matches!(settled.reply, Reply::Found(_) | Reply::Failed(_)) {
                let again = self.try_again(batch, &settled.reply, &mut connection).await;
                // Whatever the error is, other batches may be settled already.
                *settled = again.map_err(StoreError::after_sending)?;
            }
        }
        Ok(settled)
    }

    /// Repeats a batch as its reply requires.
    async fn try_again(
        &mut self,
        batch: &Batch,
        reply: &Reply,
        connection: &mut MultiplexedConnection,
    ) -> Result<Settled, StoreError> {
        let call = match reply {
            Reply::Stale(now) => {
                self.shared.learn(*now);
                self.shared.call_builder(false).call(batch)
            }
            Reply::NoScript => self.shared.call_builder(true).call(batch),
            _ => self.shared.call_builder(false).call(batch),
        };
        let settled = match reply {
            Reply::Redirected { address, asking } => {
                self.shared.refresh_topology();
                let mut other = self.redirected(address).await?;
                let settled = send_redirected(&mut other, *asking, call).await?;
                match settled.first().map(|settled| &settled.reply) {
                    // Calls are redirected there until the topology is refreshed, so it has to load the script.
                    Some(Reply::NoScript) => {
                        let whole = self.shared.call_builder(true).call(batch);
                        send_redirected(&mut other, *asking, whole).await?
                    }
                    _ => settled,
                }
            }
            Reply::Moving => {
                sleep(MOVING_PAUSE).await;
                send(connection, vec![call]).await?
            }
            _ => send(connection, vec![call]).await?,
        };
        settled.into_iter().next().ok_or(StoreError::Garbled)
    }

    /// Returns a connection to the server that holds the keys now.
    async fn redirected(&mut self, address: &str) -> Result<MultiplexedConnection, StoreError> {
        if let Some((known, connection)) = &self.redirect
            && known == address
        {
            return Ok(connection.clone());
        }
        let connection = self.shared.connect(&self.node.resolve(address)).await?;
        self.redirect = Some((address.to_owned(), connection.clone()));
        Ok(connection)
    }

    async fn connection(&mut self) -> Result<MultiplexedConnection, StoreError> {
        let term = self.node.term();
        if let Some((made_in, connection)) = &self.connection
            && *made_in == term
        {
            return Ok(connection.clone());
        }
        let connection = self.node.connect(&self.shared).await?;
        self.connection = Some((term, connection.clone()));
        Ok(connection)
    }

    /// Waits a while, then probes a failed server: it has to run every command within the deadline.
    async fn probe(&self) -> Option<(u64, MultiplexedConnection)> {
        self.node.probing();
        sleep(PROBE_EVERY).await;
        let term = self.node.term();
        let rehearsal = rehearsal(&self.shared, &self.node)?;
        let connection = timeout(CONNECT_TIMEOUT, self.node.connect(&self.shared)).await;
        let mut connection = connection.ok()?.ok()?;
        let reply = timeout(self.shared.settings.deadline, connection.send_packed_command(&rehearsal)).await;
        matches!(reply, Ok(Ok(Value::Int(_)))).then_some((term, connection))
    }

    fn probed(&mut self, found: Option<(u64, MultiplexedConnection)>) {
        self.disconnect();
        let found = found.filter(|(term, _)| *term == self.node.term() && !self.node.is_fenced());
        let Some(connection) = found else { return self.shared.refresh_topology() };
        self.connection = Some(connection);
        self.late = 0;
        self.node.heard();
        if self.node.breaker.close() {
            self.shared.events.closed(&self.node);
        }
    }
}

/// The reply to a batch.
struct Settled {
    wire: Vec<u32>,
    reply: Reply,
}

/// Sends a call to the server that another has redirected it to.
async fn send_redirected(
    connection: &mut MultiplexedConnection,
    asking: bool,
    call: Call,
) -> Result<Vec<Settled>, StoreError> {
    if asking {
        // Allows the next command on this connection, which no other task uses.
        connection.send_packed_command(&redis::cmd("ASKING")).await.map_err(broken)?;
    }
    send(connection, vec![call]).await
}

async fn send(connection: &mut MultiplexedConnection, calls: Vec<Call>) -> Result<Vec<Settled>, StoreError> {
    let mut pipeline = redis::Pipeline::with_capacity(calls.len());
    let mut wires = Vec::with_capacity(calls.len());
    for Call { command, wire } in calls {
        pipeline.add_command(command);
        wires.push(wire);
    }
    let values = connection.send_packed_commands(&pipeline, 0, wires.len()).await.map_err(broken)?;
    let settled = |(wire, value)| Settled { wire, reply: Reply::of(value) };
    Ok(wires.into_iter().zip(values).map(settled).collect())
}
