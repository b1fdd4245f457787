//! Laws of clients: what they send, what they make of responses, and what they do without the service. Each is
//! stated by the name of its test.

#![expect(clippy::unwrap_used, reason = "a helper that finds nothing fails its test")]

mod batches;
mod decisions;
mod failures;
mod slots;
mod spelling;
mod stub;

use std::time::Duration;

use tidegate_client::{Builder, Client};

use stub::Stub;

/// A client of the stub, with a deadline that only a stub that hangs misses.
fn client_of(stub: &Stub) -> Client {
    built(Client::builder(stub.url()).deadline(Duration::from_secs(10)))
}

fn built(builder: Builder) -> Client {
    builder.build().unwrap_or_else(|error| panic!("{error}"))
}
