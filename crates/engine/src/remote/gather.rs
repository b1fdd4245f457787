//! Checks that are made at the same time go together.
//!
//! The first check starts an exchange when its task next waits, so that others of the same moment go along.
//! While as many exchanges are under way as may be, checks gather for the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::answer::Answer;
use super::breaker::Pass;
use super::{RemoteError, Service};

const MOST_UNDER_WAY: usize = 2;
const MOST_PER_BATCH: usize = 1_000;
/// Bytes of a batch at most, unless one check alone is longer: services refuse messages over a mebibyte.
const MOST_BYTES: usize = 512 << 10;

const CHECK: &str = "/v1/check";

/// Checks that wait to be sent.
#[derive(Default)]
pub(super) struct Gathering {
    waiting: VecDeque<Waiting>,
    /// Tasks that send, or are about to.
    senders: usize,
    /// Whether one of them has yet to take what waits.
    about_to_take: bool,
}

struct Waiting {
    body: Vec<u8>,
    answer: oneshot::Sender<Result<Answer, RemoteError>>,
}

/// A task that sends; its runtime may end at any moment.
struct Sender {
    service: Arc<Service>,
    taken: bool,
    /// Whether it counts as one that sends no more.
    ended: bool,
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut gathering = self.service.gathering.lock();
        gathering.senders -= 1;
        gathering.about_to_take &= self.taken;
    }
}

/// Finding out whether the service is back, until dropped.
struct Probe<'a>(&'a Service);

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.0.breaker.lock().gave_up(Instant::now());
    }
}

impl Service {
    /// What the service answers to a check, within the deadline.
    pub(super) async fn check(self: &Arc<Self>, body: Vec<u8>) -> Result<Answer, RemoteError> {
        let answer = match self.pass() {
            Pass::Not => Err(RemoteError::Away),
            Pass::Alone => {
                let _probe = Probe(self);
                self.send_one(body).await
            }
            Pass::Together => {
                let answer = self.gather(body);
                match timeout(self.deadline, answer).await {
                    Ok(Ok(answer)) => answer,
                    // The task that sends has ended with its runtime.
                    Ok(Err(_)) => Err(RemoteError::Away),
                    Err(_) => Err(RemoteError::TooLate(self.deadline)),
                }
            }
        };
        match &answer {
            Ok(_) => _ = self.counts.answered.fetch_add(1, Relaxed),
            Err(error) => self.note(error),
        }
        answer
    }

    /// One exchange that is not a check, within the deadline.
    pub(super) async fn ask(&self, path: &str, body: Vec<u8>) -> Result<super::post::Reply, RemoteError> {
        let pass = self.pass();
        if pass == Pass::Not {
            return Err(RemoteError::Away);
        }
        let _probe = (pass == Pass::Alone).then(|| Probe(self));
        self.exchange(path, body).await
    }

    fn pass(&self) -> Pass {
        self.breaker.lock().pass(Instant::now())
    }

    /// Sends and tells the breaker how it went.
    async fn exchange(&self, path: &str, body: Vec<u8>) -> Result<super::post::Reply, RemoteError> {
        let reply = self.http.post(path, body).await;
        let mut breaker = self.breaker.lock();
        match &reply {
            Err(why @ (RemoteError::Unreachable(_) | RemoteError::TooLate(_))) => {
                breaker.failed(Instant::now(), why);
            }
            _ => breaker.answered(),
        }
        reply
    }

    async fn send_one(&self, body: Vec<u8>) -> Result<Answer, RemoteError> {
        self.counts.batches.fetch_add(1, Relaxed);
        Answer::of_one(&self.exchange(CHECK, body).await?)
    }

    /// Lets a check wait for the next exchange, which is started if none is.
    fn gather(self: &Arc<Self>, body: Vec<u8>) -> oneshot::Receiver<Result<Answer, RemoteError>> {
        let (answer, answered) = oneshot::channel();
        let mut gathering = self.gathering.lock();
        gathering.waiting.push_back(Waiting { body, answer });
        self.start_sender(&mut gathering);
        answered
    }

