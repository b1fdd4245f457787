//! The core of Tidegate: limits and the algorithms that enforce them, without I/O.
//!
//! Everything here is a pure function: no I/O, no async, no clock reads, no floats. Time is passed in as [`Micros`],
//! the stored data of a key is a [`State`], and the result of a charge is a [`Verdict`].
//!
//! ```
//! use tidegate_core::{Algorithm, Limit, Micros, Outcome, Window};
//!
//! let limit = Limit::new(Algorithm::TokenBucket { burst: 2 }, 1, Window::seconds(10))?;
//! let mut state = limit.fresh();
//! let now = Micros(1_000_000);
//! assert!(limit.charge(&mut state, 1, now).allowed());
//! assert!(limit.charge(&mut state, 1, now).allowed());
//! let denied = limit.charge(&mut state, 1, now);
//! assert_eq!(denied.outcome, Outcome::Denied { retry_after_us: 10_000_000 });
//! # Ok::<(), tidegate_core::LimitError>(())
//! ```
//!
//! # Layout
//!
//! - [`micros`]: a point in time
//! - [`clock`]: the source of time, and a clock that tests move by hand
//! - [`window`], [`calendar`]: the length of windows, and where they begin and end
//! - [`limit`]: the numbers and the algorithm of a limit, validated on construction
//! - [`key`]: the identity of one counter
//! - [`lease`]: units taken from a shared store and spent locally
//! - [`sync`]: decisions of one node that exchanges counts with others
//! - [`verdict`]: the outcome of one charge
//! - [`algorithm`]: one folder per algorithm, each with test vectors for every implementation of it

pub mod algorithm;
pub mod calendar;
pub mod clock;
pub mod key;
pub mod lease;
pub mod limit;
pub mod micros;
pub mod sync;
pub mod verdict;
mod wide;
pub mod window;

pub use algorithm::{Algorithm, LeakyMode, State, Taken};
pub use calendar::{Calendar, CalendarUnit};
pub use clock::{Clock, VirtualClock};
pub use key::{Key, KeySeed};
pub use limit::{Limit, LimitError, LimitField, MAX_COUNT};
pub use micros::Micros;
pub use verdict::{NEVER_US, Outcome, Verdict};
pub use window::{Span, Window};
