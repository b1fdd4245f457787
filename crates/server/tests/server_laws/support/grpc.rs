//! Envoy's protocol from the client's side, in a few words.

use std::net::SocketAddr;

use tokio::runtime::{Builder, Runtime};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::clients::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::clients::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use super::clients::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use super::clients::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use super::clients::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::service::Service;

/// A client that waits for every answer.
pub(crate) struct Client {
    runtime: Runtime,
    service: RateLimitServiceClient<Channel>,
    pub(crate) channel: Channel,
}

/// A descriptor of these entries.
pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

/// A descriptor that brings a limit along.
pub(crate) fn with_limit(entries: &[(&str, &str)], requests_per_unit: u32, unit: i32) -> RateLimitDescriptor {
    RateLimitDescriptor { limit: Some(RateLimitOverride { requests_per_unit, unit }), ..descriptor(entries) }
}

/// A descriptor with its own hits.
pub(crate) fn with_hits(entries: &[(&str, &str)], hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

impl Client {
    pub(crate) fn new(service: &Service) -> Self {
        Self::at(service.grpc)
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let channel = runtime.block_on(endpoint.connect()).expect("it listens");
        Self { runtime, service: RateLimitServiceClient::new(channel.clone()), channel }
    }

    pub(crate) fn over(runtime: Runtime, channel: Channel) -> Self {
        Self { runtime, service: RateLimitServiceClient::new(channel.clone()), channel }
    }

    /// Runs a future of another client on this one's runtime.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn ask(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.runtime.block_on(self.service.should_rate_limit(request)).map(tonic::Response::into_inner)
    }

    /// Asks with metadata.
    pub(crate) fn ask_with(
        &mut self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<RateLimitResponse, Status> {
        self.runtime.block_on(self.service.should_rate_limit(request)).map(tonic::Response::into_inner)
    }

    /// Asks about descriptors, each taking 1.
    pub(crate) fn check(&mut self, domain: &str, descriptors: &[RateLimitDescriptor]) -> RateLimitResponse {
        let request =
            RateLimitRequest { domain: domain.to_owned(), descriptors: descriptors.to_vec(), hits_addend: 0 };
        self.ask(request).unwrap_or_else(|status| panic!("{status}"))
    }

    /// Asks about one descriptor of one entry.
    pub(crate) fn check_one(&mut self, domain: &str, key: &str, value: &str) -> RateLimitResponse {
        self.check(domain, &[descriptor(&[(key, value)])])
    }

    /// How many of so many calls pass.
    pub(crate) fn passes(&mut self, domain: &str, key: &str, value: &str, calls: usize) -> usize {
        (0..calls).filter(|_| self.check_one(domain, key, value).overall_code() == Code::Ok).count()
    }
}

/// The only status of a response.
pub(crate) fn only(response: &RateLimitResponse) -> &DescriptorStatus {
    assert_eq!(response.statuses.len(), 1, "{response:?}");
    &response.statuses[0]
}
