//! What a decision says.

mod answers;
mod kinds;
mod retry_after;
mod texts;
