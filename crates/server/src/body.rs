//! Reads the body of a request, within a bound and in time.

use std::fmt::Display;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, HeaderMap};
use http_body::Body;
use thiserror::Error;
use tidegate_http2::{MemoryBudget, MemoryClaim};
use tokio::time::timeout;

/// How long a body may take to arrive.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Why a body could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    /// It is longer than allowed.
    #[error("the body is too long")]
    TooLong {
        /// The bytes that arrived, or that the head announced.
        found: usize,
    },
    /// It did not arrive in time.
    #[error("the body did not arrive within {PATIENCE:?}; send it with the request")]
    Late,
    /// Other bodies use all the memory that there is for them.
    #[error("other requests use all the memory for bodies (memory.max_bytes); try again")]
    NoRoom,
    /// It ended too early.
    #[error("the body ended too early: {0}")]
    Broken(String),
}

/// Returns why the content coding of a body, such as compression, is not supported; `None` if it has none. The response
/// has status 415 and `Accept-Encoding: identity` (RFC 9110, 12.5.3).
pub fn unsupported_coding(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut others = codings.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    let found = String::from_utf8_lossy(others.next()?);
    Some(format!("the content encoding must be identity, got {found:?}; send the body without it"))
}

/// Reads a body of at most `most` bytes. Needs a runtime with time enabled. A body that does not arrive at once takes its
/// memory from the budget.
///
/// # Errors
/// If the body is too long, late or incomplete, or exceeds the budget.
pub async fn collect<B>(body: B, most: usize, budget: &MemoryBudget) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    // The length in the head; 0 if it is not known.
    within(most, usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX))?;
    let mut pieces = pin!(pieces(body, most, budget));
    // Nearly always it arrives with the head, and no timer is needed.
    match poll_fn(|context| Poll::Ready(pieces.as_mut().poll(context))).await {
        Poll::Ready(collected) => collected,
        Poll::Pending => timeout(PATIENCE, pieces).await.unwrap_or(Err(BodyError::Late)),
    }
}

/// Most bodies arrive in one piece, which is not copied.
async fn pieces<B>(mut body: B, most: usize, budget: &MemoryBudget) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let mut claim: Option<MemoryClaim> = None;
    while !body.is_end_stream() {
        let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await else { break };
        let frame = frame.map_err(|error| BodyError::Broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.is_empty() {
            continue;
        }
        let held = first.len() + all.len();
        within(most, held + data.len())?;
        if held == 0 && body.is_end_stream() {
            return Ok(data);
        }
        if !extend(&mut claim, data.len(), budget) {
            return Err(BodyError::NoRoom);
        }
        if held == 0 {
            first = data;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Takes more bytes from the budget. Returns whether they fit.
fn extend(claim: &mut Option<MemoryClaim>, bytes: usize, budget: &MemoryBudget) -> bool {
    if let Some(claim) = claim {
        return claim.grow(bytes);
    }
    *claim = budget.take(bytes);
    claim.is_some()
}

fn within(most: usize, found: usize) -> Result<(), BodyError> {
    if found > most { Err(BodyError::TooLong { found }) } else { Ok(()) }
}
