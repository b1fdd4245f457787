//! A limiter that asks a service: what it sends, what it makes of answers, and what it does without.

pub(crate) mod stub;

mod answers;
mod batches;
mod failures;
mod slots;

use tidegate::{Builder, Limiter, Remote};

use stub::Stub;

/// A limiter that asks the stub, with a deadline that only a stub that hangs misses.
pub(crate) fn asking(stub: &Stub) -> Limiter {
    built(Limiter::builder().remote(Remote::new(stub.url()).deadline(std::time::Duration::from_secs(10))))
}

pub(crate) fn built(builder: Builder) -> Limiter {
    builder.build().unwrap_or_else(|error| panic!("{error}"))
}
