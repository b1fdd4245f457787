//! Leases: units are spent once, in time, and never more than the limit promises, with any number of nodes.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::lease::{Grant, Lease, Rest, Terms};
use tidegate_core::{
    Algorithm, Calendar, CalendarUnit, LeakyMode, Limit, Micros, Outcome, State, Verdict, Window,
};
use tidegate_testkit::oracle::{self, Oracle};

use crate::for_all;

const SECOND_US: u64 = 1_000_000;

/// What happens in a step.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// So many requests of this cost come to the node at once.
    Requests { count: u64, cost: u64 },
    /// The oldest call of the node is answered.
    Reply,
    /// The oldest call of the node is lost on its way back.
    Loss,
    /// The node gives everything back.
    Release,
    /// The node crashes and starts again with another clock.
    Crash,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    node: usize,
    event: Event,
    wait_us: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event = prop_oneof![
        8 => (1_u64..60, prop_oneof![6 => Just(1_u64), 1 => 2_u64..9])
            .prop_map(|(count, cost)| Event::Requests { count, cost }),
        8 => Just(Event::Reply),
        1 => Just(Event::Loss),
        1 => Just(Event::Release),
        1 => Just(Event::Crash),
    ];
    let wait_us = prop_oneof![12 => 0_u64..10_000, 3 => 0_u64..100_000, 1 => 0_u64..2_000_000];
    vec(
        (prop_oneof![3 => Just(0_usize), 1 => 1_usize..4], event, wait_us)
            .prop_map(|(node, event, wait_us)| Step { node, event, wait_us }),
        1..80,
    )
}

fn limits() -> impl Strategy<Value = Limit> {
    let period = prop_oneof![Just(1_u64), Just(2), Just(10), Just(60)];
    let periodic =
        (0..3_u8, 20_u64..5_000, 20_u64..5_000, period).prop_map(|(kind, requests, burst, seconds)| {
            let algorithm = match kind {
                0 => Algorithm::FixedWindow,
                1 => Algorithm::SlidingWindow,
                _ => Algorithm::TokenBucket { burst },
            };
            Limit::new(algorithm, requests, Window::seconds(seconds)).unwrap()
        });
    let calendar = (20_u64..3_000).prop_map(|requests| {
        let days = Window::Calendar(Calendar::new(CalendarUnit::Day, "Europe/Berlin").unwrap());
        Limit::new(Algorithm::FixedWindow, requests, days).unwrap()
    });
    prop_oneof![6 => periodic, 1 => calendar]
}

#[derive(Default)]
struct Node {
    lease: Lease,
    /// Its clock is ahead of the store's by this, and gains so many microseconds in a thousand.
    ahead_us: u64,
    gains: i64,
    calls: VecDeque<Grant>,
}

impl Node {
    fn clock(&self, elapsed_us: u64) -> Micros {
        let gained = elapsed_us.cast_signed() / 1000 * self.gains;
        Micros((SECOND_US * 1_000_000 + self.ahead_us + elapsed_us).checked_add_signed(gained).unwrap())
    }
}

#[derive(Default)]
struct Tally {
    granted: u64,
    spent: u64,
    returned: u64,
    lost: u64,
}

/// Nodes, and the counter that they share.
struct Fleet {
    terms: Terms,
    state: State,
    promised: Box<dyn Oracle>,
    start: Micros,
    elapsed_us: u64,
    nodes: Vec<Node>,
    tally: Tally,
    leased: u64,
}

impl Fleet {
    fn new(limit: &Limit, start: Micros) -> Self {
        let node = |number: u64| Node {
            ahead_us: number * 3_600 * SECOND_US,
            gains: [0, 50, -50, 20][number as usize],
            ..Node::default()
        };
        Self {
            terms: Terms::new(limit, SECOND_US).unwrap(),
            state: limit.fresh(),
            promised: oracle::of(limit),
            start,
            elapsed_us: 0,
            nodes: (0..4).map(node).collect(),
            tally: Tally::default(),
            leased: 0,
        }
    }

    fn now(&self) -> Micros {
        self.start.plus(self.elapsed_us)
    }

    /// A unit is used where a client can see it.
    fn admit(&mut self, cost: u64) {
        let now = self.now();
        assert!(self.promised.fits(cost, now, false), "{cost} more at {now:?} than {:?}", self.terms.limit());
        self.promised.take(cost, now);
    }

    fn request(&mut self, number: usize, cost: u64) {
        let (now, local) = (self.now(), self.nodes[number].clock(self.elapsed_us));
        let node = &mut self.nodes[number];
        if node.lease.spend(cost, local).is_some() {
            self.tally.spent += cost;
            self.leased += cost;
            self.admit(cost);
        } else {
            let verdict = self.terms.shared().charge(&mut self.state, cost, now);
            node.lease.observe(if verdict.allowed() { cost } else { 0 }, &verdict, local);
            if verdict.allowed() {
                self.admit(cost);
            }
        }
        let node = &mut self.nodes[number];
        if let Some(units) = node.lease.renewal(&self.terms, local) {
            let (units, verdict) = self.terms.shared().charge_up_to(&mut self.state, units, now);
            self.tally.granted += units;
            node.calls.push_back(Grant { units, verdict, at: now, sent: local });
        }
    }

