//! The loop of events.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use tidegate_core::{Clock, Key, KeySeed, Micros, VirtualClock};
use tidegate_stores::StoreError;
use tidegate_stores::leased::Ledger;

use crate::network::{Call, Operation, Reply, Wire};
use crate::node::{Decided, Node};
use crate::report::Report;
use crate::scenario::{Consistency, Fault, Scenario};
use crate::shared::{Promise, Shared};

/// When every world begins: at a whole second, within a minute.
const START: Micros = Micros(1_700_000_003_000_000);
const SWEEP_EVERY_US: u64 = 100_000;

enum Event {
    Arrival { node: usize, counts: bool },
    AtStore(Call),
    AtNode { node: usize, id: u64, reply: Result<Reply, StoreError> },
    Tick { node: usize },
    Fault(Fault),
    Back { node: usize },
}

pub(crate) struct World<'s> {
    scenario: &'s Scenario,
    rng: Rng,
    now_us: u64,
    sequence: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: std::collections::BTreeMap<u64, Event>,
    nodes: Vec<Node>,
    /// Until when each node stands still, is cut off, or is down.
    paused_until: Vec<u64>,
    cut_off_until: Vec<u64>,
    down_until: Vec<u64>,
    wire: Arc<Mutex<Wire>>,
    /// Calls that wait for a reply.
    open: BTreeSet<u64>,
    shared: Shared,
    promise: Promise,
    /// The same limit on one node that gets all requests.
    ideal: Promise,
    keys: Vec<Key>,
    report: Report,
    gone: Ledger,
}

impl<'s> World<'s> {
    pub(crate) fn new(scenario: &'s Scenario) -> Self {
        let wire = Arc::new(Mutex::new(Wire::default()));
        let node = |number| Node::new(scenario, number, VirtualClock::at(START), &wire);
        let count = scenario.traffic.len();
        let keys = (0..scenario.keys.max(1)).map(|key| KeySeed(1).text(&format!("key {key:08}"))).collect();
        let mut world = Self {
            scenario,
            rng: Rng::with_seed(scenario.seed),
            now_us: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            events: std::collections::BTreeMap::new(),
            nodes: (0..count).map(node).collect(),
            paused_until: vec![0; count],
            cut_off_until: vec![0; count],
            down_until: vec![0; count],
            wire,
            open: BTreeSet::new(),
            shared: Shared::default(),
            promise: Promise::new(&scenario.limit),
            ideal: Promise::new(&scenario.limit),
            keys,
            report: Report::new(scenario),
            gone: Ledger::default(),
        };
        for node in 0..count {
            world.next_arrival(node);
            let first_us = world.rng.u64(0..world.tick_us());
            world.after(first_us, Event::Tick { node });
        }
        for fault in &scenario.faults {
            let (Fault::Crash { at_us, .. }
            | Fault::Pause { at_us, .. }
            | Fault::Restart { at_us, .. }
            | Fault::Partition { at_us, .. }
            | Fault::Failover { at_us, .. }) = *fault;
            world.after(at_us, Event::Fault(*fault));
        }
        world
    }

    pub(crate) fn run(mut self) -> Report {
        while let Some(Reverse((at_us, number))) = self.queue.pop() {
            if at_us > self.scenario.duration_us || self.report.broken.is_some() {
                break;
            }
            self.now_us = at_us;
            self.set_clocks();
            if let Some(event) = self.events.remove(&number) {
                self.handle(event);
            }
            self.send();
            self.check();
        }
        self.report.ended(self.now_us);
        self.report
    }

    fn tick_us(&self) -> u64 {
        match self.scenario.consistency {
            Consistency::Synced { every_us } => every_us,
            _ => SWEEP_EVERY_US,
        }
    }

    /// The time of the store.
    fn now(&self) -> Micros {
        START.plus(self.now_us)
    }

