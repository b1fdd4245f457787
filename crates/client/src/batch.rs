//! Sends checks that are made at the same time as one HTTP request.
//!
//! The first check starts a task. That task sends when the runtime next polls it, so that other checks made meanwhile
//! are part of the same batch. While the maximum number of HTTP requests is in flight, checks wait for the next one.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate::Statement;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::breaker::Pass;
use crate::client::Inner;
use crate::error::ClientError;
use crate::response;
use crate::transport::Response;

const MAX_SENDERS: usize = 2;
const MAX_CHECKS: usize = 1_000;
/// The largest batch in bytes, unless a single check is longer. Services reject messages over 1 MiB.
const MAX_BYTES: usize = 512 << 10;

const CHECK: &str = "/v1/check";

/// Checks that wait to be sent.
#[derive(Default)]
pub(crate) struct PendingChecks {
    queue: VecDeque<PendingCheck>,
    /// The number of tasks that send, or are about to.
    senders: usize,
    /// Whether one of these tasks has not looked at the queue yet.
    sender_starts: bool,
}

struct PendingCheck {
    body: Vec<u8>,
    result: oneshot::Sender<Result<Statement, ClientError>>,
}

/// A task that sends batches. Its runtime may shut down at any time.
struct BatchSender {
    client: Arc<Inner>,
    /// Whether it has looked at the queue.
    started: bool,
    /// Whether the task has already been subtracted from `senders`.
    ended: bool,
}

impl Drop for BatchSender {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut pending = self.client.pending.lock();
        pending.senders -= 1;
        pending.sender_starts &= self.started;
    }
}

/// The single request that probes whether the service is available again. Ends when dropped.
struct Probe<'a>(&'a Inner);

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.0.breaker.lock().gave_up(Instant::now());
    }
}

impl Inner {
    /// Returns the decision of the service on a check, within the deadline.
    pub(crate) async fn check(self: &Arc<Self>, body: Vec<u8>) -> Result<Statement, ClientError> {
        let result = match self.pass() {
            Pass::Not => Err(ClientError::Away),
            Pass::Alone => {
                let _probe = Probe(self);
                self.send_one(body).await
            }
            Pass::Together => match timeout(self.deadline, self.enqueue(body)).await {
                Ok(Ok(result)) => result,
                // The sending task was dropped with its runtime.
                Ok(Err(_)) => Err(ClientError::Away),
                Err(_) => Err(ClientError::Timeout(self.deadline)),
            },
        };
        match &result {
            Ok(_) => self.counts.count_answer(),
            Err(error) => self.counts.count_failure(error),
        }
        result
    }

    /// Sends a request that is not a check, and returns its response within the deadline.
    pub(crate) async fn send(&self, path: &str, body: Vec<u8>) -> Result<Response, ClientError> {
        let pass = self.pass();
        if pass == Pass::Not {
            return Err(ClientError::Away);
        }
        let _probe = (pass == Pass::Alone).then(|| Probe(self));
        self.exchange(path, body).await
    }

    fn pass(&self) -> Pass {
        self.breaker.lock().pass(Instant::now())
    }

    /// Sends a request, and reports the outcome to the breaker.
    async fn exchange(&self, path: &str, body: Vec<u8>) -> Result<Response, ClientError> {
        let response = self.transport.post(path, body).await;
        let mut breaker = self.breaker.lock();
        match &response {
            Err(why @ (ClientError::Unreachable(_) | ClientError::Timeout(_))) => {
                breaker.failed(Instant::now(), why);
            }
            _ => breaker.responded(),
        }
        response
    }

    async fn send_one(&self, body: Vec<u8>) -> Result<Statement, ClientError> {
        self.counts.count_batch();
        response::decision(&self.exchange(CHECK, body).await?)
    }

    /// Queues a check for the next batch, and starts a task that sends it unless one is about to.
    fn enqueue(self: &Arc<Self>, body: Vec<u8>) -> oneshot::Receiver<Result<Statement, ClientError>> {
        let (result, receiver) = oneshot::channel();
        let mut pending = self.pending.lock();
        pending.queue.push_back(PendingCheck { body, result });
        self.start_sender(&mut pending);
        receiver
    }

