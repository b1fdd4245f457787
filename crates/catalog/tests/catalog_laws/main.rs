//! Laws of the catalog, each stated by the name of its test. Those in `conformance` hold for `SQLite` and for a
//! real `PostgreSQL` alike.

#![expect(
    clippy::unwrap_used,
    reason = "laws are functions that tests call: a failure is to be seen where it is"
)]

mod conformance;
mod copies;
mod descriptors;
mod drafts;
mod faults;
mod picture;
mod poolers;
mod urls;
mod world;