    /// The clocks of nodes are hours apart, and run up to 4 % fast or slow.
    fn set_clocks(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            let gains = [0, 40, -40, 13][number % 4];
            let gained = self.now_us.cast_signed() / 1_000 * gains;
            let ahead_us = number as u64 * 3_600_000_000;
            let shown = START.0.saturating_add(ahead_us + self.now_us).saturating_add_signed(gained);
            // Clocks never run backwards.
            if shown > node.clock().now().0 {
                node.clock().set(Micros(shown));
            }
        }
    }

    fn after(&mut self, us: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now_us + us, self.sequence)));
        self.events.insert(self.sequence, event);
    }

    fn next_arrival(&mut self, node: usize) {
        let (gap_us, counts) = self.scenario.traffic[node].next(self.now_us, &mut self.rng);
        self.after(gap_us, Event::Arrival { node, counts });
    }

    fn handle(&mut self, event: Event) {
        let waits_us = match &event {
            Event::AtNode { node, .. } | Event::Tick { node } | Event::Arrival { node, .. } => {
                self.paused_until[*node].saturating_sub(self.now_us)
            }
            _ => 0,
        };
        match event {
            Event::Arrival { node, counts } => {
                self.next_arrival(node);
                if counts && waits_us > 0 {
                    self.after(waits_us, Event::Back { node });
                } else if counts {
                    self.arrive(node);
                }
            }
            event if waits_us > 0 => self.after(waits_us, event),
            Event::Back { node } => self.arrive(node),
            Event::AtStore(call) => self.at_store(&call),
            Event::AtNode { node, id, reply } => {
                if self.open.remove(&id) {
                    self.wire.lock().inbox.insert(id, reply);
                    self.poll(node);
                }
            }
            Event::Tick { node } => {
                if self.down_until[node] <= self.now_us {
                    self.nodes[node].tick();
                    self.poll(node);
                }
                let every_us = self.tick_us();
                self.after(every_us, Event::Tick { node });
            }
            Event::Fault(fault) => self.fail(fault),
        }
    }

    fn arrive(&mut self, node: usize) {
        if self.down_until[node] > self.now_us {
            return;
        }
        let key = match self.keys.len() {
            1 => self.keys[0],
            count if self.rng.u8(0..10) == 0 => self.keys[self.rng.usize(1..count)],
            _ => self.keys[0],
        };
        self.report.offered(self.now_us);
        if self.ideal.fits(key, 1, self.now()) {
            self.ideal.admit(key, 1, self.now());
            self.report.ideal += 1;
        }
        if let Some((key, decided)) = self.nodes[node].arrive(key) {
            self.decided(key, decided);
        }
        self.poll(node);
    }

    fn poll(&mut self, node: usize) {
        for (key, decided) in self.nodes[node].poll() {
            self.decided(key, decided);
        }
    }

    fn decided(&mut self, key: Key, decided: Decided) {
        match decided {
            Decided::Locally => {
                let over = self.promise.admit(key, 1, self.now());
                self.report.admitted(self.now_us, 1, over);
            }
            // Counted when the store took it.
            Decided::Shared => {}
            Decided::Denied => self.report.denied += 1,
            Decided::Failed => self.report.failed += 1,
        }
    }

    /// Sends what nodes have put into their outboxes.
    fn send(&mut self) {
        let calls = std::mem::take(&mut self.wire.lock().outbox);
        for call in calls {
            self.report.calls += 1;
            let (node, id) = (call.node, call.id);
            self.open.insert(id);
            let deadline_us = self.scenario.network.deadline_us;
            self.after(deadline_us, Event::AtNode { node, id, reply: Err(StoreError::Late) });
            let is_return = matches!(call.operation, Operation::Correct(_));
            if !is_return && self.chance(self.scenario.network.repeated_permille) {
                self.deliver(node, Event::AtStore(call.clone()));
            }
            self.deliver(node, Event::AtStore(call));
        }
    }

    fn chance(&mut self, permille: u64) -> bool {
        self.rng.u64(0..1_000) < permille
    }

    /// Sends a message between a node and the store, in either direction.
    fn deliver(&mut self, node: usize, event: Event) {
        let network = self.scenario.network;
        let slower = if self.chance(network.slow_permille) { 50 } else { 1 };
        let us = self.rng.u64(network.fastest_us..=network.usual_us * slower);
        if self.chance(network.lost_permille) || self.cut_off_until[node] > self.now_us {
            return;
        }
        self.after(us, event);
    }

    fn at_store(&mut self, call: &Call) {
        let now = self.now();
        if self.scenario.faults.iter().any(|fault| matches!(fault, Fault::Failover { .. })) {
            self.shared.copy(now);
        }
        let (reply, admitted) = self.shared.perform(&call.operation, now);
        for (key, units) in admitted {
            let over = self.promise.admit(key, units, now);
            self.report.admitted(self.now_us, units, over);
        }
        self.deliver(call.node, Event::AtNode { node: call.node, id: call.id, reply: Ok(reply) });
    }

    fn fail(&mut self, fault: Fault) {
        match fault {
            Fault::Crash { node, down_us, .. } => {
                let ledger = self.nodes[node].crash();
                add(&mut self.gone, &ledger);
                self.down_until[node] = self.now_us + down_us;
            }
            Fault::Pause { node, for_us, .. } => self.paused_until[node] = self.now_us + for_us,
            Fault::Restart { node, .. } => {
                self.nodes[node].recall();
                self.poll(node);
            }
            Fault::Partition { node, for_us, .. } => self.cut_off_until[node] = self.now_us + for_us,
            Fault::Failover { lost_us, .. } => self.shared.fail_over(self.now(), lost_us),
        }
    }

    /// Checks that no unit was lost count of, and that leased units keep the promise.
    fn check(&mut self) {
        let mut sum = self.gone;
        for node in &self.nodes {
            let ledger = node.ledger();
            let Ledger { granted, spent, held, returned, expired, .. } = ledger;
            if granted != spent + held + returned + expired {
                self.report.broken =
                    Some(format!("at {} us units were lost count of: {ledger:?}", self.now_us));
            }
            add(&mut sum, &ledger);
        }
        if sum.granted > self.shared.leased {
            self.report.broken =
                Some(format!("at {} us nodes have more units than the store has granted", self.now_us));
        }
        self.report.parked(sum.held - self.gone.held);
        let fails_over = self.scenario.faults.iter().any(|fault| matches!(fault, Fault::Failover { .. }));
        let bounded = matches!(self.scenario.consistency, Consistency::Synced { .. }) || fails_over;
        if self.report.over_admitted > 0 && !bounded {
            self.report.broken =
                Some(format!("at {} us more was admitted than the limit allows", self.now_us));
        }
    }
}

fn add(sum: &mut Ledger, ledger: &Ledger) {
    sum.granted += ledger.granted;
    sum.spent += ledger.spent;
    sum.held += ledger.held;
    sum.returned += ledger.returned;
    sum.expired += ledger.expired;
}