    fn give_back(&mut self, rest: Option<Rest>) {
        if let Some(Rest { units, taken }) = rest {
            self.tally.returned += units;
            let now = self.now();
            self.terms.shared().give_back_taken(&mut self.state, units, taken, now);
        }
    }

    fn run(&mut self, step: &Step) {
        self.elapsed_us += step.wait_us;
        let local = self.nodes[step.node].clock(self.elapsed_us);
        let node = &mut self.nodes[step.node];
        match step.event {
            Event::Requests { count, cost } => (0..count).for_each(|_| self.request(step.node, cost)),
            Event::Reply => {
                let rest = node.calls.pop_front().and_then(|grant| {
                    let over = node.lease.release_if_over(local);
                    let rest = node.lease.grant(&self.terms, &grant, local);
                    assert!(over.is_none() || rest.is_none() || rest.unwrap().units == grant.units);
                    self.tally.returned += over.map_or(0, |rest| rest.units);
                    rest
                });
                self.give_back(rest);
            }
            Event::Loss => {
                if let Some(grant) = node.calls.pop_front() {
                    self.tally.lost += grant.units;
                    node.lease.renewal_failed();
                }
            }
            Event::Release => {
                let rest = node.lease.release();
                self.give_back(rest);
            }
            Event::Crash => {
                self.tally.lost += node.lease.units();
                self.tally.lost += node.calls.drain(..).map(|grant| grant.units).sum::<u64>();
                node.lease = Lease::default();
                node.ahead_us /= 2;
            }
        }
        let held: u64 = self.nodes.iter().map(|node| node.lease.units()).sum();
        let under_way: u64 = self.nodes.iter().flat_map(|node| &node.calls).map(|grant| grant.units).sum();
        let Tally { granted, spent, returned, lost } = self.tally;
        assert_eq!(granted, spent + returned + lost + held + under_way, "every unit is somewhere, once");
    }
}

#[test]
fn nodes_never_spend_more_than_the_limit_promises_and_lose_count_of_nothing() {
    let leased = std::cell::Cell::new(0);
    for_all(400, (limits(), 0_u64..100 * SECOND_US, steps()), |(limit, offset_us, steps)| {
        let mut fleet = Fleet::new(&limit, Micros(1_700_000_000 * SECOND_US + offset_us));
        for step in &steps {
            fleet.run(step);
        }
        leased.set(leased.get() + fleet.leased);
    });
    assert!(leased.get() > 2_000, "only {} units were spent from leases", leased.get());
}

fn grant(units: u64, at: Micros, sent: Micros) -> Grant {
    let verdict = Verdict { outcome: Outcome::Allowed, remaining: 10_000, reset_after_us: 60 * SECOND_US };
    Grant { units, verdict, at, sent }
}

fn minute() -> Terms {
    Terms::new(&Limit::token_bucket(1_000, Window::seconds(60)).unwrap(), SECOND_US).unwrap()
}

#[test]
fn units_are_spent_until_fifteen_sixteenths_of_their_time_and_not_after() {
    let (terms, sent) = (minute(), Micros(7 * SECOND_US));
    for (wait_us, spends) in [(0, true), (937_499, true), (937_500, false), (30 * SECOND_US, false)] {
        let mut lease = Lease::default();
        assert_eq!(lease.grant(&terms, &grant(5, Micros(900 * SECOND_US), sent), sent), None);
        assert_eq!(lease.spend(1, sent.plus(wait_us)).is_some(), spends, "after {wait_us} us");
        let held = if spends { 4 } else { 5 };
        assert_eq!(
            lease.release_if_over(sent.plus(wait_us)).map(|rest| rest.units),
            (!spends).then_some(held)
        );
    }
}

#[test]
fn a_grant_that_comes_too_late_goes_back_at_once() {
    let (terms, sent) = (minute(), Micros(7 * SECOND_US));
    let mut lease = Lease::default();
    let late = sent.plus(SECOND_US);
    let rest = lease.grant(&terms, &grant(5, Micros(900 * SECOND_US), sent), late).unwrap();
    assert_eq!((rest.units, rest.taken.at, lease.units()), (5, Micros(900 * SECOND_US), 0));
}

#[test]
fn a_node_whose_clock_stepped_back_spends_nothing() {
    let (terms, sent) = (minute(), Micros(7 * SECOND_US));
    let mut lease = Lease::default();
    assert_eq!(lease.grant(&terms, &grant(5, Micros(900 * SECOND_US), sent), sent.plus(10)), None);
    assert_eq!(lease.spend(1, sent.minus(1)), None);
}

