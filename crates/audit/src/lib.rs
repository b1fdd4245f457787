//! The audit trail: who changed what, and, sampled, who was denied.
//!
//! A trail is a folder of files to which lines are only ever added. Every line names the hash of the
//! line before it, so that a line that was edited, removed, moved or put in between shows, and a note
//! of the newest line shows what was cut off at the end. The chain has no key: whoever can write the
//! folder and knows this format can write another trail. Who must exclude that keeps the hash of
//! [`Summary::last`] elsewhere from time to time, or streams the trail away by a [`Sink`] of their own.
//!
//! Recording never waits for the disk. A disk that is full or gone costs records, which are counted,
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
//! - [`record`]: what is written down; [`settings`]: how much of it is kept
//! - [`trail`]: the handle that records; `queue` and `writer` behind it
//! - [`sampler`]: which denials are worth a record
//! - [`chain`]: how lines are sealed and checked
//! - [`sink`]: where lines go; [`file`](mod@file): a folder of segments; `folder`: their names;
//!   `recovery`: where they end
//! - [`verify`](mod@verify), [`read`](mod@read): checking and showing a folder

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
pub use verify::{Broken, Place, Summary, VerifyError, verify};
