//! The data of the dashboard: top keys, history, recent denials, recent events, and warnings before the limit.
//!
//! Every decision of every front end passes [`Recorder::note`], which is a countdown: a few instructions. The decision
//! that reaches 0 is copied into the lane of its thread. Everything else happens on the control runtime, four times a
//! second: samples are taken in, and the counters of the rules are read. All of it has a bound on its memory.
//!
//! - [`lane`][]: which decisions are sampled; [`sample`][]: the copied data of a decision
//! - [`sketch`][], [`top`][]: the most frequent keys; [`denials`][]: the last denials
//! - [`history`][]: decisions and durations over the last hour and day; [`saved`][]: the history on disk
//! - [`fleet`][]: the data that nodes with a shared store exchange
//! - [`marks`][]: recent events; [`live`][]: live events; [`utilisation`][]: how full limits are
//! - [`warnings`][]: which keys are near their limits; [`webhook`][]: sends the warnings

mod denials;
mod fleet;
mod history;
mod lane;
mod live;
mod marks;
mod sample;
mod saved;
mod sketch;
mod top;
mod utilisation;
mod warnings;
mod webhook;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tidegate::{Counts, Decision, Limiter, Micros, Request, Switches};
use tidegate_core::{Key, KeySeed};
use tidegate_stores::redis::RedisStore;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use self::denials::DenialRings;
pub(crate) use self::denials::RecordedDenial;
use self::fleet::{Fleet, PUBLISH_EVERY};
pub(crate) use self::fleet::{FleetKey, NodeView};
use self::history::History;
pub(crate) use self::history::{MAX_RULES, OTHER, Outcomes, Range, Series};
use self::history::{RuleFilter, RuleHistories};
use self::lane::Lanes;
use self::live::Live;
pub(crate) use self::live::{LiveEvent, MAX_CLIENTS, Watcher};
pub(crate) use self::marks::Mark;
use self::marks::Marks;
pub(crate) use self::sample::Descriptors;
use self::sample::Sample;
use self::top::TopKeys;
pub(crate) use self::top::{By, Span};
use self::utilisation::Utilisation;
pub(crate) use self::utilisation::{TENTHS, TierUtilisation};
use self::warnings::{Delivery, MAX_QUEUED, Warnings};
pub(crate) use self::warnings::{Warning, WarningCounts};
use self::webhook::Webhook;
use crate::config::settings;
use crate::health::{Health, degradation_name};
use crate::metrics::{DURATION_BUCKETS, Metrics, percentile_us};
use crate::request_id::RequestId;

/// How often samples are taken in.
const COLLECT_EVERY: Duration = Duration::from_millis(250);
/// Rounds of that from one reading of the counters to the next.
const ROUNDS_PER_SECOND: u64 = 4;
/// With more rules than this, counters are read every ten seconds unless somebody watches.
const MANY_RULES: usize = 5_000;
/// Rounds from one saving of the history to the next.
const ROUNDS_PER_SAVE: u64 = 60 * ROUNDS_PER_SECOND;
/// Denials per second that are sent to those who watch.
const MAX_LIVE_DENIALS: u32 = 20;
/// Keys that a sketch holds if there is memory for it.
const MAX_KEYS: usize = 1024;

/// Records decisions. Clones share their state; the default records nothing.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Inner>>);

/// The parts that a recorder reads.
pub struct RecorderParts {
    /// The limiter whose decisions are recorded.
    pub limiter: Limiter,
    /// The durations of checks.
    pub metrics: Metrics,
    /// The degradation of the service.
    pub health: Health,
    /// The file of the history.
    pub file: PathBuf,
    /// A secret that nodes share, so that fingerprints of keys are the same on all of them; empty if there is none.
    pub secret: String,
    /// Bytes that the process may use.
    pub max_bytes: u64,
    /// The name of this node.
    pub node: String,
    /// The store that nodes share, if they do.
    pub store: Option<RedisStore>,
    /// Where warnings about keys that are near their limits are sent.
    pub warnings: settings::Warnings,
}

struct Inner {
    lanes: Lanes,
    seed: KeySeed,
    limiter: Limiter,
    metrics: Metrics,
    health: Health,
    file: PathBuf,
    started: Micros,
    node: String,
    fleet: Option<Fleet>,
    webhook: Option<Webhook>,
    /// Warnings for the webhook, until [`Recorder::start`] takes them.
    queue: Mutex<Option<mpsc::Receiver<Warning>>>,
    /// Distinguishes processes in the IDs of warnings.
    instance: String,
    live: Live,
    book: Mutex<Book>,
}

