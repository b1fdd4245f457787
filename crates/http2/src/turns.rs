//! Whose turn it is on a thread that serves many connections.
//!
//! A connection that is woken begins at once, with a turn that is shorter the more others wait. Whatever it
//! cannot do in that turn, it does in line with the others: one after the other, a turn each. Before the first in
//! line has its turn, the runtime looks for input of other connections and polls them. So a request that comes alone
//! waits for about one turn, however many connections have more to do than there is time for.

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
/// Work of the shortest turn: enough for a request that comes alone.
const LEAST_WORK: u32 = 64;

thread_local! {
    /// The line of the connections that begin on this thread.
    static LINE: RefCell<Arc<Line>> = RefCell::default();
}

/// The connections that wait for a turn.
#[derive(Debug, Default)]
struct Line {
    waiting: Mutex<Waiting>,
    /// How many wait, so that a connection that begins need not lock.
    length: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The first of them is awake, or will be once the runtime has looked for input.
    line: VecDeque<(u64, Waker)>,
    next_ticket: u64,
    /// Work that was done in line since the runtime looked for input.
    work: u32,
}

impl Waiting {
    /// The place of a number. They only grow.
    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.line.binary_search_by_key(&ticket, |(known, _)| *known)
    }
}

/// A connection's place among the others of its thread.
///
/// Call [`begin`](Self::begin) before any work, and [`end`](Self::end) after it, in every poll. For connections of other
/// servers than [`Server`](crate::Server), which takes its turns by itself.
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
    /// Its number in line, if it waits.
    ticket: Option<u64>,
    /// Whether the runtime has looked for input since this is the first in line.
    has_yielded: bool,
    /// Work that was done beyond the last turn; it counts to the next ones.
    debt: u32,
}

impl Default for Turn {
    fn default() -> Self {
        let line = LINE.with_borrow(Arc::clone);
        Self { line, ticket: None, has_yielded: false, debt: 0 }
    }
}

impl Turn {
    /// Returns how much work may be done now. If it is pending, others are first, and the task is woken when it is its
    /// turn: nothing is to be done until then.
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

    /// Ends a turn in which so much work was done, of what [`begin`](Self::begin) has allowed or beyond. With `more`,
    /// the connection waits in line for another, and its task is woken then.
    pub fn end(&mut self, work: u32, more: bool, cx: &mut Context<'_>) {
        // What one operation takes cannot be known before; the largest may have more than a turn.
        self.debt = self.debt.saturating_add(work.saturating_sub(TURN_WORK));
        self.leave(work);
        if more {
            self.queue(cx);
        }
    }

    /// Goes to the end of the line.
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

    /// Leaves the line, if it is in it, and wakes the next if it was the first.
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

    /// Whether this is the first in line. The one that wakes it is the waker that it was polled with last.
    fn is_first(&self, waiting: &mut Waiting, cx: &Context<'_>) -> bool {
        let Some(Ok(at)) = self.ticket.map(|ticket| waiting.find(ticket)) else { return true };
        let (_, waker) = &mut waiting.line[at];
        if !waker.will_wake(cx.waker()) {
            waker.clone_from(cx.waker());
        }
        at == 0
    }

    /// Lets the runtime look for input of other connections, and poll them, before this one is polled again.
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

/// Wakes the task after the runtime has looked for input.
pub(crate) fn yield_now(cx: &mut Context<'_>) {
    // Polled once, it has asked for that already.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

#[cfg(test)]
mod tests;