    fn start_sender(self: &Arc<Self>, gathering: &mut Gathering) {
        if gathering.senders < MOST_UNDER_WAY && !gathering.about_to_take {
            gathering.senders += 1;
            gathering.about_to_take = true;
            let sender = Sender { service: Arc::clone(self), taken: false, ended: false };
            tokio::spawn(sender.run());
        }
    }
}

impl Sender {
    async fn run(mut self) {
        // Behind every task that is ready to run: what they ask goes along.
        tokio::task::yield_now().await;
        loop {
            let batch = self.take();
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    /// What waits, as far as it fits; if more does, the next sender is started. If nothing does, this sender
    /// has ended before anybody else can look: a check that came between finding nothing and ending would
    /// count on a sender that looks no more. Once the service has failed, whoever waits for it is told so.
    fn take(&mut self) -> Vec<Waiting> {
        let away = !self.service.breaker.lock().is_closed();
        let mut gathering = self.service.gathering.lock();
        if !self.taken {
            self.taken = true;
            gathering.about_to_take = false;
        }
        if away {
            for Waiting { answer, .. } in gathering.waiting.drain(..) {
                // It may have given up.
                _ = answer.send(Err(RemoteError::Away));
            }
            self.ended = true;
            gathering.senders -= 1;
            return Vec::new();
        }
        let mut batch: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        while let Some(waiting) = gathering.waiting.pop_front() {
            if waiting.answer.is_closed() {
                continue; // nobody waits for it any more
            }
            if !batch.is_empty() && (batch.len() >= MOST_PER_BATCH || bytes + waiting.body.len() > MOST_BYTES)
            {
                gathering.waiting.push_front(waiting);
                break;
            }
            bytes += waiting.body.len() + 1;
            batch.push(waiting);
        }
        if batch.is_empty() {
            self.ended = true;
            gathering.senders -= 1;
        } else if !gathering.waiting.is_empty() {
            self.service.start_sender(&mut gathering);
        }
        batch
    }

    async fn send(&self, mut batch: Vec<Waiting>) {
        if batch.len() == 1 {
            if let Some(Waiting { body, answer }) = batch.pop() {
                // It may have given up.
                _ = answer.send(self.service.send_one(body).await);
            }
            return;
        }
        self.service.counts.batches.fetch_add(1, Relaxed);
        let (bodies, askers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|Waiting { body, answer }| (body, answer)).unzip();
        let reply = self.service.exchange(CHECK, list(&bodies)).await;
        match reply.and_then(|reply| Answer::of_batch(&reply, askers.len())) {
            Ok(answers) => {
                for (asker, answer) in askers.into_iter().zip(answers) {
                    _ = asker.send(answer);
                }
            }
            Err(error) => {
                for asker in askers {
                    _ = asker.send(Err(error.clone()));
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
    use crate::remote::Remote;

    #[tokio::test]
    async fn a_check_that_comes_while_the_last_sender_ends_has_a_sender_of_its_own() {
        let service = Remote::new("http://127.0.0.1:9").open().expect("that is an address");
        service.gathering.lock().senders = MOST_UNDER_WAY;
        let new = || Sender { service: Arc::clone(&service), taken: true, ended: false };
        let mut ending: Vec<Sender> = (0..MOST_UNDER_WAY).map(|_| new()).collect();
        assert!(ending.iter_mut().all(|sender| sender.take().is_empty()));
        // They have found nothing, and are not dropped yet.
        let _answer = service.gather(Vec::new());
        let about = |gathering: &Gathering| (gathering.senders, gathering.about_to_take);
        assert_eq!(about(&service.gathering.lock()), (1, true));
        drop(ending);
        assert_eq!(about(&service.gathering.lock()), (1, true), "nobody is counted out twice");
    }
}
