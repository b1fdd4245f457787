//! `vectors/rendering.json`: decisions and the exact bytes they render to.
//!
//! With `TIDEGATE_WRITE_VECTORS=1` the file is written anew instead; look at the difference.

use std::path::Path;
use std::{env, fs};

use serde::{Deserialize, Serialize};
use tidegate::rules::file;
use tidegate::{Acquired, Decision, Defaults, Limiter, Micros, Permit, Request, VirtualClock};
use tidegate_middleware::{Headers, Renderer};

use crate::support::{body, headers};

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
    now_us: u64,
    ask: Ask,
    #[serde(default)]
    before: Vec<Asked>,
    request: Asked,
    expect: Expect,
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

    fn rendered(&self) -> Expect {
        let domain = file::load("vector.yaml", &self.rules, &Defaults::default())
            .unwrap_or_else(|problems| panic!("{}: {problems}", self.name));
        let clock = VirtualClock::at(Micros(self.now_us));
        let limiter = Limiter::builder().domain(domain).clock(clock).build().unwrap();
        let mut held = Vec::new();
        for asked in &self.before {
            let decision = decide(&limiter, self.ask, &asked.request(), &mut held);
            assert!(decision.is_none_or(|decision| decision.allowed()), "{}: denied before", self.name);
        }
        let request = self.request.request();
        let decision = decide(&limiter, self.ask, &request, &mut held).expect("a case is about a decision");
        let renderer = Renderer::new(self.families());
        Expect {
            status: renderer.status(&decision).as_u16(),
            content_type: renderer.content_type(&decision).to_owned(),
            headers: headers(self.families(), &request, &decision, Micros(self.now_us)),
            body: body(&request, &decision),
        }
    }
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