#[test]
fn units_of_a_window_end_with_it() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
        let limit = Limit::new(algorithm, 1_000, Window::seconds(60)).unwrap();
        let terms = Terms::new(&limit, SECOND_US).unwrap();
        assert_eq!(terms.shared(), &limit);
        assert_eq!(terms.ends(Micros(59_900_000)), Micros(60_000_000));
        assert_eq!(terms.ends(Micros(60_000_000)), Micros(61_000_000));
    }
}

#[test]
fn a_bucket_keeps_back_what_refills_while_units_are_held() {
    for (requests, seconds, longest_us, burst) in
        [(1_000, 60, SECOND_US, 983), (500, 1, 50_000, 475), (19, 1, 0, 19), (0, 1, 0, 1)]
    {
        let limit = Limit::token_bucket(requests, Window::seconds(seconds)).unwrap();
        let terms = Terms::new(&limit, SECOND_US).unwrap();
        assert_eq!((terms.longest_us(), terms.shared().burst()), (longest_us, burst), "{limit}");
    }
}

#[test]
fn the_last_units_are_left_to_whoever_asks() {
    let terms = minute();
    for (room, most) in [(800, 100), (80, 10), (15, 0), (0, 0)] {
        let (mut lease, now) = (Lease::default(), Micros(7 * SECOND_US));
        let verdict = Verdict { outcome: Outcome::Allowed, remaining: room, reset_after_us: 0 };
        (0..10_000).for_each(|_| lease.observe(1, &verdict, now));
        assert_eq!(lease.renewal(&terms, now).unwrap_or(0), most, "of {room}");
        assert_eq!(lease.renewal(&terms, now), None, "while one is under way");
    }
}

#[test]
fn after_a_denial_nothing_is_leased_until_a_request_passes() {
    let (terms, now) = (minute(), Micros(7 * SECOND_US));
    let mut lease = Lease::default();
    let passed = Verdict { outcome: Outcome::Allowed, remaining: 800, reset_after_us: 0 };
    let denied =
        Verdict { outcome: Outcome::Denied { retry_after_us: 1 }, remaining: 800, reset_after_us: 0 };
    (0..100).for_each(|_| lease.observe(1, &passed, now));
    lease.observe(0, &denied, now);
    assert_eq!(lease.renewal(&terms, now), None);
    lease.observe(1, &passed, now);
    assert!(lease.renewal(&terms, now).is_some());
}

#[test]
fn a_lease_follows_demand() {
    let (terms, start) = (minute(), Micros(7 * SECOND_US));
    let passed = Verdict { outcome: Outcome::Allowed, remaining: 1 << 40, reset_after_us: 0 };
    let target_at = |rate: u64| {
        let mut lease = Lease::default();
        let mut now = start;
        for _ in 0..5 * rate {
            now = now.plus(SECOND_US / rate);
            lease.observe(1, &passed, now);
        }
        (lease.renewal(&terms, now).unwrap_or(0), lease.is_idle(now), lease.is_idle(now.plus(40 * SECOND_US)))
    };
    for rate in [1, 10, 100, 1_000, 10_000] {
        let (units, ..) = target_at(rate);
        let half_a_second = rate / 2;
        assert!(units <= half_a_second + half_a_second / 10, "{units} at {rate}/s");
        assert!(units >= half_a_second * 8 / 10 || units == 0 && rate < 10, "{units} at {rate}/s");
    }
    assert_eq!((target_at(1).1, target_at(1).2), (false, true));
}

#[test]
fn spending_is_undone_only_into_the_grant_it_came_from() {
    let (terms, sent) = (minute(), Micros(7 * SECOND_US));
    let mut lease = Lease::default();
    assert_eq!(lease.grant(&terms, &grant(5, Micros(900 * SECOND_US), sent), sent), None);
    let (_, mark) = lease.spend(2, sent).unwrap();
    assert!(lease.unspend(2, mark));
    assert_eq!(lease.units(), 5);
    let later = sent.plus(900_000);
    let rest = lease.grant(&terms, &grant(7, Micros(901 * SECOND_US), later), later).unwrap();
    assert_eq!((rest.units, lease.units()), (5, 7));
    assert!(!lease.unspend(2, mark));
    assert_eq!(lease.units(), 7);
}

#[test]
fn what_cannot_be_leased_is_refused_with_the_reason() {
    let second = Window::seconds(1);
    for (algorithm, reason) in [
        (Algorithm::SlidingLog, "at the moment it is made"),
        (Algorithm::SubWindows { buckets: 5 }, "too short"),
        (Algorithm::LeakyBucket { burst: 5, mode: LeakyMode::Meter }, "evens out"),
        (Algorithm::Concurrency, "a slot has a holder"),
    ] {
        let refused =
            Terms::new(&Limit::new(algorithm, 100, second.clone()).unwrap(), SECOND_US).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
        assert!(refused.to_string().starts_with(algorithm.name()), "{refused}");
    }
}
