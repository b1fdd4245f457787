//! Deterministic worlds: nodes that share a store, traffic, and faults, in virtual time.
//!
//! A [`Scenario`] says everything, its seed included, so the same scenario always gives the same [`Report`]. The
//! nodes run the product's own code ([`tidegate_stores::LeasedStore`], [`tidegate_core::sync`]) over a network that
//! delays, loses and repeats messages. The shared store is simulated: the product's algorithms over plain states,
//! which can be copied, so that a failover can lose the last writes.
//!
//! After every event the world checks that no unit was lost count of, and that what was admitted keeps the promise
//! of the limit at the time of spending. [`Report::broken`] says what did not hold.
//!
//! ```
//! use tidegate_core::{Limit, Window};
//! use tidegate_simulate::{Consistency, Scenario, Traffic};
//!
//! let limit = Limit::token_bucket(500, Window::seconds(1))?;
//! let mut scenario = Scenario::new(7, limit, Consistency::Leased);
//! scenario.traffic = vec![Traffic::Steady { per_second: 400 }; 2];
//! let report = scenario.run();
//! assert_eq!(report.broken, None);
//! assert_eq!(report.over_admitted, 0);
//! # Ok::<(), tidegate_core::LimitError>(())
//! ```
//!
//! # Layout
//!
//! - [`scenario`]: what is simulated
//! - [`traffic`]: when requests arrive
//! - [`network`]: calls between nodes and the shared store
//! - [`shared`]: the shared store
//! - [`node`]: a node in one of the consistency modes
//! - [`world`]: the loop of events
//! - [`report`], [`plot`]: what came of it, as a table, JSON and SVG

mod network;
mod node;
pub mod plot;
pub mod report;
pub mod scenario;
mod shared;
pub mod traffic;
mod world;

pub use report::Report;
pub use scenario::{Consistency, Fault, Network, Scenario};
pub use traffic::Traffic;
