//! A response as a service rendered it.

/// Status, headers and body of a decision that a service made, to be passed on as they are; see
/// [`crate::Decision::rendered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// 200, or 429 for a denial.
    pub status: u16,
    /// The type of the body.
    pub content_type: String,
    /// The headers about limits, in their order.
    pub headers: Vec<(String, String)>,
    /// The JSON, byte by byte.
    pub body: String,
}

impl Rendered {
    /// The value of a header, by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