/// The recorded data.
struct Book {
    top: TopKeys,
    denials: DenialRings,
    history: History,
    marks: Marks,
    utilisation: Utilisation,
    warnings: Warnings,
    /// Since the last event for those who watch.
    recent: Outcomes,
    recent_durations: [u64; DURATION_BUCKETS],
    live_denials: u32,
    seq: u64,
    rules: usize,
    seen: Seen,
}

/// The values at the last check, to detect changes.
struct Seen {
    generation: u64,
    switches: Switches,
    degradation: u8,
    /// When rules were last put in force or refused, and what was wrong with them.
    last_reload: (Micros, Option<String>),
    refusals: u64,
}

impl Recorder {
    /// Returns a recorder that goes on with the history in its file.
    pub fn new(parts: RecorderParts) -> Self {
        let RecorderParts { limiter, metrics, health, file, secret, max_bytes, node, store, warnings } =
            parts;
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let (history, mut marks) = saved::read(&file);
        let started = limiter.now();
        marks.add(started, "restart", "this node started".to_owned());
        let before = Seen {
            generation: limiter.generation(),
            switches: limiter.switches(),
            degradation: 0,
            last_reload: (started, None),
            refusals: limiter.refusals(),
        };
        let keys = usize::try_from(max_bytes >> 19).unwrap_or(MAX_KEYS).clamp(64, MAX_KEYS);
        let book = Book {
            top: TopKeys::new(keys),
            denials: DenialRings::default(),
            history,
            marks,
            utilisation: Utilisation::default(),
            warnings: Warnings::new(sender),
            recent: Outcomes::default(),
            recent_durations: [0; DURATION_BUCKETS],
            live_denials: 0,
            seq: 0,
            rules: 0,
            seen: before,
        };
        let seed = fingerprint_seed(&secret, limiter.is_shared());
        let (live, lanes) = (Live::default(), Lanes::default());
        let (book, fleet) = (Mutex::new(book), store.map(Fleet::new));
        let webhook = Webhook::new(&warnings);
        let (queue, instance) = (Mutex::new(Some(receiver)), format!("{:x}", started.0));
        Self(Some(Arc::new(Inner {
            lanes,
            seed,
            limiter,
            metrics,
            health,
            file,
            started,
            node,
            fleet,
            webhook,
            queue,
            instance,
            live,
            book,
        })))
    }

    /// Records a decision that a front end made for a request with this ID. `crossed` tells whether
    /// [`Decision::crossings`] is not empty.
    #[inline]
    pub fn note(
        &self,
        came_by: (&'static str, RequestId<'_>),
        request: &Request<'_>,
        decision: &Decision,
        crossed: bool,
    ) {
        if let Some(inner) = &self.0 {
            let due = inner.lanes.is_due(decision.allowed());
            if due || crossed {
                inner.sample(came_by, request, decision, (due, crossed));
            }
        }
    }

    /// Returns whether anything is recorded.
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Takes samples in and reads counters from now on, on the runtime of the caller.
    pub fn start(&self) {
        if let Some(inner) = &self.0 {
            tokio::spawn(run(Arc::clone(inner)));
            if let Some(queue) = inner.queue.lock().take() {
                tokio::spawn(webhook::run(Arc::clone(inner), queue));
            }
            if inner.fleet.is_some() {
                tokio::spawn(announce(Arc::clone(inner)));
            }
        }
    }

    /// Writes the history to its file.
    pub fn save(&self) {
        if let Some(inner) = &self.0 {
            drop(inner.refresh());
            inner.save();
        }
    }
}

/// Returns the seed of fingerprints: the same on all nodes that share a store, and a random one without.
fn fingerprint_seed(secret: &str, shared: bool) -> KeySeed {
    use sha2::{Digest as _, Sha256};
    let mut random = [0; 8];
    if shared {
        let hash = Sha256::new().chain_update(b"tidegate fingerprint").chain_update(secret).finalize();
        random.copy_from_slice(&hash[..8]);
    } else if getrandom::fill(&mut random).is_err() {
        // Fingerprints are then the same in every process without random bytes, but nothing else depends on it.
        random = [1; 8];
    }
    KeySeed(u64::from_le_bytes(random))
}

