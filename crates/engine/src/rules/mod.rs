//! Rules: which requests get which limits.
//!
//! [`file`] parses rule files into the [`model`], and reports every mistake with its position. Rules written
//! in code use the same model. The model is then compiled into the tree that requests are matched against.

pub mod check;
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
pub mod origins;
pub mod outline;
mod path;
mod pattern;
mod patterns;
pub mod problem;
mod text;
pub(crate) mod tree;
#[doc(hidden)]
pub mod yaml;
