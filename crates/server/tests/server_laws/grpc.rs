//! What the gRPC listener offers besides Envoy's protocol, and how connections are kept.

use std::time::Duration;

use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::support::clients::tidegate::v1::permits_client::PermitsClient;
use crate::support::clients::tidegate::v1::{
    AcquireRequest, AcquireResponse, Descriptor, Entry, ReleaseRequest, RenewRequest,
};
use crate::support::grpc::Client;
use crate::support::service::{Setup, get, service, until};

const RULES: &str = "
domain: api
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1000}}
  - {key: job, concurrency: {max: 2, timeout: 60s}}
";

fn status_of(client: &Client, name: &str) -> Option<ServingStatus> {
    let request = HealthCheckRequest { service: name.to_owned() };
    let answer = client.block_on(HealthClient::new(client.channel.clone()).check(request));
    answer.ok().map(|answer| answer.get_ref().status())
}

#[test]
fn health_knows_the_service_and_says_when_it_is_going() {
    let service = Setup::rules(RULES).with("drain.delay", "30s").start();
    let client = Client::new(&service);
    for name in ["", "ratelimit"] {
        assert_eq!(status_of(&client, name), Some(ServingStatus::Serving), "{name:?}");
    }
    assert_eq!(status_of(&client, "unknown"), None);
    service.signal("TERM");
    for name in ["", "ratelimit"] {
        until("it is not serving", || status_of(&client, name) == Some(ServingStatus::NotServing));
    }
}

#[test]
fn who_watches_the_health_is_told_and_does_not_hold_up_the_end() {
    let service = Setup::rules(RULES).with("drain.grace", "10m").start();
    let client = Client::new(&service);
    let request = HealthCheckRequest { service: "ratelimit".to_owned() };
    let watch = client.block_on(HealthClient::new(client.channel.clone()).watch(request));
    let mut said = watch.expect("it can be watched").into_inner();
    let mut next = || client.block_on(said.message()).ok().flatten().map(|answer| answer.status());
    assert_eq!(next(), Some(ServingStatus::Serving));
    service.signal("TERM");
    assert_eq!(next(), Some(ServingStatus::NotServing));
    assert_eq!(next(), None, "the stream ends");
    assert!(service.wait().status.success());
}

#[test]
fn what_permits_cannot_read_is_the_clients_mistake() {
    let service = Setup::rules(RULES).with("bounds.message_bytes", "1KiB").start();
    let client = Client::new(&service);
    let entry = Entry { key: "job".to_owned(), value: "x".repeat(4096) };
    let request =
        AcquireRequest { domain: "api".to_owned(), descriptors: vec![Descriptor { entries: vec![entry] }] };
    let refused = client.block_on(PermitsClient::new(client.channel.clone()).acquire(request));
    let refused = refused.expect_err("it is too long");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("bounds.message_bytes"), "{refused}");
    // A domain that is not UTF-8.
    let refused = client.block_on(async {
        let mut raw = tonic::client::Grpc::new(client.channel.clone());
        raw.ready().await.expect("it is ready");
        let path = http::uri::PathAndQuery::from_static("/tidegate.v1.Permits/Acquire");
        // Bytes go over the wire as a text does.
        let codec = tonic_prost::ProstCodec::<Vec<u8>, Vec<u8>>::default();
        raw.unary(tonic::Request::new(vec![0xc3, 0x28]), path, codec).await
    });
    let refused = refused.expect_err("it is no text");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
}

#[test]
fn reflection_lists_every_service() {
    let service = service(RULES);
    let client = Client::new(&service);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let names = client.block_on(async {
        let mut reflection = ServerReflectionClient::new(client.channel.clone());
        let answers = reflection.server_reflection_info(tokio_stream_once(request)).await.expect("an answer");
        match answers.into_inner().message().await.expect("a message").expect("one").message_response {
            Some(MessageResponse::ListServicesResponse(list)) => {
                list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    });
    for expected in [
        "envoy.service.ratelimit.v3.RateLimitService",
        "tidegate.v1.Permits",
        "tidegate.v1.Reservations",
        "grpc.health.v1.Health",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected} is not in {names:?}");
    }
}

#[test]
fn reflection_answers_tools_that_know_the_alpha_only() {
    use tonic_reflection::pb::v1alpha::ServerReflectionRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
    let service = service(RULES);
    let client = Client::new(&service);
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request };
    client.block_on(async {
        let mut reflection = ServerReflectionClient::new(client.channel.clone());
        let answers = reflection.server_reflection_info(tokio_stream_once(request)).await.expect("an answer");
        answers.into_inner().message().await.expect("a message").expect("one");
    });
}

/// A stream of one request.
fn tokio_stream_once<T: Send + Unpin + 'static>(
    item: T,
) -> impl tonic::codegen::tokio_stream::Stream<Item = T> + Send {
    tonic::codegen::tokio_stream::once(item)
}

