//! Distinguishes the unnamed limiters of one application.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate::unnamed::ScopeNumbers;

/// The scope numbers of each service. All clients of a service share its numbers.
static BY_SERVICE: Mutex<Option<HashMap<String, Weak<ScopeNumbers>>>> = Mutex::new(None);

/// Returns the scope numbers of all limiters in this process that use the service at this address.
pub(crate) fn of_service(url: &str) -> Arc<ScopeNumbers> {
    let mut known = BY_SERVICE.lock();
    let known = known.get_or_insert_default();
    known.retain(|_, numbers| numbers.strong_count() > 0);
    if let Some(numbers) = known.get(url).and_then(Weak::upgrade) {
        return numbers;
    }
    let numbers = Arc::new(ScopeNumbers::default());
    known.insert(url.to_owned(), Arc::downgrade(&numbers));
    numbers
}
