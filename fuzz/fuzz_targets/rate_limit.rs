//! Reads whatever comes as a `RateLimitRequest`: what our reader takes, prost takes too; what it refuses
//! is refused with a reason; and answering is never a panic.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use tidegate::{Domain, Limiter, Rule, per_day};
use tidegate_server::bounds::Bounds;
use tidegate_server::decider::Decider;
use tidegate_server::grpc::rate_limit::RateLimit;
use tidegate_server::grpc::rls_request::RlsRequest;
use tidegate_server::metrics::Metrics;
use tidegate_server::protocols::DESCRIPTORS;
use tidegate_server::request_id::RequestId;

static SERVICE: LazyLock<(RateLimit, MessageDescriptor, MessageDescriptor)> = LazyLock::new(|| {
    let domain = Domain::new("d").rule(Rule::by("k").limit(per_day(1 << 53)));
    let limiter = Limiter::builder().domain(domain).build().expect("valid rules");
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("compiled in");
    let message = |name: &str| {
        pool.get_message_by_name(&format!("envoy.service.ratelimit.v3.{name}")).expect("it is in the pool")
    };
    let decider = Decider::new("fuzz", limiter, Metrics::default());
    let service = RateLimit { decider, bounds: Bounds::default(), headers: None, body: None };
    (service, message("RateLimitRequest"), message("RateLimitResponse"))
});

fuzz_target!(|bytes: &[u8]| {
    let (service, request, response) = &*SERVICE;
    if RlsRequest::read(bytes, &service.bounds).is_ok() {
        DynamicMessage::decode(request.clone(), bytes).expect("prost reads what we read");
    }
    let mut answer = Vec::new();
    match service.answer_now(bytes, RequestId::NONE, &mut answer) {
        Ok(_) => drop(DynamicMessage::decode(response.clone(), &*answer).expect("we write what prost reads")),
        Err(status) => assert!(!status.message().is_empty(), "a refusal has a reason"),
    }
});
