//! Rules in the catalog: versions, differences, and one owner for a domain.

use serde_json::{Value, json};

use super::{RULES, ask_at, fields, start};
use crate::support::service::{Answer, Service, Setup, until};
use crate::support::wall_time;

const SHOP: &str =
    "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: 2}\n";

fn put(service: &Service, path: &str, text: &str) -> Answer {
    let yaml = [("content-type", "application/yaml")];
    ask_at(service.admin, Some(&service.token()), "PUT", &format!("/admin/v1/rules/{path}"), &yaml, text)
}

fn look(service: &Service, path: &str) -> Answer {
    service.ask("GET", &format!("/admin/v1/rules{path}"), &Value::Null)
}

fn passing(service: &Service) -> usize {
    let allowed = |user: &str| {
        let descriptor = json!({ "user": user }).to_string();
        (0..20).take_while(|_| service.check("shop", &descriptor).status == 200).count()
    };
    // A fresh user each time, so that nothing is counted from before.
    let user = wall_time().as_nanosecond().to_string();
    allowed(&user)
}

#[test]
fn rules_are_put_compared_listed_and_rolled_back() {
    let service = start();
    let answer = put(&service, "shop?comment=first", SHOP);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let first = answer.json();
    assert_eq!((&first["version"], &first["added"]), (&json!(1), &json!(["user"])));
    assert_eq!(passing(&service), 2);
    let more = SHOP.replace("requests_per_unit: 2", "requests_per_unit: 4");
    let dry = put(&service, "shop?dry_run=true", &more).json();
    assert_eq!((&dry["dry_run"], &dry["changed"]), (&json!(true), &json!(["user"])));
    assert!(
        dry["diff"]
            .as_str()
            .is_some_and(|diff| diff.contains("-    rate_limit: {unit: year, requests_per_unit: 2}"))
    );
    assert_eq!(passing(&service), 2, "a dry run changes nothing");
    let second = put(&service, "shop?comment=more", &more).json();
    assert_eq!(second["version"], 2);
    assert_eq!(passing(&service), 4);
    let again = put(&service, "shop", &more).json();
    assert_eq!((&again["version"], &again["diff"]), (&json!(2), &json!("")), "the same again is the same");
    let versions = look(&service, "/shop/versions").json();
    let comments: Vec<_> =
        versions["items"].as_array().expect("items").iter().map(|item| item["comment"].clone()).collect();
    assert_eq!(comments, [json!("more"), json!("first")]);
    assert_eq!(versions["items"][0]["author"], "node");
    let diff = look(&service, "/shop/diff?from=1&to=2");
    assert!(diff.body.contains("+    rate_limit: {unit: year, requests_per_unit: 4}"), "{}", diff.body);
    assert_eq!(look(&service, "/shop?version=1").body, SHOP);
    let back = service.ask("POST", "/admin/v1/rules/shop/rollback", &json!({ "version": 1 }));
    assert_eq!((back.status, &back.json()["version"]), (200, &json!(3)), "{}", back.body);
    assert_eq!(passing(&service), 2);
    assert_eq!(look(&service, "/shop").body, SHOP);
    assert_eq!(service.ask("DELETE", "/admin/v1/rules/shop", &Value::Null).status, 204);
    assert_eq!(look(&service, "/shop").status, 404);
    assert_eq!(passing(&service), 20, "no rule applies any more");
    assert_eq!(look(&service, "/shop/versions").json()["items"].as_array().map(Vec::len), Some(4));
}

#[test]
fn nobody_overwrites_rules_they_have_not_seen() {
    let service = start();
    // The catalog's own version is not that of a domain's rules.
    service.put_quota("ann", &super::requests(1));
    let push = |headers: &[(&str, &str)], count: u32| {
        let text = SHOP.replace("requests_per_unit: 2", &format!("requests_per_unit: {count}"));
        ask_at(service.admin, Some(&service.token()), "PUT", "/admin/v1/rules/shop", headers, &text)
    };
    let first = push(&[("if-none-match", "*")], 2);
    let tag = first.header("etag").expect("a tag").to_owned();
    assert_eq!((first.status, tag.as_str()), (200, "\"1\""));
    assert_eq!(push(&[("if-none-match", "*")], 3).status, 412);
    assert_eq!(push(&[("if-match", "\"2\"")], 3).status, 412);
    assert_eq!(push(&[("if-match", &tag)], 3).status, 200);
    assert_eq!(push(&[("if-match", &tag)], 4).status, 412);
    assert_eq!(push(&[("if-match", "*")], 4).status, 200);
    let back = |headers: &[(&str, &str)]| {
        let body = json!({ "version": 1 }).to_string();
        ask_at(service.admin, Some(&service.token()), "POST", "/admin/v1/rules/shop/rollback", headers, &body)
    };
    assert_eq!(back(&[("if-match", &tag)]).status, 412);
    assert_eq!(back(&[("if-match", "\"3\"")]).status, 200);
    let switch = |headers: &[(&str, &str)]| {
        let body = json!({ "mode": "shadow" }).to_string();
        ask_at(service.admin, Some(&service.token()), "PUT", "/admin/v1/switches/api_key", headers, &body)
    };
    assert_eq!(switch(&[("if-match", "\"999\"")]).status, 412);
    assert_eq!(switch(&[]).status, 200);
}

