//! The scopes of limiters without a name or a route. They are numbered in the order of their creation.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::inline::InlineLimits;
use crate::limiter::Limiter;

/// The most limiters with the same limits that get numbers of their own. An application with more of them probably
/// creates one per request, and each would begin with a full limit.
const MOST: u32 = 100;

/// The highest scope number in use, by domain and limit.
#[derive(Default)]
pub struct ScopeNumbers(Mutex<HashMap<String, u32>>);

impl ScopeNumbers {
    /// Returns the scope of a new limiter with these limits.
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

/// The scope of a limiter without a name or a route: `limiter` for the first, `limiter#2` for the second limiter that
/// has one of the same limits, and so on, in the order of their creation. A single limit in common is enough, because
/// they would share its counter. Clones have the same scope. When the last clone is dropped, its number becomes free
/// if it was the highest.
#[derive(Clone)]
pub struct UnnamedScope(Arc<Numbered>);

struct Numbered {
    numbers: Arc<ScopeNumbers>,
    limits: Vec<String>,
    number: u32,
}

impl UnnamedScope {
    /// Returns the scope of the first limiter, whatever its limits.
    pub fn first() -> Self {
        Self(Arc::new(Numbered { numbers: Arc::default(), limits: Vec::new(), number: 1 }))
    }

    /// Returns the number of the scope, from 1, among the limiters that share a limit with it.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Returns the scope as the value of the entry `route`.
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
    /// Returns a new scope for an unnamed limiter of the application with these limits.
    #[doc(hidden)]
    pub fn unnamed_scope(&self, domain: &str, limits: &InlineLimits) -> UnnamedScope {
        self.inner.scopes.scope(domain, limits)
    }
}
