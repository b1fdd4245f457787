//! Bodies of one's own for denials.

use std::sync::Arc;

use tidegate::{Decision, Domain, Limiter, Request, Rule, VirtualClock, per_minute};
use tidegate_middleware::{DenialBody, DenialBodyError, Headers, Renderer};

/// Rendered for a request that is denied, and what its headers say.
fn rendered(text: &str, cost: u64) -> (String, Option<u64>) {
    let body = DenialBody::new(text, "text/plain").unwrap_or_else(|error| panic!("{text}: {error}"));
    let renderer = Renderer::new(Headers::default()).denial_body(Some(Arc::new(body)));
    let user = Domain::new("shop").rule(Rule::by("user").limit(per_minute(2).named("<b>&\"calm\"")));
    let limiter = Limiter::builder().domain(user).clock(VirtualClock::new()).build().unwrap();
    let request = Request::new("shop", [("user", "ann")]);
    let allowed = limiter.check_now(&request.clone().cost(2));
    assert!(
        written(&renderer, &request, &allowed).starts_with("{\"allowed\":true"),
        "what passes is as ever"
    );
    let request = request.cost(cost);
    let denied = limiter.check_now(&request);
    assert_eq!(renderer.content_type(&denied), "text/plain");
    (written(&renderer, &request, &denied), renderer.retry_after_s(&request, &denied))
}

fn written(renderer: &Renderer, request: &Request<'_>, decision: &Decision) -> String {
    let mut out = Vec::new();
    renderer.body(request, decision, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn placeholders_stand_for_what_the_decision_says() {
    let (text, retry_s) = rendered("{retry_after} {limit}/{window}{limit}", 1);
    assert_eq!(text, format!("{} 2/602", retry_s.unwrap()));
    assert_eq!(rendered("{retry_after}", 3), ("null".to_owned(), None), "what never passes has no time");
}

#[test]
fn a_name_breaks_neither_json_nor_markup() {
    assert_eq!(rendered("{policy}", 1).0, "user:%3Cb%3E%26%22calm%22");
}

#[test]
fn other_braces_are_left_alone() {
    for text in
        ["", "{", "}", "{}", "{ limit }", "{Limit}", "p{color:red}", "{{", "a{\n}", "{\"x\":{}}", "größer {"]
    {
        assert_eq!(rendered(text, 1).0, text);
    }
    assert_eq!(rendered("{{limit}}", 1).0, "{2}");
}

#[test]
fn what_cannot_be_a_body_is_refused() {
    let refused = |text: &str, of: &str| DenialBody::new(text, of).unwrap_err();
    assert_eq!(refused("{limits}", "text/plain"), DenialBodyError::Placeholder("limits".to_owned()));
    for no_type in ["", "text", "/", "text/", "/plain", "te xt/plain", "text/plain\n", "t\u{eb}xt/plain"] {
        assert_eq!(refused("x", no_type), DenialBodyError::ContentType(no_type.to_owned()));
    }
    for of in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"] {
        assert!(matches!(refused("{\"a\": }", of), DenialBodyError::Json { .. }), "{of}");
        assert!(DenialBody::new("{\"a\": {limit}, \"b\": \"{policy}\"}", of).is_ok(), "{of}");
    }
    assert!(DenialBody::new("{\"a\": }", "text/plain").is_ok());
    // A number that may be missing is not always one.
    assert!(DenialBody::new("-{limit}", "application/json").is_err());
}
