//! What a tenant sees of itself, by a link.

use serde_json::{Value, json};

use crate::support::service::{Answer, Service, Setup, get, send};

const RULES: &str = "
domain: api
tenant: api_key
descriptors:
  - key: api_key
    limits: [{name: yearly, algorithm: fixed_window, requests: 2, per: year}]
";

fn link(service: &Service, tenant: &str, lifetime: &str) -> Answer {
    service.ask("POST", &format!("/admin/v1/usage/{tenant}/link"), &json!({ "for": lifetime }))
}

#[test]
fn a_link_shows_one_tenant_its_own_usage_and_denials_and_nothing_else() {
    let service = Setup::rules(RULES).start();
    for tenant in ["acme", "%3Cb%3E", "other"] {
        let tenant = tenant.replace("%3C", "<").replace("%3E", ">");
        for _ in 0..3 {
            service.check("api", &json!({ "api_key": tenant }).to_string());
        }
    }
    let made = link(&service, "acme", "30d");
    assert_eq!(made.status, 200, "{}", made.body);
    let path = made.json()["url_path"].as_str().expect("a path").to_owned();
    for at in [service.http, service.admin] {
        let seen = get(at, &path);
        assert_eq!(seen.status, 200, "{}", seen.body);
        assert_eq!(seen.header("cache-control"), Some("no-store"));
        let seen = seen.json();
        assert_eq!(
            (&seen["tenant"], &seen["expires_at"]),
            (
                &json!("acme"),
                &made.json()["expires_at"].as_str().map(|end| end[..19].to_owned() + "Z").into()
            )
        );
        assert_eq!((&seen["limits"][0]["used"], &seen["limits"][0]["remaining"]), (&json!(2), &json!(0)));
        assert_eq!(seen["denials"].as_array().map(Vec::len), Some(1));
        assert!(!seen.to_string().contains("other"));
    }
    let hostile = link(&service, "%3Cb%3E", "1h").json()["url_path"].as_str().expect("a path").to_owned();
    let page = send(
        service.http,
        &format!(
            "GET {hostile} HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\nconnection: close\r\n\r\n"
        ),
    );
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.body.contains("&lt;b&gt;") && !page.body.contains("<b>"), "{}", page.body);
    assert!(!page.body.contains("<script"));
}

#[test]
fn a_link_that_is_forged_or_expired_shows_nothing() {
    let service = Setup::rules(RULES).start();
    let path = link(&service, "acme", "1h").json()["url_path"].as_str().expect("a path").to_owned();
    let (claim, signature) = path.split_once('.').expect("two parts");
    let other = link(&service, "other", "1h").json()["url_path"].as_str().expect("a path").to_owned();
    let (other, _) = other.split_once('.').expect("two parts");
    for forged in
        [format!("{other}.{signature}"), claim.to_owned(), format!("{claim}."), "/usage/x.y".to_owned()]
    {
        assert_eq!(get(service.http, &forged).status, 404, "{forged}");
    }
    for wrong in ["", "0d", "soon", "367d", "-1h"] {
        assert_eq!(link(&service, "acme", wrong).status, 422, "{wrong}");
    }
    let soon = link(&service, "acme", "1s").json()["url_path"].as_str().expect("a path").to_owned();
    crate::support::service::until("the link has expired", || get(service.http, &soon).status == 410);
    // It outlives a restart, because the folder has the key.
    let service = Setup::after(service.stop()).start();
    assert_eq!(get(service.http, &path).status, 200);
    let audit = service.ask("GET", "/admin/v1/audit", &Value::Null);
    assert!(audit.body.contains("link_usage"), "{}", audit.body);
}
