//! Telling limiters of an application apart that have neither a name nor a route: by their order.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::inline::InlineLimits;
use crate::limiter::Limiter;

/// So many of the same limits are told apart at most. An application that makes more of them makes one per
/// request, and each would begin with a full limit.
const MOST: u32 = 100;

/// The highest number of a limiter that has a limit, by domain and limit.
#[derive(Default)]
pub struct ScopeNumbers(Mutex<HashMap<String, u32>>);

impl ScopeNumbers {
    /// The scope of another limiter that has these limits, among those that share these numbers.
    pub fn scope(self: &Arc<Self>, domain: &str, limits: &InlineLimits) -> UnnamedScope {
        let limits: Vec<_> = limits.identities().map(|limit| format!("{domain:?} {limit}")).collect();
        let mut highest = self.0.lock();
        let before = limits.iter().filter_map(|limit| highest.get(limit)).max().copied().unwrap_or(0);
        let number = (before + 1).min(MOST);
        highest.extend(limits.iter().map(|limit| (limit.clone(), number)));
        drop(highest);
        UnnamedScope(Arc::new(Numbered { numbers: Arc::clone(self), limits, number }))
    }
}

/// The scope of a limiter that has neither a name nor a route: `limiter` for the first, `limiter#2` for the
/// second that has one of the same limits, and so on, in the order in which they were made. One limit in common
/// is enough, as they would share its counter. Clones are one limiter; its number is free again when the last of
/// them is dropped, if it was the highest.
#[derive(Clone)]
pub struct UnnamedScope(Arc<Numbered>);

struct Numbered {
    numbers: Arc<ScopeNumbers>,
    limits: Vec<String>,
    number: u32,
}

impl UnnamedScope {
    /// The scope of the first limiter, whatever its limits.
    pub fn first() -> Self {
        Self(Arc::new(Numbered { numbers: Arc::default(), limits: Vec::new(), number: 1 }))
    }

    /// Its place, from 1, among the limiters that share a limit with it.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// The scope as the entry `route` has it.
    pub fn text(&self) -> String {
        match self.0.number {
            1 => "limiter".to_owned(),
            number => format!("limiter#{number}"),
        }
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        let mut numbers = self.numbers.0.lock();
        for limit in &self.limits {
            if let Some(highest) = numbers.get_mut(limit).filter(|highest| **highest == self.number) {
                *highest -= 1;
                if *highest == 0 {
                    numbers.remove(limit);
                }
            }
        }
    }
}

impl Limiter {
    /// The scope of another limiter of the application that has these limits.
    #[doc(hidden)]
    pub fn unnamed_scope(&self, domain: &str, limits: &InlineLimits) -> UnnamedScope {
        self.inner.scopes.scope(domain, limits)
    }
}
