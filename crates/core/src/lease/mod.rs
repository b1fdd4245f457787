//! Leases: units that a node takes from a shared store in one call and spends on its own.
//!
//! A [`Lease`] is what one node holds of one key. It does not call the store: it tells when to ask for more
//! ([`Lease::renewal`]), and what to return ([`Lease::release`], [`Rest`]). The [`Terms`] of a limit define how long
//! leased units may be spent, so that the limit's promise holds at the time of spending, with any number of nodes.
//!
//! # What a leased unit is
//!
//! The store counts a unit when it is taken. A client sees it when it is spent, which is later. For each algorithm
//! there is a rule that makes this difference harmless; docs/adr/0021 has the proofs.
//!
//! - `fixed_window` and `sliding_window`: a unit is spent in the window it was taken in, or not at all.
//! - `token_bucket`: a unit is spent within `T` of being taken, and the store's bucket is smaller than the limit's
//!   by what refills within `T`.
//!
//! # Time
//!
//! The store's clock and the node's clock may show different times. A node only measures how long ago it *sent*
//! the call that took the units. The store took them later than that, so they are younger than the node believes.
//! Clocks that correct themselves run up to 5 % fast or slow, so a node uses 15/16 of the time at most.
//!
//! # Layout
//!
//! - [`terms`]: which limits can be leased, and for how long units may be spent
//! - [`demand`]: how many units a key has used lately
//! - [`held`]: the lease itself

pub mod demand;
pub mod held;
pub mod terms;

pub use demand::Demand;
pub use held::{Grant, Lease, Mark, Rest};
pub use terms::{NotLeasable, Terms};
