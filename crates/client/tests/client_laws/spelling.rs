//! Values and costs that a service would reject are sent in the spelling that all languages share.

use tidegate::Request;
use tidegate_client::{Client, Fallback};

use super::built;
use super::stub::Stub;

#[tokio::test]
async fn a_client_that_is_asked_directly_spells_values_and_costs() {
    let stub = Stub::start().await;
    let client = built(Client::builder(stub.url()).fallback(Fallback::Allow));
    let limits = client.inline_limits("apps", &[tidegate::per_minute(5)]).unwrap();
    let request = Request::new("apps", [("user", "ann\r\n")]).limits(&limits).descriptor_cost(u64::MAX);
    let decision = client.check(&request.cost(u64::MAX)).await;
    assert!(!decision.allowed() && decision.rendered().is_some());
    let asked = &stub.asked()[0].1;
    assert_eq!(asked["descriptors"][0]["entries"][0]["value"], "ann%0D%0A");
    assert_eq!(
        (&asked["cost"], &asked["descriptors"][0]["cost"]),
        (&(1_u64 << 53).into(), &(1_u64 << 53).into())
    );
}