#[test]
fn a_clash_with_a_file_takes_only_that_domain_and_ends_with_it() {
    let service = start();
    put(&service, "shop", SHOP);
    put(&service, "other", &SHOP.replace("shop", "other"));
    let ended = service.stop();
    let file = ended.folder.path().join("rules/shop.yaml");
    std::fs::write(&file, SHOP.replace("requests_per_unit: 2", "requests_per_unit: 5")).expect("a file");
    let service = Setup::after(ended).start();
    let owner = |domain: &str| {
        let listed = look(&service, "").json();
        let items = listed["items"].as_array().expect("a list").clone();
        items.iter().find(|item| item["domain"] == domain).map(|item| item["owner"].clone())
    };
    assert_eq!((owner("shop"), owner("other")), (Some(json!("file")), Some(json!("catalog"))));
    let metrics = || crate::support::service::get(service.admin, "/metrics").body;
    assert!(metrics().contains("ratelimit_catalog_rules_refused 1"));
    std::fs::remove_file(&file).expect("it is there");
    until("the catalog has it again", || owner("shop") == Some(json!("catalog")));
    until("all is well", || metrics().contains("ratelimit_catalog_rules_refused 0"));
    assert_eq!(passing(&service), 2);
}

#[test]
fn rules_with_mistakes_are_refused_at_their_places_and_change_nothing() {
    let service = start();
    put(&service, "shop", SHOP);
    let wrong = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: hours, requests_per_unit: -2}\n    colour: red\n";
    let answer = put(&service, "shop", wrong);
    assert_eq!(answer.status, 422);
    assert!(fields(&answer).len() >= 3, "{}", answer.body);
    let placed = |error: &Value| error["line"].is_u64() && error["column"].is_u64();
    assert!(answer.json()["errors"].as_array().expect("a list").iter().all(placed), "{}", answer.body);
    let other = put(&service, "shop", &SHOP.replace("shop", "other"));
    assert_eq!(other.status, 422, "{}", other.body);
    assert_eq!(passing(&service), 2);
    assert_eq!(put(&service, "shop", "").status, 400);
    let checked =
        ask_at(service.admin, Some(&service.token()), "POST", "/admin/v1/rules/validate", &[], wrong).json();
    assert_eq!(checked["valid"], false);
    let fine =
        ask_at(service.admin, Some(&service.token()), "POST", "/admin/v1/rules/validate", &[], SHOP).json();
    assert_eq!(fine["valid"], true);
    let none = service.ask("POST", "/admin/v1/rules/shop/rollback", &json!({ "version": 99 }));
    assert_eq!(none.status, 404);
}

