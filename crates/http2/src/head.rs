//! Builds the head of a request from its header fields (RFC 9113, section 8).

use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header};

/// The overhead counted for each field besides its name and value (RFC 9113, section 6.5.2).
const FIELD_BYTES: usize = 32;

/// Maximum number of fields in a request besides the pseudo-headers, as on the HTTP listener.
const MAX_FIELDS: usize = 100;

/// Maximum size of the fields in [`is_needed`] that are kept beyond the limit, in bytes.
const NEEDED_BYTES: usize = 8 << 10;

/// A valid request head.
pub(crate) struct Head {
    pub(crate) request: Request<()>,
    /// The value of `content-length`, if present.
    pub(crate) content_length: Option<u64>,
    /// Whether fields beyond a limit were dropped.
    pub(crate) is_cut: bool,
}

/// Reasons a request head is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// The fields do not form a valid request.
    Malformed,
    /// The fields exceed a limit.
    TooLarge,
}

/// Collects the fields of a header block. Fields beyond a limit are dropped. After the first error the rest is
/// ignored.
pub(crate) struct Fields {
    max_bytes: usize,
    bytes: usize,
    count: usize,
    /// Bytes of needed fields beyond the limit.
    needed_bytes: usize,
    is_cut: bool,
    fault: Option<HeadError>,
    method: Option<Method>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    path: Option<PathAndQuery>,
    content_length: Option<u64>,
    headers: HeaderMap,
    /// Whether pseudo-headers are no longer allowed. Always true for trailers.
    is_past_pseudo: bool,
}

impl Fields {
    /// Collects the fields of a request head.
    pub(crate) fn of_request(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            bytes: 0,
            count: 0,
            needed_bytes: 0,
            is_cut: false,
            fault: None,
            method: None,
            scheme: None,
            authority: None,
            path: None,
            content_length: None,
            headers: HeaderMap::new(),
            is_past_pseudo: false,
        }
    }

    /// Collects the fields of trailers.
    pub(crate) fn of_trailers(max_bytes: usize) -> Self {
        Self { is_past_pseudo: true, ..Self::of_request(max_bytes) }
    }

    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.fault.is_some() {
            return;
        }
        let is_pseudo = name.first() == Some(&b':');
        if !self.has_room(name, value, is_pseudo) {
            self.is_cut = true;
            if is_pseudo {
                self.fault = Some(HeadError::TooLarge);
            }
            return;
        }
        let added = if is_pseudo { self.pseudo(name, value) } else { self.header(name, value) };
        if added.is_none() {
            self.fault = Some(HeadError::Malformed);
        }
    }

    /// Counts a field. Returns `false` if it exceeds a limit.
    fn has_room(&mut self, name: &[u8], value: &[u8], is_pseudo: bool) -> bool {
        let bytes = name.len() + value.len() + FIELD_BYTES;
        if self.bytes + bytes <= self.max_bytes && (is_pseudo || self.count < MAX_FIELDS) {
            self.bytes += bytes;
            self.count += usize::from(!is_pseudo);
            return true;
        }
        let has_room = is_needed(name) && self.needed_bytes + bytes <= NEEDED_BYTES;
        self.needed_bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Takes a pseudo-header. Each may occur once, and before all other fields.
    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        if self.is_past_pseudo {
            return None;
        }
        match name {
            b":method" => once(&mut self.method, Method::from_bytes(value).ok()?),
            b":scheme" => once(&mut self.scheme, Scheme::try_from(value).ok()?),
            b":authority" => once(&mut self.authority, Authority::try_from(value).ok()?),
            b":path" if matches!(value, [b'/', ..] | b"*") => {
                once(&mut self.path, PathAndQuery::try_from(value).ok()?)
            }
            _ => None,
        }
    }

    fn header(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        self.is_past_pseudo = true;
        // HTTP/2 field names are lower-case.
        let name = HeaderName::from_lowercase(name).ok()?;
        match name {
            // Connection-specific fields of HTTP/1 are not allowed (RFC 9113, section 8.2.2).
            header::CONNECTION | header::TRANSFER_ENCODING | header::UPGRADE => return None,
            header::TE if value != b"trailers" => return None,
            header::CONTENT_LENGTH => {
                let length = std::str::from_utf8(value).ok()?;
                // Digits only: `parse` would accept a sign.
                let length =
                    length.bytes().all(|byte| byte.is_ascii_digit()).then(|| length.parse().ok())??;
                if self.content_length.is_some_and(|known| known != length) {
                    return None;
                }
                self.content_length = Some(length);
            }
            _ if matches!(name.as_str(), "keep-alive" | "proxy-connection") => return None,
            _ => {}
        }
        self.headers.try_append(name, HeaderValue::from_bytes(value).ok()?).ok()?;
        Some(())
    }

    pub(crate) fn into_head(self) -> Result<Head, HeadError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let method = self.method.ok_or(HeadError::Malformed)?;
        let mut uri = http::uri::Parts::default();
        // CONNECT requests have neither a scheme nor a path; all others have both.
        let is_tunnel = method == Method::CONNECT;
        if is_tunnel == self.scheme.is_some() || is_tunnel == self.path.is_some() {
            return Err(HeadError::Malformed);
        }
        // Without an authority the URI must be relative.
        (uri.scheme, uri.authority) = (self.scheme.filter(|_| self.authority.is_some()), self.authority);
        uri.path_and_query = self.path;
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| HeadError::Malformed)?;
        *request.version_mut() = Version::HTTP_2;
        *request.method_mut() = method;
        *request.headers_mut() = self.headers;
        Ok(Head { request, content_length: self.content_length, is_cut: self.is_cut })
    }

    pub(crate) fn into_trailers(self) -> Result<HeaderMap, HeadError> {
        let fault = self.fault.or(self.is_cut.then_some(HeadError::TooLarge));
        fault.map_or(Ok(self.headers), Err)
    }
}

/// Returns whether requests cannot be decided without this field. Fields that a proxy copies from its clients must
/// not displace it.
fn is_needed(name: &[u8]) -> bool {
    matches!(name, b"authorization" | b"content-type" | b"content-length" | b"te")
}

fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}
