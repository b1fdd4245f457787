//! Limiters that are built one after the other are told of, once per process: hence a program of its own.

#![expect(clippy::unwrap_used, reason = "a helper that finds nothing fails its test")]

mod log;

use tidegate::{Domain, Limiter};

use log::Log;

#[test]
fn who_builds_a_limiter_per_request_is_told_so() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let build = || drop(Limiter::builder().domain(Domain::new("apps")).build().unwrap());
    (0..100).for_each(|_| build());
    assert_eq!(log.count("TIDEGATE_LIMITER_PER_REQUEST"), 0);
    (0..5).for_each(|_| build());
    assert_eq!(log.count("TIDEGATE_LIMITER_PER_REQUEST"), 1);
}
