//! The dashboard comes with the program.

use super::start;
use crate::support::service::{Answer, Service, get, send};

fn get_with(service: &Service, path: &str, headers: &str) -> Answer {
    send(
        service.admin,
        &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n"),
    )
}

#[test]
fn a_browser_gets_the_dashboard_and_others_the_list_of_pages() {
    let service = start();
    let page = get_with(&service, "/", "accept: text/html,application/xhtml+xml\r\n");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").expect("a policy");
    for part in ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for headers in ["", "accept: text/plain\r\n", "accept: */*\r\n"] {
        let list = get_with(&service, "/", headers);
        assert!(list.body.starts_with("tidegate admin"), "{}", list.body);
    }
}

#[test]
fn every_file_of_the_dashboard_is_served_and_kept_by_browsers() {
    let service = start();
    let page = get_with(&service, "/", "accept: text/html\r\n").body;
    assert!(!page.contains("This build has no dashboard"), "dashboard/dist is part of the sources");
    let files: Vec<&str> =
        page.split(['"', '\'']).filter_map(|text| text.strip_prefix("./assets/")).collect();
    let has = |extension: &str| files.iter().any(|file| file.rsplit('.').next() == Some(extension));
    assert!(has("js") && has("css"));
    for file in files {
        let answer = get(service.admin, &format!("/assets/{file}"));
        assert_eq!(answer.status, 200, "{file}");
        let cached = answer.header("cache-control").expect("a header");
        assert!(cached.contains("immutable"), "{file}: {cached}");
        assert_ne!(answer.header("content-type"), Some("application/octet-stream"), "{file}");
    }
    for missing in ["/assets/none.js", "/assets/../Cargo.toml", "/assets/%2e%2e/Cargo.toml"] {
        assert_eq!(get(service.admin, missing).status, 404, "{missing}");
    }
}
