//! What the server promises its clients, and what it does to those that break the protocol.

mod answers;
mod bounds;
mod broken;
mod farewell;
mod floods;
mod interop;
mod requests;
mod silence;
mod splits;
mod support;
mod turns;
mod windows;
