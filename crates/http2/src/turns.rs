//! Fair scheduling of the connections of a thread.
//!
//! A connection that is woken runs at once, with a turn that is shorter the more others wait. What it cannot do in
//! that turn, it does in a queue with the others, one turn each. Before the first in the queue runs, the runtime
//! polls for I/O and runs other connections. So a single request waits for about one turn, however overloaded the
//! other connections are.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Work of one turn. A unit is about a quarter of a microsecond.
pub(crate) const TURN_WORK: u32 = 512;
/// Work of the shortest turn: enough for a single request.
const LEAST_WORK: u32 = 64;

thread_local! {
    /// The queue of the connections that are created on this thread.
    static LINE: RefCell<Arc<Line>> = RefCell::default();
}

/// The queue of connections that wait for a turn.
#[derive(Debug, Default)]
struct Line {
    waiting: Mutex<Waiting>,
    /// The length of the queue, so that starting a turn needs no lock.
    length: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The queue. The first task is awake, or will be once the runtime has polled for I/O.
    line: VecDeque<(u64, Waker)>,
    next_ticket: u64,
    /// Work done by queued connections since the runtime last polled for I/O.
    work: u32,
}

impl Waiting {
    /// Returns the index of a ticket. Tickets only grow.
    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.line.binary_search_by_key(&ticket, |(known, _)| *known)
    }
}

/// The turns of one connection among the others of its thread.
///
/// In every poll, call [`begin`](Self::begin) before any work and [`end`](Self::end) after it.
/// [`Server`](crate::Server) does this itself; use this type for other servers on the same thread.
///
/// ```
/// use std::task::{Context, Poll, Waker};
/// use tidegate_http2::Turn;
///
/// let mut turn = Turn::default();
/// let mut cx = Context::from_waker(Waker::noop());
/// let Poll::Ready(work) = turn.begin(&mut cx) else { unreachable!("nobody else waits") };
/// assert!(work > 0);
/// turn.end(work, false, &mut cx);
/// ```
#[derive(Debug)]
pub struct Turn {
    line: Arc<Line>,
    /// The ticket of this connection, if it is queued.
    ticket: Option<u64>,
    /// Whether the runtime has polled for I/O since this connection became the first in the queue.
    has_yielded: bool,
    /// Work done beyond the last turn. It is charged to the next ones.
    debt: u32,
}

impl Default for Turn {
    fn default() -> Self {
        let line = LINE.with_borrow(Arc::clone);
        Self { line, ticket: None, has_yielded: false, debt: 0 }
    }
}

impl Turn {
    /// Returns how much work may be done now. If it is pending, other connections run first: do nothing until the
    /// task is woken.
    pub fn begin(&mut self, cx: &mut Context<'_>) -> Poll<u32> {
        if self.ticket.is_none() {
            if self.debt == 0 {
                let others = u32::try_from(self.line.length.load(Relaxed)).unwrap_or(u32::MAX);
                return Poll::Ready((TURN_WORK / others.saturating_add(1)).max(LEAST_WORK));
            }
            self.queue(cx);
            return Poll::Pending;
        }
        let mut waiting = self.line.waiting.lock();
        if !self.is_first(&mut waiting, cx) {
            return Poll::Pending;
        }
        if std::mem::take(&mut self.has_yielded) {
            waiting.work = 0;
        } else if waiting.work >= TURN_WORK / 2 {
            drop(waiting);
            self.yield_to_others(cx);
            return Poll::Pending;
        }
        drop(waiting);
        let paid = self.debt.min(TURN_WORK);
        self.debt -= paid;
        if paid == TURN_WORK {
            self.end(TURN_WORK, true, cx);
            return Poll::Pending;
        }
        Poll::Ready(TURN_WORK - paid)
    }

    /// Ends a turn in which `work` units were done, which may exceed what [`begin`](Self::begin) allowed. With
    /// `more`, the connection is queued for another turn, and its task is woken for it.
    pub fn end(&mut self, work: u32, more: bool, cx: &mut Context<'_>) {
        // The cost of an operation is not known in advance; the largest may exceed a whole turn.
        self.debt = self.debt.saturating_add(work.saturating_sub(TURN_WORK));
        self.leave(work);
        if more {
            self.queue(cx);
        }
    }

    /// Appends this connection to the queue.
    fn queue(&mut self, cx: &mut Context<'_>) {
        let mut waiting = self.line.waiting.lock();
        let ticket = waiting.next_ticket;
        waiting.next_ticket += 1;
        waiting.line.push_back((ticket, cx.waker().clone()));
        self.line.length.store(waiting.line.len(), Relaxed);
        self.ticket = Some(ticket);
        let is_first = waiting.line.len() == 1;
        drop(waiting);
        if is_first {
            self.yield_to_others(cx);
        }
    }

    /// Leaves the queue, if queued, and wakes the next connection if this was the first.
    fn leave(&mut self, work: u32) {
        let Some(ticket) = self.ticket.take() else { return };
        self.has_yielded = false;
        let mut waiting = self.line.waiting.lock();
        let Ok(at) = waiting.find(ticket) else { return };
        waiting.line.remove(at);
        self.line.length.store(waiting.line.len(), Relaxed);
        if at > 0 {
            return;
        }
        waiting.work = waiting.work.saturating_add(work);
        let next = waiting.line.front().map(|(_, waker)| waker.clone());
        drop(waiting);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Returns whether this connection is the first in the queue. Also updates its stored waker.
    fn is_first(&self, waiting: &mut Waiting, cx: &Context<'_>) -> bool {
        let Some(Ok(at)) = self.ticket.map(|ticket| waiting.find(ticket)) else { return true };
        let (_, waker) = &mut waiting.line[at];
        if !waker.will_wake(cx.waker()) {
            waker.clone_from(cx.waker());
        }
        at == 0
    }

    /// Lets the runtime poll for I/O and run other connections before this one is polled again.
    fn yield_to_others(&mut self, cx: &mut Context<'_>) {
        self.has_yielded = true;
        yield_now(cx);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave(0);
    }
}

/// Wakes the task after the runtime has polled for I/O.
pub(crate) fn yield_now(cx: &mut Context<'_>) {
    // A single poll is enough to register the waker.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

#[cfg(test)]
mod tests;
