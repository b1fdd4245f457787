//! Envoy's messages, read and written by hand, beside prost.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use tidegate_server::bounds::Bounds;
use tidegate_server::grpc::rls_request::RlsRequest;

use crate::support::clients::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::support::clients::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use crate::support::clients::envoy::service::ratelimit::v3::RateLimitRequest;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z]{1,8}", "\\PC{0,40}"]
}

fn descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let entry = ("[a-z]{1,9}", text()).prop_map(|(key, value)| Entry { key, value });
    let limit = (any::<u32>(), 0..9)
        .prop_map(|(requests_per_unit, unit)| RateLimitOverride { requests_per_unit, unit });
    let hits = option::of(0_u64..1 << 53);
    (vec(entry, 1..5), option::of(limit), hits, any::<bool>()).prop_map(
        |(entries, limit, hits_addend, back)| RateLimitDescriptor {
            entries,
            limit,
            hits_addend,
            is_negative_hits: back,
        },
    )
}

fn request() -> impl Strategy<Value = RateLimitRequest> {
    (text(), vec(descriptor(), 0..4), any::<u32>())
        .prop_map(|(domain, descriptors, hits_addend)| RateLimitRequest { domain, descriptors, hits_addend })
}

/// What was read, as prost has it.
fn as_prost(asked: &RlsRequest<'_>) -> RateLimitRequest {
    let descriptors = asked.descriptors.iter().map(|descriptor| RateLimitDescriptor {
        entries: asked.entries[descriptor.start..descriptor.end]
            .iter()
            .map(|(key, value)| Entry { key: (*key).to_owned(), value: (*value).to_owned() })
            .collect(),
        limit: descriptor
            .limit
            .map(|(requests_per_unit, unit)| RateLimitOverride { requests_per_unit, unit }),
        hits_addend: descriptor.hits_addend,
        is_negative_hits: descriptor.is_negative_hits,
    });
    RateLimitRequest {
        domain: asked.domain.to_owned(),
        descriptors: descriptors.collect(),
        hits_addend: asked.hits_addend,
    }
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn what_prost_writes_is_read_the_same(request in request()) {
        let bytes = request.encode_to_vec();
        let asked = RlsRequest::read(&bytes, &Bounds::default()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(as_prost(&asked), request);
    }

    #[test]
    fn parts_and_unknown_fields_are_read_as_prost_reads_them(
        request in request(),
        cut in any::<prop::sample::Index>(),
        unknown in prop_oneof![Just(vec![]), Just(vec![0x7a, 2, 1, 2]), Just(vec![0x78, 5]), Just(vec![0x7d, 0, 0, 0, 0])],
    ) {
        let mut bytes = request.encode_to_vec();
        bytes.extend(unknown);
        let end = cut.index(bytes.len() + 1);
        let ours = RlsRequest::read(&bytes[..end], &Bounds::default());
        let theirs = RateLimitRequest::decode(&bytes[..end]);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => prop_assert_eq!(as_prost(&ours), theirs),
            (Err(_), Err(_)) => {}
            // A descriptor cut off at a field's end may be without entries, which only we refuse.
            (Err(error), Ok(theirs)) => prop_assert!(
                theirs.descriptors.iter().any(|descriptor| {
                    descriptor.entries.is_empty() || descriptor.entries.iter().any(|entry| entry.key.is_empty())
                }),
                "{}", error
            ),
            (Ok(ours), Err(error)) => prop_assert!(false, "we read {:?}, prost says {}", ours, error),
        }
    }
}
