//! `vectors/rendering.json`: decisions and the exact bytes they render to.
//!
//! With `TIDEGATE_WRITE_VECTORS=1` the file is written anew instead; look at the difference.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use serde::{Deserialize, Serialize};
use tidegate::rules::file;
use tidegate::{Acquired, Decision, Defaults, Limiter, Micros, Permit, Request, VirtualClock};
use tidegate_middleware::{DenialBody, Descriptors, Headers, RateLimitLayer, Renderer};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::vectors;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    about: String,
    cases: Vec<Case>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    rules: String,
    families: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    denial: Option<Denial>,
    now_us: u64,
    ask: Ask,
    #[serde(default)]
    before: Vec<Asked>,
    request: Asked,
    expect: Expect,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Denial {
    body: String,
    content_type: String,
}

#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Ask {
    Check,
    Acquire,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    domain: String,
    descriptors: Vec<Descriptor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    entries: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    value: String,
}

#[derive(Deserialize, Serialize, Default, PartialEq, Debug)]
#[serde(deny_unknown_fields, default)]
struct Expect {
    status: u16,
    content_type: String,
    headers: Vec<(String, String)>,
    body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Asked {
    fn request(&self) -> Request<'_> {
        let mut request: Option<Request<'_>> = None;
        for descriptor in &self.descriptors {
            let entries: Vec<_> =
                descriptor.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect();
            let next = match request {
                None => Request::new(&self.domain, &entries),
                Some(request) => request.and(&entries),
            };
            request = Some(match descriptor.cost {
                Some(cost) => next.descriptor_cost(cost),
                None => next,
            });
        }
        request.expect("a request has a descriptor").cost(self.cost.unwrap_or(1))
    }
}

impl Case {
    fn families(&self) -> Headers {
        let mut families = Headers::NONE;
        for family in &self.families {
            match family.as_str() {
                "ratelimit" => families.ratelimit = true,
                "draft06" => families.draft06 = true,
                "x_ratelimit" => families.x_ratelimit = true,
                "partition_key" => families.partition_key = true,
                other => panic!("{}: no family {other}", self.name),
            }
        }
        families
    }

    fn renderer(&self) -> Renderer {
        let read = |denial: &Denial| {
            let body = DenialBody::new(&denial.body, &denial.content_type);
            Arc::new(body.unwrap_or_else(|error| panic!("{}: {error}", self.name)))
        };
        Renderer::new(self.families()).denial_body(self.denial.as_ref().map(read))
    }

    /// A limiter that has decided what came before, and the permits that are held.
    fn limiter(&self) -> (Limiter, Vec<Permit>) {
        let domain = file::load("vector.yaml", &self.rules, &Defaults::default())
            .unwrap_or_else(|problems| panic!("{}: {problems}", self.name));
        let clock = VirtualClock::at(Micros(self.now_us));
        let limiter = Limiter::builder().domain(domain).clock(clock).build().unwrap();
        let mut held = Vec::new();
        for asked in &self.before {
            let decision = decide(&limiter, self.ask, &asked.request(), &mut held);
            assert!(decision.is_none_or(|decision| decision.allowed()), "{}: denied before", self.name);
        }
        (limiter, held)
    }

    fn rendered(&self) -> Expect {
        let (limiter, mut held) = self.limiter();
        let request = self.request.request();
        let decision = decide(&limiter, self.ask, &request, &mut held).expect("a case is about a decision");
        let renderer = self.renderer();
        let mut headers = Vec::new();
        renderer.headers(&request, &decision, Micros(self.now_us), |name, value| {
            headers.push((name.as_str().to_owned(), value.to_owned()));
        });
        let body = text(|out| renderer.body(&request, &decision, out));
        let json = text(|out| renderer.json(&request, &decision, out));
        Expect {
            status: renderer.status(&decision).as_u16(),
            content_type: renderer.content_type(&decision).to_owned(),
            headers,
            problem: (json != body).then_some(json),
            body,
        }
    }

    /// A layer that asks what the case does.
    fn layer(&self, limiter: Limiter) -> RateLimitLayer {
        let descriptors = self.request.descriptors.iter().fold(Descriptors::default(), |all, one| {
            all.and(one.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())))
        });
        let layer = RateLimitLayer::new(limiter)
            .descriptors(&*self.request.domain, move |_| descriptors.clone())
            .cost(self.request.cost.unwrap_or(1))
            .headers(self.families());
        match self.ask {
            Ask::Check => layer,
            Ask::Acquire => layer.hold_permits(),
        }
    }
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// A permit is held on to and makes no decision.
fn decide(limiter: &Limiter, ask: Ask, request: &Request<'_>, held: &mut Vec<Permit>) -> Option<Decision> {
    match ask {
        Ask::Check => Some(limiter.check_now(request)),
        Ask::Acquire => match limiter.acquire_now(request) {
            Acquired::Denied(decision) => Some(decision),
            Acquired::Permit(permit) => {
                held.push(permit);
                None
            }
        },
    }
}

#[test]
fn every_vector_renders_to_the_bytes_in_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/rendering.json");
    let mut vectors: Vectors = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    if env::var_os("TIDEGATE_WRITE_VECTORS").is_some() {
        for case in &mut vectors.cases {
            case.expect = case.rendered();
        }
        fs::write(&path, serde_json::to_string_pretty(&vectors).unwrap() + "\n").unwrap();
        return;
    }
    for case in &vectors.cases {
        assert_eq!(case.rendered(), case.expect, "{}", case.name);
    }
}

/// But those with costs of descriptors, which a layer does not have. In an application the body of denials
/// is its own, so an operator's is not there.
#[tokio::test]
async fn behind_the_layer_every_vector_has_the_headers_of_the_file_and_a_denial_the_problem() {
    let has_one_cost = |case: &Case| case.request.descriptors.iter().all(|one| one.cost.is_none());
    for case in vectors("rendering.json").into_iter().filter(has_one_cost) {
        let (limiter, _held) = case.limiter();
        let app = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello"))) });
        let request = http::Request::new(Full::<Bytes>::default());
        let (head, body) = case.layer(limiter).layer(app).oneshot(request).await.unwrap().into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap());
        let expect = &case.expect;
        assert_eq!(head.status, expect.status, "{}", case.name);
        for (name, value) in &expect.headers {
            assert_eq!(header(name), Some(value.as_str()), "{}", case.name);
        }
        if expect.status == 200 {
            assert_eq!((body.as_str(), head.headers.len()), ("hello", expect.headers.len()), "{}", case.name);
        } else {
            assert_eq!(header("content-type"), Some("application/problem+json"), "{}", case.name);
            assert_eq!(&body, expect.problem.as_ref().unwrap_or(&expect.body), "{}", case.name);
            assert_eq!(head.headers.len(), expect.headers.len() + 1, "{}", case.name);
        }
    }
}
