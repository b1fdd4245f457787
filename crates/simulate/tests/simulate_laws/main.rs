//! The laws of leased and synced limits, in simulated worlds.
//!
//! - [`bars`]: figures that the modes have to reach
//! - [`seeds`]: thousands of random worlds with faults, each run twice

mod bars;
mod seeds;
