//! Who may do what: bearer tokens and their roles.
//!
//! - [`secret`][]: a token as its holder has it
//! - [`book`][]: the tokens that count, by what may be known of them
//! - [`own`][]: tokens that lie in files of this node

pub mod book;
pub mod own;
pub mod secret;

pub use book::{Book, Credential, Who};
pub use own::OwnTokenError;
pub use secret::Secret;
