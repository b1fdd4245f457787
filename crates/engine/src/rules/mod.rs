//! Rules: which requests get which limits.
//!
//! A rule file is read into the [`model`] by [`file`], with every mistake reported at its place;
//! rules written in code are the same model. Then the model is compiled into the tree that requests
//! are matched against.

pub mod catalog;
pub(crate) mod compile;
pub(crate) mod current;
pub(crate) mod difference;
pub mod file;
pub(crate) mod find;
pub mod forward_auth;
pub mod limit_spec;
pub mod lint;
pub mod listing;
pub mod model;
mod path;
mod pattern;
pub mod problem;
pub mod source;
mod text;
pub(crate) mod tree;
pub(crate) mod watch;
#[doc(hidden)]
pub mod yaml;
