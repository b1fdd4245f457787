//! The way from one thread to one server: what arrives while a batch is under way goes with the next.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::Shared;
use super::batch::{Batch, Waiter, Wish};
use super::breaker::Circuit;
use super::checkup::rehearsal;
use super::node::{Node, broken, fenced, replaced};
use super::reply::Reply;
use super::vigil::Vigil;
use super::wire::Call;
use crate::charge::Charge;
use crate::error::StoreError;

/// How often a server that failed is asked whether it is back.
pub(super) const PROBE_EVERY: Duration = Duration::from_millis(100);
/// How long a connection may take to be made.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
/// Batches that may be late in a row before the connection is made anew.
const MOST_LATE: u32 = 2;
/// Before a call is sent again whose keys are on the move.
const MOVING_PAUSE: Duration = Duration::from_millis(1);

/// Requests on their way to a server.
#[derive(Default)]
pub(super) struct Lane {
    gathering: Mutex<Gathering>,
    arrived: Notify,
}

#[derive(Default)]
struct Gathering {
    /// Each with the group its counters are in; a group is what one call of the script can settle.
    batches: Vec<(u32, Batch)>,
    waiting: usize,
    closed: bool,
}

impl Lane {
    /// Lets a request go with the next batch.
    pub(super) fn push(
        &self,
        most: usize,
        shared: &Shared,
        group: u32,
        charges: &[Charge<'_>],
        wish: Wish,
        waiter: Option<Waiter>,
    ) -> Result<(), Refusal> {
        let mut gathering = self.gathering.lock();
        if gathering.closed {
            return Err(Refusal::Closed(waiter));
        }
        if gathering.waiting >= most {
            return Err(Refusal::Full);
        }
        gathering.waiting += 1;
        let arrived = Instant::now();
        let mut waiter = waiter;
        let last = gathering.batches.iter_mut().rev().find(|(other, _)| *other == group);
        if let Some((_, batch)) = last {
            match batch.push(charges, wish, arrived, waiter) {
                Ok(()) => return Ok(()),
                Err(back) => waiter = back,
            }
        }
        let mut batch = Batch::new(shared.settings.parts);
        // A fresh batch takes any request.
        let _ = batch.push(charges, wish, arrived, waiter);
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

/// Why a lane did not take a request.
pub(super) enum Refusal {
    /// Nobody drives it; here is the waiter back.
    Closed(Option<Waiter>),
    /// Too many wait already.
    Full,
}

/// Closes the lane when whoever drives it is gone, as with its runtime.
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

/// Drives a lane until its node is gone.
pub(super) async fn drive(lane: Arc<Lane>, node: Arc<Node>, shared: Arc<Shared>) {
    let mut driver = Driver { lane: Closing(lane), node, shared, connection: None, elsewhere: None, late: 0 };
    // One for all batches: a timer of its own for each would be put into the runtime's wheel before all that
    // is there, and the runtime would be woken for it, by two system calls a batch. Moved later, as here, it
    // stays where it is until it fires.
    let mut timer = pin!(sleep(Duration::ZERO));
    let vigil = || Vigil::new(driver.shared.settings.busy_poll);
    let (mut for_requests, mut for_answers) = (vigil(), vigil());
    while !driver.node.is_gone() {
        let event = for_requests.keep(driver.event()).await;
        match event {
            Event::Arrived => driver.settle_gathered(timer.as_mut(), &mut for_answers).await,
            Event::Probed(found) => driver.probed(found),
            Event::Gone => {}
        }
    }
}

/// What a driver without work waits for.
enum Event {
    /// There are requests.
    Arrived,
    /// A server that had failed was asked; over this connection, made in this term, it answers again.
    Probed(Option<(u64, MultiplexedConnection)>),
    /// The server is no longer one of the store's.
    Gone,
}

struct Driver {
    lane: Closing,
    node: Arc<Node>,
    shared: Arc<Shared>,
    /// And the term of the server it was made in.
    connection: Option<(u64, MultiplexedConnection)>,
    /// To another server of the cluster, to which this one has sent us lately.
    elsewhere: Option<(String, MultiplexedConnection)>,
    /// Batches that were late, one after the other.
    late: u32,
}

impl Driver {
    async fn event(&self) -> Event {
        tokio::select! {
            () = self.lane.0.arrived.notified() => Event::Arrived,
            // What arrives meanwhile does not wait for it: another lane may have found the server back.
            found = self.probe(), if self.node.breaker.circuit() == Circuit::Open => Event::Probed(found),
            () = self.node.gone() => Event::Gone,
        }
    }

    /// Sends what has gathered, and what gathers meanwhile, until there is nothing.
    async fn settle_gathered(&mut self, mut timer: Pin<&mut Sleep>, for_answers: &mut Vigil) {
        loop {
            let batches = self.lane.0.take();
            let Some(oldest) = batches.first().and_then(Batch::oldest) else { return };
            let term = self.node.term();
            if self.node.is_fenced() {
                self.give_up(batches, &fenced());
                continue;
            }
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
            let settled = for_answers.keep(in_time).await;
            self.node.latency.add(began.elapsed());
            if self.node.term() != term {
                // Whatever it says: what it has counted is lost with it.
                self.give_up(batches, &replaced());
                continue;
            }
            match settled {
                Some(Ok(replies)) => self.conclude(batches, replies),
                Some(Err(error)) => self.fail(batches, &error),
                None => {
                    self.late += 1;
                    if self.late >= MOST_LATE {
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
                    // Whatever can be tried again has been.
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
                    // The next reply could be the rest of this one.
                    self.disconnect();
                }
                self.count_failure(&error);
            }
        }
    }

    /// Fails batches because the server is being replaced, which is not held against whoever takes its place.
    fn give_up(&mut self, batches: Vec<Batch>, error: &StoreError) {
        self.late = 0;
        self.disconnect();
        for batch in batches {
            self.shared.events.failed(&self.node, error);
            batch.fail(error);
        }
        self.shared.look_again();
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
        self.elsewhere = None;
    }

    fn count_failure(&self, error: &StoreError) {
        if self.node.breaker.failed() {
            self.shared.events.opened(&self.node, error);
        }
        self.shared.look_again();
    }

    /// Sends batches in one go and waits for what became of them.
    async fn exchange(&mut self, batches: &[Batch]) -> Result<Vec<Settled>, StoreError> {
        let mut connection = self.connection().await?;
        let calls = batches.iter().map(|batch| self.shared.form(false).call(batch)).collect();
        let mut settled = send(&mut connection, calls).await?;
        for (batch, settled) in batches.iter().zip(&mut settled) {
            // The deadline ends this, if nothing else does.
            while !matches!(settled.reply, Reply::Found(_) | Reply::Failed(_)) {
                let again = self.try_again(batch, &settled.reply, &mut connection).await;
                // Whatever it is: other batches may be settled already.
                *settled = again.map_err(StoreError::after_sending)?;
            }
        }
        Ok(settled)
    }

    /// Sends a batch once more, after what the server said to it.
    async fn try_again(
        &mut self,
        batch: &Batch,
        said: &Reply,
        connection: &mut MultiplexedConnection,
    ) -> Result<Settled, StoreError> {
        let call = match said {
            Reply::Stale(now) => {
                self.shared.learn(*now);
                self.shared.form(false).call(batch)
            }
            Reply::NoScript => self.shared.form(true).call(batch),
            _ => self.shared.form(false).call(batch),
        };
        let settled = match said {
            Reply::Elsewhere { address, asking } => {
                self.shared.look_again();
                let mut other = self.elsewhere(address).await?;
                let settled = send_elsewhere(&mut other, *asking, call).await?;
                match settled.first().map(|settled| &settled.reply) {
                    // Nobody else would tell it: whoever sent us there goes on doing so.
                    Some(Reply::NoScript) => {
                        let whole = self.shared.form(true).call(batch);
                        send_elsewhere(&mut other, *asking, whole).await?
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

    /// A connection to the server that has the keys now.
    async fn elsewhere(&mut self, address: &str) -> Result<MultiplexedConnection, StoreError> {
        if let Some((known, connection)) = &self.elsewhere
            && known == address
        {
            return Ok(connection.clone());
        }
        let connection = self.shared.connect(&self.node.resolve(address)).await?;
        self.elsewhere = Some((address.to_owned(), connection.clone()));
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

    /// Asks a server that has failed, after a while, whether it is back: it has to do its work, and within
    /// the deadline.
    async fn probe(&self) -> Option<(u64, MultiplexedConnection)> {
        self.node.probing();
        sleep(PROBE_EVERY).await;
        let term = self.node.term();
        let rehearsal = rehearsal(&self.shared, &self.node)?;
        let connection = timeout(CONNECT_TIMEOUT, self.node.connect(&self.shared)).await;
        let mut connection = connection.ok()?.ok()?;
        let said = timeout(self.shared.settings.deadline, connection.send_packed_command(&rehearsal)).await;
        matches!(said, Ok(Ok(Value::Int(_)))).then_some((term, connection))
    }

    fn probed(&mut self, found: Option<(u64, MultiplexedConnection)>) {
        self.disconnect();
        let found = found.filter(|(term, _)| *term == self.node.term() && !self.node.is_fenced());
        let Some(connection) = found else { return self.shared.look_again() };
        self.connection = Some(connection);
        self.late = 0;
        self.node.heard();
        if self.node.breaker.close() {
            self.shared.events.closed(&self.node);
        }
    }
}

/// What became of a batch.
struct Settled {
    wire: Vec<u32>,
    reply: Reply,
}

/// Sends a call to a server to which another has sent us.
async fn send_elsewhere(
    connection: &mut MultiplexedConnection,
    asking: bool,
    call: Call,
) -> Result<Vec<Settled>, StoreError> {
    if asking {
        // The next command on this connection, which is ours alone, is let through.
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