async fn run(inner: Arc<Inner>) {
    let mut ticks = interval(COLLECT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for round in 0_u64.. {
        ticks.tick().await;
        if round.is_multiple_of(ROUNDS_PER_SECOND) {
            inner.tick(round);
        } else {
            drop(inner.collect());
        }
        if round % ROUNDS_PER_SAVE == ROUNDS_PER_SAVE - 1 {
            let inner = Arc::clone(&inner);
            // A failure has been logged, and is tried again in a minute.
            let _ = tokio::task::spawn_blocking(move || inner.save()).await;
        }
    }
}

/// Announces this node to the others.
async fn announce(inner: Arc<Inner>) {
    let mut ticks = interval(PUBLISH_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        inner.announce().await;
    }
}

impl Inner {
    #[cold]
    #[inline(never)]
    fn sample(
        &self,
        came_by: (&'static str, RequestId<'_>),
        request: &Request<'_>,
        decision: &Decision,
        (due, crossed): (bool, bool),
    ) {
        let at = self.limiter.now();
        let weight = if due { self.lanes.weight(decision.allowed(), at.0) } else { 0 };
        self.lanes.push(Sample::new(self.seed, (at, weight), came_by, request, decision, crossed));
    }

    /// Takes in the samples that wait.
    fn collect(&self) -> MutexGuard<'_, Book> {
        let mut samples = Vec::new();
        self.lanes.take(&mut samples);
        // The lanes are in no order; a list of denials is.
        samples.sort_by_key(|sample: &Sample| sample.at);
        let mut book = self.book.lock();
        for sample in &samples {
            book.top.add(sample);
            book.utilisation.add(sample);
            book.warnings.add(sample);
            for denial in book.denials.add(sample) {
                if book.live_denials < MAX_LIVE_DENIALS {
                    book.live_denials += 1;
                    self.live.send("denial", || denial_json(&denial));
                }
            }
        }
        book
    }

    /// Does what is done every second.
    fn tick(&self, round: u64) {
        self.lanes.ease();
        let now = self.limiter.now();
        let mut book = self.collect();
        book.top.tidy(now);
        book.warnings.tidy(now);
        let tenth = round.is_multiple_of(10 * ROUNDS_PER_SECOND);
        if tenth || self.live.is_watched() || book.rules <= MANY_RULES {
            self.read_counters(&mut book, now);
        }
        self.find_changes(&mut book, now);
        book.live_denials = 0;
        if self.live.is_watched() {
            self.send_tick(&mut book, now);
        } else {
            (book.recent, book.recent_durations) = (Outcomes::default(), [0; DURATION_BUCKETS]);
        }
    }

    /// Returns what was recorded up to this moment.
    fn refresh(&self) -> MutexGuard<'_, Book> {
        let mut book = self.collect();
        self.read_counters(&mut book, self.limiter.now());
        book
    }

    fn read_counters(&self, book: &mut Book, now: Micros) {
        let places = book.history.begin(now);
        let mut rules = 0;
        let (history, recent) = (&mut book.history, &mut book.recent);
        self.limiter.visit_counts(|domain: &str, rule: &str, counts: Counts| {
            rules += 1;
            recent.add(history.count_rule(places, domain, rule, counts));
        });
        book.rules = rules;
        recent.error += history.count_refused(places, self.metrics.refused.get());
        let gained = history.count_durations(places, self.metrics.durations());
        book.recent_durations.iter_mut().zip(gained).for_each(|(sum, more)| *sum += more);
    }

    /// Marks what has changed since the last look.
    fn find_changes(&self, book: &mut Book, now: Micros) {
        let (generation, switches) = (self.limiter.generation(), self.limiter.switches());
        let (degradation, refusals) = (self.health.degradation(), self.limiter.refusals());
        if refusals != book.seen.refusals {
            book.seen.refusals = refusals;
            let refused = self.limiter.refused_rules().map(|problems| problems.to_string());
            book.seen.last_reload = (now, refused);
        }
        // A switch recompiles the rules once.
        let mut compiled = generation.saturating_sub(book.seen.generation);
        if switches != book.seen.switches {
            compiled = compiled.saturating_sub(1);
            let text = changed_switches(&book.seen.switches, &switches);
            self.mark(book, now, "switch", text);
        }
        if compiled > 0 {
            self.mark(book, now, "rules", format!("rules reloaded, generation {generation}"));
            book.seen.last_reload = (now, None);
            let in_force: HashSet<(String, String)> =
                self.limiter.counts().into_iter().map(|count| (count.domain, count.rule)).collect();
            book.history.keep_rules(|domain, rule| in_force.contains(&(domain.to_owned(), rule.to_owned())));
        }
        if degradation != book.seen.degradation {
            let name = degradation_name(degradation);
            self.mark(book, now, "degraded", format!("degradation {degradation}: {name}"));
        }
        (book.seen.generation, book.seen.switches, book.seen.degradation) =
            (generation, switches, degradation);
    }

    fn mark(&self, book: &mut Book, now: Micros, kind: &str, text: String) {
        let mark = book.marks.add(now, kind, text);
        self.live.send("change", || json!({ "kind": mark.kind, "text": mark.text }));
    }

    fn send_tick(&self, book: &mut Book, now: Micros) {
        book.seq += 1;
        let recent = std::mem::take(&mut book.recent);
        let durations = std::mem::replace(&mut book.recent_durations, [0; DURATION_BUCKETS]);
        let seq = book.seq;
        self.live.send("tick", || {
            json!({
                "at_s": now.0 / 1_000_000,
                "allowed": recent.allowed,
                "denied": recent.denied,
                "shadow_denied": recent.shadow_denied,
                "error": recent.error,
                "p50_us": percentile_us(&durations, 50.0),
                "p99_us": percentile_us(&durations, 99.0),
                "degradation": self.health.degradation_detail(),
                "store": self.health.shards(),
                "seq": seq,
            })
        });
    }

    fn save(&self) {
        let bytes = {
            let book = self.book.lock();
            saved::encode(&book.history, &book.marks)
        };
        if let Err(error) = saved::write(&self.file, &bytes) {
            tracing::warn!(path = %self.file.display(), %error, "the history was not saved");
        }
    }
}

