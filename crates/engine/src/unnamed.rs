//! Telling limiters of an application apart that have neither a name nor a route: by their order.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::inline::InlineLimits;
use crate::limiter::Limiter;

/// So many of the same limits are told apart at most. An application that makes more of them makes one per
/// request, and each would begin with a full limit.
const MOST: u32 = 100;

/// How many limiters there are of each set of limits.
#[derive(Default)]
pub(crate) struct ScopeNumbers(Mutex<HashMap<String, u32>>);

/// Those of limiters that ask one service: they count together, whichever client asks.
static BY_SERVICE: Mutex<Option<HashMap<String, Weak<ScopeNumbers>>>> = Mutex::new(None);

impl ScopeNumbers {
    /// The numbers of all limiters of this process that ask the service at that address.
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "only a remote service is shared"))]
    pub(crate) fn of_service(url: &str) -> Arc<Self> {
        let mut known = BY_SERVICE.lock();
        let known = known.get_or_insert_default();
        known.retain(|_, numbers| numbers.strong_count() > 0);
        if let Some(numbers) = known.get(url).and_then(Weak::upgrade) {
            return numbers;
        }
        let numbers = Arc::new(Self::default());
        known.insert(url.to_owned(), Arc::downgrade(&numbers));
        numbers
    }
}

/// The scope of a limiter that has neither a name nor a route: `limiter` for the first one of its limits,
/// `limiter#2` for the second, and so on, in the order in which they were made. Clones are one limiter; its
/// number is free again when the last of them is dropped, if it was the highest.
#[derive(Clone)]
pub struct UnnamedScope(Arc<Numbered>);

struct Numbered {
    numbers: Arc<ScopeNumbers>,
    limits: String,
    number: u32,
}

impl UnnamedScope {
    /// The first limiter of any limits.
    pub fn first() -> Self {
        Self(Arc::new(Numbered { numbers: Arc::default(), limits: String::new(), number: 1 }))
    }

    /// Which limiter of its limits it is, from 1.
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
        if let Some(count) = numbers.get_mut(&self.limits).filter(|count| **count == self.number) {
            *count -= 1;
            if *count == 0 {
                numbers.remove(&self.limits);
            }
        }
    }
}

impl Limiter {
    /// The scope of another limiter of the application that has these limits.
    #[doc(hidden)]
    pub fn unnamed_scope(&self, domain: &str, limits: &InlineLimits) -> UnnamedScope {
        let numbers = Arc::clone(&self.inner.scopes);
        let limits = format!("{domain:?} {:?}", limits.specs());
        let mut counts = numbers.0.lock();
        let count = counts.entry(limits.clone()).or_default();
        *count = (*count + 1).min(MOST);
        let number = *count;
        drop(counts);
        UnnamedScope(Arc::new(Numbered { numbers, limits, number }))
    }
}
