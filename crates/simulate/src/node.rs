//! A node in one of the consistency modes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::sync::{Peeks, Push, Share, traffic_limit};
use tidegate_core::{Clock, Key, Limit, VirtualClock};
use tidegate_stores::leased::Ledger;
use tidegate_stores::{Charge, Correction, Intent, LeaseConfig, LeasedStore, Store};

use crate::network::{RemoteStore, Wire};
use crate::scenario::{Consistency, Scenario};

/// Tells the counter of a key's traffic from the counter of its limit.
const TRAFFIC_SALT: u64 = 0x7472_6166_6669_6373;

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// Admitted by the node itself.
    Locally,
    /// Admitted by the store.
    Shared,
    Denied,
    /// The store did not answer.
    Failed,
}

/// Decides a request. `None` is for background work, which decides nothing.
type Work = Pin<Box<dyn Future<Output = Option<(Key, Decided)>>>>;

enum Mode {
    Exact(RemoteStore),
    Leased(Arc<LeasedStore<RemoteStore>>),
    Synced { store: RemoteStore, shares: Arc<Mutex<BTreeMap<Key, Share>>>, every_us: u64 },
}

pub(crate) struct Node {
    limit: Arc<Limit>,
    mode: Mode,
    clock: VirtualClock,
    work: Vec<Work>,
    tending: bool,
    longest_us: u64,
}

impl Node {
    pub(crate) fn new(
        scenario: &Scenario,
        number: usize,
        clock: VirtualClock,
        wire: &Arc<Mutex<Wire>>,
    ) -> Self {
        let store = RemoteStore { node: number, wire: Arc::clone(wire) };
        let mode = match scenario.consistency {
            Consistency::Exact => Mode::Exact(store),
            Consistency::Leased => Mode::Leased(leased(store, &clock, scenario.longest_us)),
            Consistency::Synced { every_us } => Mode::Synced { store, shares: Arc::default(), every_us },
        };
        let limit = Arc::new(scenario.limit.clone());
        Self { limit, mode, clock, work: Vec::new(), tending: false, longest_us: scenario.longest_us }
    }

    /// Takes a request in. Returns the decision if it needs no call.
    pub(crate) fn arrive(&mut self, key: Key) -> Option<(Key, Decided)> {
        let limit = Arc::clone(&self.limit);
        let work: Work = match &self.mode {
            Mode::Exact(store) => {
                let store = store.clone();
                Box::pin(async move { Some((key, settle(&store, key, &limit).await)) })
            }
            Mode::Leased(store) => {
                let store = Arc::clone(store);
                Box::pin(async move { Some((key, settle(&*store, key, &limit).await)) })
            }
            Mode::Synced { shares, .. } => {
                let now = self.clock.now();
                let mut shares = shares.lock();
                let share = shares.entry(key).or_insert_with(|| Share::new(&limit, now));
                let admitted = share.decide(&limit, 1, now);
                return Some((key, if admitted { Decided::Locally } else { Decided::Denied }));
            }
        };
        self.start(work).map(|(key, decided)| {
            // No call was made, so this node has spent what it holds.
            (key, if decided == Decided::Shared { Decided::Locally } else { decided })
        })
    }

    /// Polls the work under way, and returns what was decided.
    pub(crate) fn poll(&mut self) -> Vec<(Key, Decided)> {
        let mut decided = Vec::new();
        let mut waiting = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        for mut work in std::mem::take(&mut self.work) {
            match work.as_mut().poll(&mut context) {
                Poll::Pending => waiting.push(work),
                Poll::Ready(Some(done)) => decided.push(done),
                Poll::Ready(None) => self.tending = false,
            }
        }
        self.work = waiting;
        self.tend();
        decided
    }

    /// Starts the calls that leases have due, one round at a time, as the loop of the product does.
    pub(crate) fn tend(&mut self) {
        if let (false, Mode::Leased(store)) = (self.tending, &self.mode) {
            let store = Arc::clone(store);
            self.tending = true;
            let work: Work = Box::pin(async move {
                store.tend().await;
                None
            });
            let before = self.work.len();
            self.start(work);
            self.tending = self.work.len() > before;
        }
    }

