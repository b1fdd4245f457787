//! The rules in force, and references to the rules that a decision was made under.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use arc_swap::ArcSwap;

use super::tree::RuleSet;

/// The rules in force.
pub(crate) struct CurrentRules {
    rules: ArcSwap<RuleSet>,
    /// The address of the current rules. It is only compared, never dereferenced.
    address: AtomicPtr<RuleSet>,
}

/// A reference to the rules that something is done under.
///
/// The reference is counted, but threads do not contend for the count: each thread caches the reference that
/// it used last.
pub(crate) struct Rules(ManuallyDrop<Option<Arc<RuleSet>>>);

thread_local! {
    /// The reference that this thread used last, while it is not in use.
    static CACHED: Cell<Option<Arc<RuleSet>>> = const { Cell::new(None) };
}

impl CurrentRules {
    pub(crate) fn new(rules: RuleSet) -> Self {
        let current = Self { rules: ArcSwap::from_pointee(rules), address: AtomicPtr::default() };
        current.publish_address();
        current
    }

    /// Returns a reference to the current rules.
    #[inline]
    pub(crate) fn load(&self) -> Rules {
        let rules = match CACHED.try_with(Cell::take) {
            // While the reference is held, no other rules can have that address.
            Ok(Some(rules)) if Arc::as_ptr(&rules) == self.address.load(Ordering::Acquire) => rules,
            Ok(other) => self.fetch(other),
            Err(_) => self.fetch(None),
        };
        Rules(ManuallyDrop::new(Some(rules)))
    }

    /// Loads the current rules, because the cached ones are of another limiter, are outdated, or are in use.
    #[cold]
    #[inline(never)]
    fn fetch(&self, other: Option<Arc<RuleSet>>) -> Arc<RuleSet> {
        drop(other);
        self.rules.load_full()
    }

    /// Replaces the current rules. Only one thread may do this at a time.
    pub(crate) fn store(&self, rules: RuleSet) {
        self.rules.store(Arc::new(rules));
        self.publish_address();
    }

    fn publish_address(&self) {
        let address = Arc::as_ptr(&self.rules.load());
        self.address.store(address.cast_mut(), Ordering::Release);
    }
}

impl Deref for Rules {
    type Target = RuleSet;

    #[inline]
    fn deref(&self) -> &RuleSet {
        self.0.as_deref().expect("only dropping takes the reference out")
    }
}

impl Clone for Rules {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Rules {
    /// Caches the reference in this thread for the next use. Returns a reference that the caller has to drop,
    /// if any.
    #[expect(clippy::inline_always, reason = "a few instructions on the path of every decision")]
    #[inline(always)]
    pub(crate) fn put_back(&mut self) -> Option<Arc<RuleSet>> {
        let before = CACHED.try_with(|cached| cached.replace(self.0.take()));
        before.unwrap_or_else(|_| self.0.take())
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        drop(self.put_back());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::thread;

    use tidegate_core::KeySeed;

    use super::*;

    fn rules(generation: u64) -> RuleSet {
        RuleSet { generation, ..RuleSet::empty(KeySeed(1)) }
    }

    fn watch(rules: &Rules) -> Weak<RuleSet> {
        rules.0.as_ref().map(Arc::downgrade).expect("it is not dropped")
    }

    #[test]
    fn each_gets_the_rules_in_force_however_many_hold_on_to_others() {
        let (one, other) = (CurrentRules::new(rules(1)), CurrentRules::new(rules(101)));
        let mut held = Vec::new();
        for generation in 1..20 {
            held.push((generation, one.load()));
            held.push((101, other.load()));
            drop(one.load());
            one.store(rules(generation + 1));
            assert_eq!((one.load().generation, other.load().generation), (generation + 1, 101));
        }
        assert!(held.iter().all(|(generation, rules)| rules.generation == *generation));
    }

    #[test]
    fn rules_go_when_the_thread_that_used_them_uses_others() {
        let current = CurrentRules::new(rules(1));
        let first = watch(&current.load());
        current.store(rules(2));
        assert!(first.upgrade().is_some(), "they are cached");
        drop(current.load());
        assert!(first.upgrade().is_none());
    }

    #[test]
    fn rules_go_with_the_thread_that_used_them() {
        let current = CurrentRules::new(rules(1));
        let first = thread::scope(|scope| scope.spawn(|| watch(&current.load())).join());
        current.store(rules(2));
        assert!(first.expect("the thread is well").upgrade().is_none());
    }

    #[test]
    fn rules_may_be_dropped_on_another_thread() {
        let current = CurrentRules::new(rules(1));
        let (held, first) = (current.load(), watch(&current.load()));
        thread::spawn(move || drop(held)).join().expect("the thread is well");
        current.store(rules(2));
        drop(current.load());
        assert!(first.upgrade().is_none());
    }
}
