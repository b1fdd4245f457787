use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use super::{LEAST_WORK, TURN_WORK, Turn};

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// A task with a turn, polled only when woken.
struct Task {
    turn: Turn,
    woken: Arc<Flag>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let woken = Arc::<Flag>::default();
        Self { turn: Turn::default(), waker: Arc::clone(&woken).into(), woken }
    }

    /// Returns the work of its turn, if it was woken and has one.
    fn poll(&mut self) -> Option<u32> {
        if !self.woken.0.swap(false, Relaxed) {
            return None;
        }
        match self.turn.begin(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(work) => Some(work),
            Poll::Pending => None,
        }
    }

    /// Starts a turn as if input had arrived.
    fn begin(&mut self) -> Option<u32> {
        self.woken.0.store(true, Relaxed);
        self.poll()
    }

    fn end(&mut self, work: u32, more: bool) {
        self.turn.end(work, more, &mut Context::from_waker(&self.waker));
    }
}

/// Returns the order in which tasks with endless work get their next turns.
fn turns(tasks: &mut [Task], count: usize) -> Vec<usize> {
    let mut seen = Vec::new();
    for _ in 0..100 * count {
        for (at, task) in tasks.iter_mut().enumerate() {
            if let Some(work) = task.poll() {
                seen.push(at);
                task.end(work, true);
            }
        }
        if seen.len() >= count {
            break;
        }
    }
    seen.truncate(count);
    seen
}

fn busy(count: usize) -> Vec<Task> {
    let mut tasks: Vec<Task> = (0..count).map(|_| Task::new()).collect();
    for task in &mut tasks {
        let work = task.begin().expect("it begins at once");
        task.end(work, true);
    }
    tasks
}

#[test]
fn those_that_have_more_to_do_have_their_turns_one_after_the_other() {
    let mut tasks = busy(3);
    assert_eq!(turns(&mut tasks, 7), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn who_comes_with_little_begins_at_once_however_long_the_line_is() {
    let mut line = busy(200);
    let mut good = Task::new();
    for _ in 0..10 {
        assert_eq!(good.begin(), Some(LEAST_WORK), "and has a short turn");
        good.end(20, false);
        turns(&mut line, 1);
    }
    drop(line);
    assert_eq!(good.begin(), Some(TURN_WORK), "alone it has a long one");
}

#[test]
fn input_does_not_take_anybody_out_of_the_line() {
    let mut tasks = busy(3);
    assert_eq!(turns(&mut tasks, 1), [0]);
    assert_eq!(tasks[0].begin(), None, "it has had its turn");
    assert_eq!(turns(&mut tasks, 3), [1, 2, 0]);
}

#[test]
fn who_is_done_or_gone_passes_the_turn_on() {
    let mut tasks = busy(4);
    assert_eq!(turns(&mut tasks, 1), [0]);
    // The first in the queue, and one in the middle.
    tasks.remove(1);
    tasks.remove(1);
    assert_eq!(turns(&mut tasks, 3), [1, 0, 1]);
    let work = (0..10).find_map(|_| tasks[0].poll()).expect("a turn");
    tasks[0].end(work, false);
    assert_eq!(turns(&mut tasks, 2), [1, 1]);
}

#[test]
fn work_beyond_a_turn_counts_to_the_next_ones() {
    let mut tasks = busy(2);
    let work = (0..10).find_map(|_| tasks[0].poll()).expect("a turn");
    tasks[0].end(work + 3 * TURN_WORK, true);
    assert_eq!(turns(&mut tasks, 5), [1, 1, 1, 1, 0]);
}

#[test]
fn a_debt_is_paid_in_line_even_by_who_comes_with_little() {
    let mut line = busy(1);
    let mut greedy = Task::new();
    let work = greedy.begin().expect("it begins at once");
    assert!(work < TURN_WORK);
    greedy.end(3 * TURN_WORK, false);
    assert_eq!(greedy.begin(), None);
    line.push(greedy);
    assert_eq!(turns(&mut line, 4), [0, 0, 0, 1]);
}