    fn start(&mut self, mut work: Work) -> Option<(Key, Decided)> {
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => {
                self.work.push(work);
                None
            }
        }
    }

    /// Does what a timer does: sweeps leases, or exchanges counts.
    pub(crate) fn tick(&mut self) {
        match &self.mode {
            Mode::Exact(_) => {}
            Mode::Leased(store) => {
                store.sweep();
                self.tend();
            }
            Mode::Synced { .. } => self.exchange(),
        }
    }

    /// Exchanges the counts of all keys in one call.
    fn exchange(&mut self) {
        let Mode::Synced { store, shares, every_us } = &self.mode else { return };
        let (store, shares, every_us) = (store.clone(), Arc::clone(shares), *every_us);
        let (limit, clock) = (Arc::clone(&self.limit), self.clock.clone());
        let pushed: Vec<_> = shares.lock().iter_mut().map(|(key, share)| (*key, share.push())).collect();
        if pushed.is_empty() {
            return;
        }
        let work: Work = Box::pin(async move {
            let traffic = traffic_limit();
            let correction = |units: u64| if units > 0 { Correction::Overdraw } else { Correction::Look };
            let charge = |key: Key, limit, units: u64| (Charge::new(key, limit, units), correction(units));
            let charges = |(key, push): &(Key, Push)| {
                let of_traffic = charge(key.of_limit(TRAFFIC_SALT), &traffic, push.offered);
                [charge(*key, &*limit, push.admitted), of_traffic]
            };
            let corrections: Vec<_> = pushed.iter().flat_map(charges).collect();
            let peeks = store.correct(&corrections).await;
            let now = clock.now();
            for ((key, push), peeks) in pushed.iter().zip(peeks.chunks_exact(2)) {
                // A late exchange may have been done, and is not repeated.
                if let (Some(share), [Ok(of_limit), Ok(of_traffic)]) = (shares.lock().get_mut(key), peeks) {
                    let peeks = Peeks { limit: of_limit, traffic: of_traffic };
                    share.pull(&limit, push, peeks, every_us, now);
                }
            }
            None
        });
        self.start(work);
    }

    /// Returns all units, as on shutdown.
    pub(crate) fn recall(&mut self) {
        if let Mode::Leased(store) = &self.mode {
            let store = Arc::clone(store);
            let work: Work = Box::pin(async move {
                store.recall_all().await;
                None
            });
            self.start(work);
        }
    }

    /// Loses everything, and returns what became of the units.
    pub(crate) fn crash(&mut self) -> Ledger {
        let ledger = self.ledger();
        self.work.clear();
        self.tending = false;
        match &mut self.mode {
            Mode::Exact(_) => {}
            Mode::Leased(store) => {
                let remote = store.shared().clone();
                *store = leased(remote, &self.clock, self.longest_us);
            }
            Mode::Synced { shares, .. } => *shares = Arc::default(),
        }
        ledger
    }

    pub(crate) fn ledger(&self) -> Ledger {
        match &self.mode {
            Mode::Leased(store) => store.ledger(),
            Mode::Exact(_) | Mode::Synced { .. } => Ledger::default(),
        }
    }

    pub(crate) fn clock(&self) -> &VirtualClock {
        &self.clock
    }
}

fn leased(store: RemoteStore, clock: &VirtualClock, longest_us: u64) -> Arc<LeasedStore<RemoteStore>> {
    let clock = Arc::new(clock.clone());
    let longest = Duration::from_micros(longest_us);
    let config = LeaseConfig { longest, max_keys: 100, ..LeaseConfig::new(clock) };
    Arc::new(LeasedStore::new(store, config))
}

async fn settle(store: &impl Store, key: Key, limit: &Limit) -> Decided {
    let charge = Charge::new(key, limit, 1);
    match store.settle(&[charge], Intent::Take).await {
        Ok(verdicts) if verdicts[0].allowed() => Decided::Shared,
        Ok(_) => Decided::Denied,
        Err(_) => Decided::Failed,
    }
}
