//! The audit trail: who changed what, and a sample of the denials.
//!
//! A trail is a folder of files to which lines are only appended. Every line contains the hash of the line
//! before it, so that editing, removing, moving or inserting a line can be detected. A note of the newest
//! line detects truncation at the end. The chain has no key: anyone who can write to the folder and knows the format
//! can write another trail. To exclude that, store the hash of [`Summary::last`] elsewhere from time to time, or
//! stream the trail to another machine with a custom [`Sink`].
//!
//! Recording never waits for the disk. If the disk is full or unavailable, records are dropped and counted,
//! and the trail itself says where they are missing.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_audit::{Change, FileSink, Settings, Trail, verify};
//! use tidegate_core::{Clock, VirtualClock};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let (settings, clock) = (Settings::default(), Arc::new(VirtualClock::new()));
//! let trail = Trail::start(FileSink::open(folder, &settings)?, &settings, clock.clone());
//! trail.record(Change {
//!     at: clock.now(),
//!     actor: "ann".to_owned(),
//!     action: "quota.set".to_owned(),
//!     object: "acme".to_owned(),
//!     ..Change::default()
//! });
//! trail.close(std::time::Duration::from_secs(60));
//! assert_eq!(verify(folder)?.records, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//!
//! - [`record`]: the records; [`settings`]: the bounds of a trail
//! - [`trail`]: the handle that records; `queue` and `writer`: its implementation
//! - [`sampler`]: selects the denials to record
//! - [`chain`]: how lines are sealed and checked
//! - [`sink`]: the destination of lines; [`file`](mod@file): a folder of segments; `folder`: its files;
//!   `recovery`: finds the end of a segment
//! - [`verify`](mod@verify), [`read`](mod@read): verify and read a folder

pub mod chain;
pub mod file;
mod folder;
mod queue;
pub mod read;
pub mod record;
mod recovery;
pub mod sampler;
pub mod settings;
pub mod sink;
pub mod trail;
pub mod verify;
mod writer;

pub use chain::{Hash, Tip};
pub use file::{FileSink, OpenError};
pub use read::{Filter, Page, read};
pub use record::{Change, Cut, Denial, Entry, Event, Lost, Record, Retired};
pub use sampler::Sampler;
pub use settings::Settings;
pub use sink::{Batch, Sink};
pub use trail::{Dropped, NotWritten, Trail, Written};
pub use verify::{Broken, LineId, Summary, VerifyError, verify};
