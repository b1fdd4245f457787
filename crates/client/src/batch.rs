//! Checks of one moment as one HTTP request.
//!
//! The first check starts a task that sends when it is next run, so that other checks of the same moment go along.
//! While as many HTTP requests are under way as may be, checks wait for the next one.

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
/// Bytes of a batch at most, unless one check alone is longer: services reject messages over a mebibyte.
const MAX_BYTES: usize = 512 << 10;

const CHECK: &str = "/v1/check";

/// Checks that wait to be sent.
#[derive(Default)]
pub(crate) struct PendingChecks {
    queue: VecDeque<PendingCheck>,
    /// Tasks that send, or are about to.
    senders: usize,
    /// Whether one of them has yet to look at the queue for the first time.
    sender_starts: bool,
}

struct PendingCheck {
    body: Vec<u8>,
    result: oneshot::Sender<Result<Statement, ClientError>>,
}

/// A task that sends batches; its runtime may end at any moment.
struct BatchSender {
    client: Arc<Inner>,
    /// Whether it has looked at the queue.
    started: bool,
    /// Whether it has been subtracted from the senders already.
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

/// The one request that finds out whether the service is back, until dropped.
struct Probe<'a>(&'a Inner);

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.0.breaker.lock().gave_up(Instant::now());
    }
}

impl Inner {
    /// Returns what the service decides about a check, within the deadline.
    pub(crate) async fn check(self: &Arc<Self>, body: Vec<u8>) -> Result<Statement, ClientError> {
        let result = match self.pass() {
            Pass::Not => Err(ClientError::Away),
            Pass::Alone => {
                let _probe = Probe(self);
                self.send_one(body).await
            }
            Pass::Together => match timeout(self.deadline, self.enqueue(body)).await {
                Ok(Ok(result)) => result,
                // The task that sends has ended with its runtime.
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

    /// Sends, and tells the breaker how it went.
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

    /// Adds a check to those that wait for the next batch, and starts a task that sends it unless there is one.
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
        // After every task that is ready to run, so that their checks go along.
        tokio::task::yield_now().await;
        loop {
            let batch = self.next_batch();
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    /// Returns the checks that wait, as far as they fit into a batch; if more wait, another sender is started. If
    /// none wait, this sender ends under the same lock: a check that came between finding none and ending would
    /// otherwise count on a sender that does not look again. Once the service has failed, those that wait for it
    /// are told so.
    fn next_batch(&mut self) -> Vec<PendingCheck> {
        let away = !self.client.breaker.lock().is_closed();
        let mut pending = self.client.pending.lock();
        if !self.started {
            self.started = true;
            pending.sender_starts = false;
        }
        if away {
            for PendingCheck { result, .. } in pending.queue.drain(..) {
                // Whoever asked may have given up.
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
                continue; // nobody waits for it any more
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
                // Whoever asked may have given up.
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
        // They have found nothing, and are not dropped yet.
        let _result = client.enqueue(Vec::new());
        let about = |pending: &PendingChecks| (pending.senders, pending.sender_starts);
        assert_eq!(about(&client.pending.lock()), (1, true));
        drop(ending);
        assert_eq!(about(&client.pending.lock()), (1, true), "nobody is counted out twice");
    }
}
