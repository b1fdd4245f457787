//! Templates of descriptors.

/// The value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryValue {
    /// The text of the request's key.
    Key,
    /// This text in every request.
    Fixed(&'static str),
}

/// Descriptors, each a list of entries with names and values.
pub type Descriptors = &'static [&'static [(&'static str, EntryValue)]];

/// The most common request of Envoy and gateways: a limit per API key and endpoint, one per address, and a global
/// one.
pub const THREE_DESCRIPTORS: Descriptors = &[
    &[("api_key", EntryValue::Key), ("endpoint", EntryValue::Fixed("GET /v1/items"))],
    &[("remote_address", EntryValue::Key)],
    &[("global", EntryValue::Fixed("all"))],
];
