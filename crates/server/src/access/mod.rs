//! Bearer tokens, and what their roles permit.
//!
//! - [`secret`][]: a token with its secret
//! - [`registry`][]: the valid tokens
//! - [`node_tokens`][]: tokens in files of this node

pub mod node_tokens;
pub mod registry;
pub mod secret;

pub use node_tokens::NodeTokenError;
pub use registry::{Credential, TokenHolder, TokenRegistry};
pub use secret::Secret;