fn denial_json(denial: &RecordedDenial) -> serde_json::Value {
    serde_json::to_value(crate::admin::DenialView::new(denial, false)).unwrap_or_default()
}

fn changed_switches(before: &Switches, after: &Switches) -> String {
    let mut texts = Vec::new();
    if before.all != after.all {
        texts.push(format!("all rules: {}", after.all));
    }
    let rules = before.rules.keys().chain(after.rules.keys());
    let rules: BTreeSet<&String> = rules.collect();
    for rule in rules {
        let (old, new) = (before.rules.get(rule), after.rules.get(rule));
        if old != new {
            texts.push(new.map_or_else(|| format!("{rule}: unset"), |switch| format!("{rule}: {switch}")));
        }
    }
    texts.join(", ")
}

/// Returns a fingerprint as text: the same for the same key on all nodes that share a secret.
pub(crate) fn fingerprint(key: Key) -> String {
    format!("{:016x}", key.home ^ key.mark.rotate_left(32))
}

/// Reads for administrators. A recorder that records nothing returns empty results.
impl Recorder {
    /// Returns the keys with the most decisions; whether those of other nodes are among them, which they are only if
    /// `fleet`; and the share of all decisions that a count may be too low by.
    pub(crate) async fn top(
        &self,
        by: By,
        span: Span,
        limit: usize,
        fleet: bool,
        keep: impl Fn(&str, &str) -> bool,
    ) -> (Vec<FleetKey>, bool, f64) {
        let Some(inner) = &self.0 else { return Default::default() };
        let error_share = inner.book.lock().top.error_share();
        if fleet {
            let (keys, merged) = inner.fleet_top((by, span), limit, keep).await;
            return (keys, merged, error_share);
        }
        let keys = inner.collect().top.list(by, span, inner.limiter.now(), limit, keep);
        (keys.into_iter().map(FleetKey::from).collect(), false, error_share)
    }

    /// Returns every node that shares the store, this one first.
    pub(crate) fn nodes(&self) -> Vec<NodeView> {
        self.0.as_ref().map_or_else(Vec::new, |inner| inner.nodes())
    }

    /// Returns how many decisions each key of a rule had in each part of the last hour, and the length of a part in
    /// seconds.
    pub(crate) fn demand(&self, domain: &str, rule: &str) -> (Vec<Vec<u64>>, u64) {
        let Some(inner) = &self.0 else { return Default::default() };
        (inner.collect().top.demand(domain, rule, inner.limiter.now()), top::DEMAND_PART_S)
    }

