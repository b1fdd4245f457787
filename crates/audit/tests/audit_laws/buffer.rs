//! The buffer of records for the writer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_audit::{Lost, NotWritten, Settings, Trail};
use tidegate_core::VirtualClock;

use crate::support::{DEADLINE, Gate, change, close, denial, settings, until};

/// A trail whose writer is blocked on one change, so that the buffer begins empty and is only filled.
fn stuck(settings: &Settings) -> (Gate, Trail) {
    let gate = Gate::shut();
    let trail = Trail::start(gate.clone(), settings, Arc::new(VirtualClock::new()));
    trail.record(change(0));
    until("the writer has come in vain", || trail.failing().is_some());
    (gate, trail)
}

fn small(records: usize) -> Settings {
    Settings { buffer_records: records, ..settings() }
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["kind"].as_str().expect("a kind")).collect()
}

#[test]
fn the_buffer_is_bounded_and_what_did_not_fit_is_counted_and_told_by_the_next_line() {
    let (gate, trail) = stuck(&small(10));
    for number in 1..=25 {
        trail.record(change(number));
    }
    assert_eq!(trail.waiting(), 10);
    assert_eq!(trail.dropped().buffer_full, Lost { changes: 15, denials: 0 });
    assert!(trail.failing().is_some());
    gate.open();
    close(&trail);
    let lines = gate.lines();
    assert_eq!(lines.len(), 11);
    assert_eq!(lines[0].get("missing"), None);
    assert_eq!(lines[1]["missing"], json!({ "changes": 15, "denials": 0 }));
    assert!(lines[2..].iter().all(|line| line.get("missing").is_none()));
    assert_eq!((trail.written(), trail.failing()), (11, None));
    assert_eq!(trail.dropped().total(), 15);
}

#[test]
fn denials_take_half_of_the_buffer_at_most() {
    let (gate, trail) = stuck(&small(10));
    for number in 0..20 {
        trail.record(denial(number));
    }
    assert_eq!(trail.waiting(), 5);
    assert_eq!(trail.dropped().buffer_full, Lost { changes: 0, denials: 15 });
    for number in 1..=5 {
        trail.record(change(number));
    }
    assert_eq!(trail.dropped().buffer_full.changes, 0);
    gate.open();
    close(&trail);
    assert_eq!(kinds(&gate.lines()), [["change"; 6].as_slice(), &["denial"; 5]].concat());
}

#[test]
fn denials_make_way_for_changes() {
    let (gate, trail) = stuck(&small(10));
    for number in 0..5 {
        trail.record(denial(number));
    }
    for number in 1..=12 {
        trail.record(change(number));
    }
    assert_eq!(trail.dropped().buffer_full, Lost { changes: 2, denials: 5 });
    gate.open();
    close(&trail);
    assert_eq!(kinds(&gate.lines()), ["change"; 11]);
}

#[test]
fn the_buffer_is_bounded_in_bytes_too() {
    let (gate, trail) = stuck(&Settings { buffer_bytes: 4000, ..settings() });
    let mut large = change(1);
    large.after = Some(Value::String("x".repeat(1500)));
    for _ in 0..5 {
        trail.record(large.clone());
    }
    assert_eq!((trail.waiting(), trail.dropped().buffer_full.changes), (2, 3));
    gate.open();
    close(&trail);
}

#[test]
fn a_trail_that_is_closed_while_its_sink_takes_nothing_counts_what_is_lost() {
    let (gate, trail) = stuck(&settings());
    trail.record(change(1));
    trail.record(denial(2));
    assert!(!trail.close(Duration::ZERO));
    assert_eq!(trail.dropped().unwritten, Lost { changes: 2, denials: 1 });
    trail.record(change(3));
    assert_eq!(trail.dropped().unwritten.changes, 3);
    assert_eq!(gate.lines().len(), 0);
}

#[test]
fn the_last_handle_that_goes_leaves_nothing_unwritten() {
    let gate = Gate::default();
    let trail = Trail::start(gate.clone(), &settings(), Arc::new(VirtualClock::new()));
    let other = trail.clone();
    for number in 0..100 {
        trail.record(change(number));
    }
    drop(trail);
    other.record(change(100));
    drop(other);
    until("101 lines", || gate.lines().len() == 101);
}

#[tokio::test]
async fn a_change_is_acknowledged_once_it_is_written() {
    let gate = Gate::default();
    let trail = Trail::start(gate.clone(), &settings(), Arc::new(VirtualClock::new()));
    for number in 1..=50 {
        let seq = trail.record_and_wait(change(number)).within(DEADLINE).await;
        assert_eq!(seq, Ok(number));
        assert_eq!(gate.lines().len() as u64, number);
    }
    close(&trail);
}

#[tokio::test]
async fn a_change_that_is_not_written_is_never_acknowledged() {
    let (gate, trail) = stuck(&small(2));
    let waits = trail.record_and_wait(change(1));
    let late = trail.record_and_wait(change(2)).within(Duration::from_millis(1)).await;
    assert_eq!(late, Err(NotWritten::Late));
    let full = trail.record_and_wait(change(3)).within(DEADLINE).await;
    assert_eq!(full, Err(NotWritten::Dropped));
    gate.open();
    assert_eq!(waits.within(DEADLINE).await, Ok(2));
    close(&trail);
    let closed = trail.record_and_wait(change(4)).within(DEADLINE).await;
    assert_eq!(closed, Err(NotWritten::Dropped));
    assert_eq!(gate.lines().len(), 3, "who was told that it was late finds it all the same");
}

#[test]
fn denials_wait_for_company_and_changes_do_not() {
    let gate = Gate::default();
    let patient = Settings { gather: DEADLINE, ..settings() };
    let trail = Trail::start(gate.clone(), &patient, Arc::new(VirtualClock::new()));
    trail.record(denial(1));
    trail.record(denial(2));
    trail.record(change(3));
    until("the change is written", || trail.written() == 3);
    assert_eq!(kinds(&gate.lines()).iter().filter(|kind| **kind == "denial").count(), 2);
    trail.record(denial(4));
    close(&trail);
    assert_eq!(gate.lines().len(), 4);
}

#[test]
fn denials_that_are_company_enough_wait_no_longer() {
    let gate = Gate::default();
    let patient = Settings { gather: 20 * DEADLINE, ..small(100) };
    let trail = Trail::start(gate.clone(), &patient, Arc::new(VirtualClock::new()));
    for number in 0..25 {
        trail.record(denial(number));
    }
    until("a quarter of the buffer is written", || trail.written() == 25);
    close(&trail);
}