    fn start_sender(self: &Arc<Self>, pending: &mut PendingChecks) {
        if pending.senders < MAX_SENDERS && !pending.sender_starts {
            pending.senders += 1;
            pending.sender_starts = true;
            let sender = BatchSender { client: Arc::clone(self), started: false, ended: false };
            tokio::spawn(sender.run());
        }
    }
}

impl BatchSender {
    async fn run(mut self) {
        // Runs after all tasks that are ready, so that their checks are part of this batch.
        tokio::task::yield_now().await;
        loop {
            let batch = self.next_batch();
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    /// Returns the waiting checks that fit into a batch, and starts another sender if more are waiting. If none are
    /// waiting, this sender ends while it still holds the lock: otherwise a check queued between the two steps would
    /// rely on a sender that never looks again. If the service has failed meanwhile, the waiting checks fail at once.
    fn next_batch(&mut self) -> Vec<PendingCheck> {
        let away = !self.client.breaker.lock().is_closed();
        let mut pending = self.client.pending.lock();
        if !self.started {
            self.started = true;
            pending.sender_starts = false;
        }
        if away {
            for PendingCheck { result, .. } in pending.queue.drain(..) {
                // The caller may have stopped waiting.
                _ = result.send(Err(ClientError::Away));
            }
            self.ended = true;
            pending.senders -= 1;
            return Vec::new();
        }
        let mut batch: Vec<PendingCheck> = Vec::new();
        let mut bytes = 0;
        while let Some(check) = pending.queue.pop_front() {
            if check.result.is_closed() {
                continue; // its caller has stopped waiting
            }
            if !batch.is_empty() && (batch.len() >= MAX_CHECKS || bytes + check.body.len() > MAX_BYTES) {
                pending.queue.push_front(check);
                break;
            }
            bytes += check.body.len() + 1;
            batch.push(check);
        }
        if batch.is_empty() {
            self.ended = true;
            pending.senders -= 1;
        } else if !pending.queue.is_empty() {
            self.client.start_sender(&mut pending);
        }
        batch
    }

    async fn send(&self, mut batch: Vec<PendingCheck>) {
        if batch.len() == 1 {
            if let Some(PendingCheck { body, result }) = batch.pop() {
                // The caller may have stopped waiting.
                _ = result.send(self.client.send_one(body).await);
            }
            return;
        }
        self.client.counts.count_batch();
        let (bodies, results): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|PendingCheck { body, result }| (body, result)).unzip();
        let response = self.client.exchange(CHECK, list(&bodies)).await;
        match response.and_then(|response| response::batch(&response, results.len())) {
            Ok(decisions) => {
                for (result, decision) in results.into_iter().zip(decisions) {
                    _ = result.send(decision);
                }
            }
            Err(error) => {
                for result in results {
                    _ = result.send(Err(error.clone()));
                }
            }
        }
    }
}

fn list(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut list = Vec::with_capacity(bodies.iter().map(|body| body.len() + 1).sum::<usize>() + 1);
    for body in bodies {
        list.push(if list.is_empty() { b'[' } else { b',' });
        list.extend_from_slice(body);
    }
    list.push(b']');
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;

    #[tokio::test]
    async fn a_check_that_comes_while_the_last_sender_ends_has_a_sender_of_its_own() {
        let client = Client::builder("http://127.0.0.1:9").build().expect("that is an address").0;
        client.pending.lock().senders = MAX_SENDERS;
        let new = || BatchSender { client: Arc::clone(&client), started: true, ended: false };
        let mut ending: Vec<BatchSender> = (0..MAX_SENDERS).map(|_| new()).collect();
        assert!(ending.iter_mut().all(|sender| sender.next_batch().is_empty()));
        // The senders have found the queue empty, and are not dropped yet.
        let _result = client.enqueue(Vec::new());
        let about = |pending: &PendingChecks| (pending.senders, pending.sender_starts);
        assert_eq!(about(&client.pending.lock()), (1, true));
        drop(ending);
        assert_eq!(about(&client.pending.lock()), (1, true), "nobody is counted out twice");
    }
}
