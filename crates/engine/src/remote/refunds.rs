//! Giving back what was charged.

use http::StatusCode;

use super::ask::{Costs, write};
use super::decide::charges_locally;
use super::{RemoteError, RemoteFallback, Service};
use crate::limiter::Inner;
use crate::request::Request;

impl Inner {
    /// Gives a request's cost back in the service; while that cannot be reached, to what is counted here. One
    /// that came to nothing later may have been given back there, and is not given back twice.
    pub(crate) async fn refund_remote(&self, service: &Service, request: &Request<'_>) {
        let Err(error) = service.refund(request).await else { return };
        service.note(&error);
        let not_there = matches!(error, RemoteError::Away | RemoteError::Unreachable(_));
        if not_there && service.fallback == RemoteFallback::Local {
            self.refund_here(service, request);
        }
    }

    /// The counters that a check without the service would have charged.
    fn refund_here(&self, service: &Service, request: &Request<'_>) {
        let rules = self.rules.load();
        if rules.domain(request.domain()).is_some() {
            return self.give_back(request);
        }
        let brought = service.brought_locally(request);
        let (charges, _) = charges_locally(&rules, request, &brought);
        self.store.give_back_now(&charges);
    }
}

impl Service {
    async fn refund(&self, request: &Request<'_>) -> Result<(), RemoteError> {
        let reply = self.ask("/v1/refund", write(request, Costs::Asked, None)).await?;
        match reply.status {
            StatusCode::OK => Ok(()),
            _ => Err(reply.refused()),
        }
    }
}
