//! The body of a gRPC answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

/// The message and its trailers, or whatever tonic answers.
pub enum GrpcBody {
    /// A message yet to be sent.
    Message(Bytes),
    /// The trailers that say all went well, yet to be sent.
    Trailers,
    /// Nothing is left.
    End,
    /// What one of tonic's services answers.
    Tonic(tonic::body::Body),
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

impl Body for GrpcBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match &mut *self {
            Self::Message(message) => {
                let frame = Frame::data(std::mem::take(message));
                *self = Self::Trailers;
                frame
            }
            Self::Trailers => {
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
                *self = Self::End;
                Frame::trailers(trailers)
            }
            Self::End => return Poll::Ready(None),
            Self::Tonic(body) => return Pin::new(body).poll_frame(cx),
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(_) | Self::Trailers => false,
            Self::End => true,
            Self::Tonic(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Tonic(body) => body.size_hint(),
            // A content-length would have to be written for every answer, and nobody needs it.
            _ => SizeHint::default(),
        }
    }
}
