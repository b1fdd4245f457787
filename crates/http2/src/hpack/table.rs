//! The static and the dynamic table (RFC 7541, section 2.3).

use std::collections::VecDeque;

/// The overhead counted for each entry besides its name and value.
const ENTRY_BYTES: usize = 32;

/// The static table (RFC 7541, appendix A). The first entry has index 1.
#[rustfmt::skip]
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""),
    ("cache-control", ""), ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""),
    ("content-length", ""), ("content-location", ""), ("content-range", ""), ("content-type", ""),
    ("cookie", ""), ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""),
    ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""),
    ("retry-after", ""), ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""),
    ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

/// The dynamic table, newest field first.
#[derive(Debug)]
pub(super) struct Table {
    entries: VecDeque<Entry>,
    bytes: usize,
    max_bytes: usize,
}

/// A field, in one allocation.
#[derive(Debug)]
struct Entry {
    name_bytes: usize,
    text: Box<[u8]>,
}

impl Table {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, max_bytes }
    }

    /// Returns the field at an index. Names and values may be any bytes.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(index - STATIC.len())?;
        Some(entry.text.split_at(entry.name_bytes))
    }

    /// Adds a field. A field larger than the table empties the table, which is not an error.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        let bytes = name.len() + value.len() + ENTRY_BYTES;
        self.shrink_to(self.max_bytes.saturating_sub(bytes));
        if bytes <= self.max_bytes {
            self.bytes += bytes;
            self.entries.push_front(Entry { name_bytes: name.len(), text: [name, value].concat().into() });
        }
    }

    pub(super) fn resize(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
        self.shrink_to(max_bytes);
    }

    fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.text.len() + ENTRY_BYTES;
        }
    }

    /// Returns the size of the table as RFC 7541 counts it.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
