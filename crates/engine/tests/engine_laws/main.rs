//! Laws of the library, each stated by the name of its test.

mod acquire;
mod composed;
mod counts;
mod decision;
mod documents;
mod explain;
mod identity;
mod inline;
mod lint;
mod listing;
mod matching;
mod mistakes;
mod origins;
mod outcomes;
mod reload;
mod reserve;
mod rule_files;
#[cfg(feature = "redis")]
mod shared;
mod small_limits;
mod snapshots;
mod support;
mod switches;
mod tenants;
mod until_ready;