    /// Returns the last denials that `keep` accepts, newest first.
    pub(crate) fn denials(
        &self,
        limit: usize,
        keep: impl Fn(&RecordedDenial) -> bool,
    ) -> Vec<RecordedDenial> {
        self.0.as_ref().map_or_else(Vec::new, |inner| inner.collect().denials.list(limit, keep))
    }

    /// Returns the denial with this number, if it is still there.
    pub(crate) fn denial(&self, number: u64) -> Option<RecordedDenial> {
        self.0.as_ref()?.collect().denials.find(number)
    }

    /// Returns decisions by step, of all rules that `keep` accepts; of the whole node without a condition.
    pub(crate) fn decisions(&self, range: Range, keep: Option<RuleFilter<'_>>) -> Option<Series<Outcomes>> {
        let inner = self.0.as_ref()?;
        Some(inner.refresh().history.decisions(range, inner.limiter.now(), keep))
    }

    /// Returns the decisions of every rule with its own history, by step, by domain and rule.
    pub(crate) fn histories(&self, range: Range) -> RuleHistories {
        let Some(inner) = &self.0 else { return RuleHistories::new() };
        let book = inner.refresh();
        book.history.by_rule(range, inner.limiter.now())
    }

    /// Returns the buckets of durations by step.
    pub(crate) fn durations(&self, range: Range) -> Option<Series<[u64; DURATION_BUCKETS]>> {
        let inner = self.0.as_ref()?;
        Some(inner.refresh().history.durations(range, inner.limiter.now()))
    }

    /// Returns what happened since a time in seconds since 1970.
    pub(crate) fn marks(&self, from_s: u64) -> Vec<Mark> {
        self.0.as_ref().map_or_else(Vec::new, |inner| inner.book.lock().marks.since(from_s))
    }

    /// Marks a change that an administrator made, and sends it to live clients.
    pub(crate) fn mark(&self, kind: &str, text: String) {
        if let Some(inner) = &self.0 {
            inner.mark(&mut inner.book.lock(), inner.limiter.now(), kind, text);
        }
    }

    /// Returns the most bytes that everything recorded takes.
    pub(crate) fn max_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |inner| History::max_bytes() + inner.book.lock().top.max_bytes())
    }

    /// Returns when this node started.
    pub(crate) fn started(&self) -> Option<Micros> {
        self.0.as_ref().map(|inner| inner.started)
    }

    /// Returns when rules were last put in force or refused, and what was wrong with them.
    pub(crate) fn last_reload(&self) -> Option<(Micros, Option<String>)> {
        self.0.as_ref().map(|inner| inner.book.lock().seen.last_reload.clone())
    }

    /// Returns how much of their limits keys have used, by tier.
    pub(crate) fn utilisation(&self) -> Vec<(String, TierUtilisation)> {
        self.0.as_ref().map_or_else(Vec::new, |inner| inner.collect().utilisation.read())
    }

    /// Returns the last warnings, newest first.
    pub(crate) fn warnings(&self, limit: usize) -> Vec<Warning> {
        self.0.as_ref().map_or_else(Vec::new, |inner| inner.collect().warnings.list(limit))
    }

    /// Returns the numbers of warnings.
    pub(crate) fn warning_counts(&self) -> WarningCounts {
        self.0.as_ref().map_or_else(WarningCounts::default, |inner| inner.book.lock().warnings.counts)
    }

    /// Returns the host of the webhook, if there is one.
    pub(crate) fn webhook_host(&self) -> Option<String> {
        self.0.as_ref()?.webhook.as_ref().map(Webhook::host)
    }

    /// Sends a warning about nothing, to try the webhook. Returns its number.
    pub(crate) fn test_warning(&self) -> u64 {
        let Some(inner) = &self.0 else { return 0 };
        let now = inner.limiter.now();
        inner.book.lock().warnings.push(Warning {
            number: 0,
            at: now,
            domain: "test".into(),
            rule: "test".into(),
            limit: "test".into(),
            key: Key::NONE,
            text: Some("test=test".into()),
            percent: 100,
            used: 0,
            of: 0,
            window_ends: now,
            delivery: Delivery::Queued,
            test: true,
        })
    }

    /// Returns how many samples were dropped because too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.lanes.dropped())
    }

    /// Returns the events from now on; `None` if too many watch already.
    pub(crate) fn watch(&self) -> Option<Watcher> {
        self.0.as_ref()?.live.watch()
    }
}