fn acquire(client: &Client, job: &str) -> AcquireResponse {
    let entries = vec![Entry { key: "job".to_owned(), value: job.to_owned() }];
    let request = AcquireRequest { domain: "api".to_owned(), descriptors: vec![Descriptor { entries }] };
    let answer = client.block_on(PermitsClient::new(client.channel.clone()).acquire(request));
    answer.expect("an answer").into_inner()
}

#[test]
fn permits_are_acquired_renewed_and_released() {
    let service = service(RULES);
    let client = Client::new(&service);
    let permits = || PermitsClient::new(client.channel.clone());
    let (first, second) = (acquire(&client, "a"), acquire(&client, "a"));
    assert!(!first.permit.is_empty() && first.expires_at.is_some() && first.permit != second.permit);
    let denied = acquire(&client, "a");
    let denial = denied.denial.expect("two are held");
    assert_eq!((denied.permit, &*denial.rule, denial.limit), (String::new(), "job", 2));
    assert!(denial.retry_after.is_some_and(|retry| (1..=60).contains(&retry.seconds)));

    let renew = |permit: &str| {
        let answer = client.block_on(permits().renew(RenewRequest { permit: permit.to_owned() }));
        answer.map(|answer| answer.into_inner().renewed)
    };
    assert!(renew(&first.permit).expect("an answer"));
    for _ in 0..2 {
        let release = ReleaseRequest { permit: first.permit.clone() };
        client.block_on(permits().release(release)).expect("twice is no error");
    }
    assert!(!renew(&first.permit).expect("an answer"), "it is released");
    assert!(acquire(&client, "a").denial.is_none(), "its slot is free");
    assert_eq!(renew("nonsense").expect_err("no permit").code(), tonic::Code::InvalidArgument);
    let free = acquire(&client, "");
    assert!(!free.permit.is_empty(), "an empty value is a value");
}

#[test]
fn permits_are_not_given_out_without_rules() {
    let setup = Setup::rules(RULES);
    std::fs::remove_file(setup.path().join("rules/rules.yaml")).expect("it was there");
    let service = setup.start();
    let client = Client::new(&service);
    let request = AcquireRequest {
        domain: "api".to_owned(),
        descriptors: vec![Descriptor {
            entries: vec![Entry { key: "job".to_owned(), value: "a".to_owned() }],
        }],
    };
    let refused = client.block_on(PermitsClient::new(client.channel.clone()).acquire(request));
    let refused = refused.expect_err("there are no rules");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert_eq!(refused.message(), "no rate limit configuration loaded");
}

#[test]
fn a_renewed_permit_is_held_as_long_as_the_rules_in_force_say() {
    let service = service(RULES);
    let client = Client::new(&service);
    let permit = acquire(&client, "a");
    assert!(RULES.contains("timeout: 60s"));
    service.change_rules(&RULES.replace("timeout: 60s", "timeout: 600s"));
    let renew = RenewRequest { permit: permit.permit };
    let renewed = client.block_on(PermitsClient::new(client.channel.clone()).renew(renew));
    let renewed = renewed.expect("an answer").into_inner();
    assert!(renewed.renewed, "another time-out takes no slot away");
    let (before, after) = (permit.expires_at.expect("a time"), renewed.expires_at.expect("a time"));
    assert!(after.seconds - before.seconds >= 500, "{before} {after}");
}

#[test]
fn old_connections_are_asked_to_go_and_calls_go_on() {
    let service = Setup::rules(RULES)
        .with("grpc.max_connection_age", "300ms")
        .with("grpc.max_connection_age_grace", "1s")
        .start();
    let mut client = Client::new(&service);
    let accepted = || {
        let metrics = get(service.admin, "/metrics").body;
        let line = "ratelimit_connection_events_total{listener=\"grpc\",event=\"accepted\"} ";
        let found = metrics.lines().find_map(|found| found.strip_prefix(line)).expect("the metric is there");
        found.parse::<u64>().expect("a number")
    };
    until("the client has changed its connection a few times", || {
        client.check_one("api", "user", "ann");
        accepted() > 3
    });
}

#[test]
fn an_unknown_method_is_unimplemented() {
    let service = service(RULES);
    let client = Client::new(&service);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).expect("an address");
    let endpoint = endpoint.timeout(Duration::from_secs(30));
    runtime.block_on(async {
        let mut raw = tonic::client::Grpc::new(endpoint.connect().await.expect("it listens"));
        raw.ready().await.expect("it is ready");
        let path = http::uri::PathAndQuery::from_static("/nowhere.Service/Method");
        let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckRequest>::default();
        let answer = raw.unary(tonic::Request::new(HealthCheckRequest::default()), path, codec).await;
        assert_eq!(answer.expect_err("it is unknown").code(), tonic::Code::Unimplemented);
    });
    drop(client);
}
