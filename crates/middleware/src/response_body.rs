//! The body of a response, or of a denial.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::renewed_permit::RenewedPermit;

pin_project! {
    /// The response body of [`crate::RateLimit`]. If a permit was acquired, its slots are returned when the body has
    /// ended or is dropped.
    pub struct LimitedBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindPin]
    enum Kind<B> {
        Inner { #[pin] body: B, permit: Option<RenewedPermit> },
        Text { text: Option<Bytes> },
    }
}

impl<B> LimitedBody<B> {
    pub(crate) fn new(body: B, permit: Option<RenewedPermit>) -> Self {
        Self { kind: Kind::Inner { body, permit } }
    }

    pub(crate) fn text(text: Bytes) -> Self {
        Self { kind: Kind::Text { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

impl<B: Body> Body for LimitedBody<B>
where
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().kind.project() {
            KindPin::Text { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into())))),
            KindPin::Inner { mut body, permit } => {
                let frame = ready!(body.as_mut().poll_frame(context));
                if !matches!(frame, Some(Ok(_))) || body.is_end_stream() {
                    *permit = None;
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body, .. } => body.is_end_stream(),
            Kind::Text { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body, .. } => body.size_hint(),
            Kind::Text { text } => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
