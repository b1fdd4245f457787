//! A decision as a service rendered it.

/// The status, headers and body of a decision made by a service, to be passed on unchanged; see
/// [`crate::Decision::rendered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The HTTP status: 200, or 429 for a denial.
    pub status: u16,
    /// The content type of the body.
    pub content_type: String,
    /// The rate limit headers, in their order.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: String,
}

impl Rendered {
    /// Returns the value of a header. `name` must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
