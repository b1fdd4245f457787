//! What requests of several descriptors are made of.

/// The value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryValue {
    /// The text of the request's key.
    Key,
    /// The same in every request.
    Fixed(&'static str),
}

/// Descriptors, each a list of entries: names and values.
pub type Descriptors = &'static [&'static [(&'static str, EntryValue)]];

/// What Envoy and gateways ask most: a limit for each API key and endpoint, one for each address, and one for all.
pub const THREE_DESCRIPTORS: Descriptors = &[
    &[("api_key", EntryValue::Key), ("endpoint", EntryValue::Fixed("GET /v1/items"))],
    &[("remote_address", EntryValue::Key)],
    &[("global", EntryValue::Fixed("all"))],
];
