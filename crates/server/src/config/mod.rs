//! Settings: one table, and everything that is derived from it.
//!
//! [`table`] has the name, default, kind and help of each setting. The file, the environment and the flags are parsed
//! with it, and `tidegate config`, `tidegate init` and docs/settings.md are generated from it. The result is a
//! [`Settings`], in which every value has its origin.
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
//! - [`table`]: every setting; [`kind`]: the kinds of their values; `units`: numbers with units; [`address`]: the
//!   address of a listener
//! - `file`, `environment`: the sources; `gather`: their precedence
//! - [`settings`]: the typed result; `build`: builds it; [`origin`]: the origin of each value; [`secret`]: what is not
//!   shown
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
pub(crate) mod units;

pub use address::Listen;
pub use environment::variable;
pub use gather::{DEFAULT_FILE, Sources, load};
pub use origin::{EffectiveSetting, EffectiveSettings, Origin};
pub use settings::Settings;
pub(crate) use units::length;
