//! Settings: one table, and everything that follows from it.
//!
//! [`table`] has each setting's name, default, kind and help. The file, the environment and the
//! flags are read by it, and `tidegate config`, `tidegate init` and docs/settings.md are written by
//! it. What comes out is a [`Settings`], in which every value keeps where it came from.
//!
//! ```
//! use tidegate_server::config::{Sources, load};
//!
//! let mut sources = Sources::default();
//! sources.environment.push(("TIDEGATE_GRPC__LISTEN".into(), "127.0.0.1:0".into()));
//! let settings = load(&sources).unwrap();
//! assert_eq!(settings.grpc.listen.to_string(), "127.0.0.1:0");
//! assert_eq!(settings.in_force().find("grpc.listen").unwrap().origin.to_string(), "TIDEGATE_GRPC__LISTEN");
//! ```
//!
//! # Layout
//!
//! - [`table`]: every setting; [`kind`]: what its text may be; `units`: numbers with units;
//!   [`address`]: where a listener listens
//! - `file`, `environment`: texts and where they stand; `gather` reads all of them by precedence
//! - [`settings`]: the typed result; `build` makes it; [`origin`]: where each value came from;
//!   [`secret`]: what is not shown
//! - [`document`]: docs/settings.md and the file that `tidegate init` writes

pub mod address;
mod build;
pub mod document;
mod environment;
mod file;
mod gather;
pub mod kind;
pub mod origin;
pub mod secret;
pub mod settings;
pub mod table;
mod units;

pub use address::Listen;
pub use environment::variable;
pub use gather::{Sources, USUAL_FILE, load};
pub use origin::{Held, InForce, Origin};
pub use settings::Settings;
pub(crate) use units::length;