#[test]
fn a_domain_may_have_any_name() {
    let service = start();
    let pages = ["validate", "versions", "diff", "rollback", "validate%2Fversions", "a%20b", "%C3%A9"];
    for (path, name) in
        pages.iter().zip(["validate", "versions", "diff", "rollback", "validate/versions", "a b", "é"])
    {
        let text = SHOP.replace("shop", &format!("{name:?}"));
        let more = text.replace("requests_per_unit: 2", "requests_per_unit: 4");
        assert_eq!(put(&service, &format!("{path}?dry_run=true"), &text).status, 200, "{name}");
        assert_eq!(look(&service, &format!("/{path}")).status, 404, "{name}");
        for text in [&text, &more] {
            let answer = put(&service, path, text);
            assert_eq!((answer.status, &answer.json()["domain"]), (200, &json!(name)), "{}", answer.body);
        }
        let allowed = |_: &usize| service.check(name, r#"{"user":"ann"}"#).status == 200;
        assert_eq!((0..9).take_while(allowed).count(), 4, "{name}");
        assert_eq!(look(&service, &format!("/{path}")).body, more);
        assert_eq!(look(&service, &format!("/{path}?version=1")).body, text);
        let versions = look(&service, &format!("/{path}/versions")).json();
        assert_eq!(versions["items"].as_array().map(Vec::len), Some(2), "{name}");
        assert_eq!(look(&service, &format!("/{path}/diff")).status, 200, "{name}");
        let back = json!({ "version": 1 });
        assert_eq!(
            service.ask("POST", &format!("/admin/v1/rules/{path}/rollback"), &back).status,
            200,
            "{name}"
        );
        assert_eq!(
            service.ask("DELETE", &format!("/admin/v1/rules/{path}"), &Value::Null).status,
            204,
            "{name}"
        );
        assert_eq!(look(&service, &format!("/{path}")).status, 404, "{name}");
    }
}

#[test]
fn the_page_that_validates_is_one_beside_the_domain_of_its_name() {
    let service = start();
    let path = "/admin/v1/rules/validate";
    let made = service.ask("POST", "/admin/v1/tokens", &json!({ "name": "eve", "role": "viewer" })).json();
    let viewer = made["token"].as_str().expect("a token");
    let ask =
        |token: Option<&str>, method: &str| ask_at(service.admin, token, method, path, &[], SHOP).status;
    // Each method needs the role it has on every other domain.
    assert_eq!(
        ["POST", "GET", "PUT", "DELETE"].map(|method| ask(Some(viewer), method)),
        [200, 404, 403, 403]
    );
    assert_eq!(["POST", "GET", "PUT", "DELETE"].map(|method| ask(None, method)), [401; 4]);
    assert_eq!(ask(Some(viewer), "PATCH"), 405);
    let document = crate::support::service::get(service.admin, "/openapi.json").json();
    let methods = |path: &str| -> Vec<String> {
        document["paths"][path].as_object().expect("a path").keys().cloned().collect()
    };
    assert_eq!(methods(path), ["get", "put", "post", "delete"]);
    assert_eq!(methods("/admin/v1/rules/{domain}"), ["get", "put", "delete"]);
}

#[test]
fn a_domain_has_one_owner() {
    let service = start();
    let answer = put(&service, "api", RULES);
    assert_eq!(answer.status, 409);
    assert!(
        answer.json()["detail"].as_str().is_some_and(|detail| detail.contains("rules.yaml")),
        "{}",
        answer.body
    );
    put(&service, "shop", SHOP);
    let generation = service.generation();
    std::fs::write(service.file("rules/shop.yaml"), SHOP).expect("a file");
    until("the file is refused", || {
        crate::support::service::get(service.admin, "/metrics").body.contains("ratelimit_rules_refused 1")
    });
    assert_eq!(service.generation(), generation, "the last good rules stay");
    assert_eq!(passing(&service), 2);
    std::fs::remove_file(service.file("rules/shop.yaml")).expect("it is there");
    until("all is well again", || {
        crate::support::service::get(service.admin, "/metrics").body.contains("ratelimit_rules_refused 0")
    });
}

#[test]
fn a_service_may_have_all_its_rules_in_the_catalog() {
    let service = Setup::rules(RULES).with("rules", "catalog").start();
    assert_eq!(service.check("shop", r#"{"user":"ann"}"#).status, 503, "there are no rules yet");
    put(&service, "shop", SHOP);
    assert_eq!(passing(&service), 2);
    let service = Setup::after(service.stop()).with("rules", "catalog").start();
    assert_eq!(passing(&service), 2);
    let listed = look(&service, "").json();
    assert_eq!(
        (&listed["items"][0]["domain"], &listed["items"][0]["owner"]),
        (&json!("shop"), &json!("catalog"))
    );
}

#[test]
fn switches_outlive_a_restart() {
    let service = start();
    let put = |rule: &str, mode: &str| {
        service.ask("PUT", &format!("/admin/v1/switches/{rule}"), &json!({ "mode": mode }))
    };
    assert_eq!(put("api_key", "shadow").status, 200);
    assert_eq!(put("nobody", "off").status, 404);
    assert_eq!(fields(&put("api_key", "loud")), ["mode"]);
    assert_eq!(service.passing(&json!({ "api_key": "ann" }), 20), 20);
    let service = Setup::after(service.stop()).start();
    assert_eq!(service.passing(&json!({ "api_key": "ann" }), 20), 20);
    let shown = service.ask("GET", "/admin/v1/switches/api_key", &Value::Null).json();
    assert_eq!(shown["mode"], "shadow");
    let path = "api_key%2Fendpoint%3DPOST%20%2Forders";
    assert_eq!(
        service.ask("PUT", &format!("/admin/v1/switches/{path}"), &json!({ "mode": "off" })).status,
        200
    );
    assert_eq!(service.passing(&json!({ "api_key": "ann", "endpoint": "POST /orders" }), 20), 20);
    assert_eq!(service.ask("PUT", "/admin/v1/switches/*", &json!({ "mode": "off" })).status, 200);
    assert_eq!(service.ask("GET", "/admin/v1/switches", &Value::Null).json()["all"], "off");
}
