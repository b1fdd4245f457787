//! Every decision is recorded, whatever front end it came by.

use serde_json::{Value, json};

use super::start;
use crate::support::clients::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::support::grpc::{Client, descriptor};
use crate::support::service::{Setup, get, post, send};

#[test]
fn a_decision_by_every_front_end_is_in_the_history_the_top_keys_and_the_denials() {
    let service = start();
    let mut grpc = Client::new(&service);
    let mut asked = 0;
    for _ in 0..2 {
        grpc.check("api", &[descriptor(&[("user", "ann")])]);
        service.check("api", r#"{"user":"ann"}"#);
        let envoy = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
        post(service.http, "/json", envoy);
        let batch = r#"[{"domain":"api","descriptor":{"user":"ann"}}]"#;
        post(service.http, "/v1/check", batch);
        let reserve = r#"{"domain":"api","descriptor":{"user":"ann"},"cost":1}"#;
        post(service.http, "/v1/reserve", reserve);
        asked += 5;
    }
    for span in ["1h", "1d"] {
        assert_eq!(service.decided("user", "allowed", span), 2);
        assert_eq!(service.decided("user", "denied", span), asked - 2);
    }
    for window in ["1m", "10m", "60m"] {
        assert_eq!(service.top("active", window, "user"), [(json!("user=ann"), asked)]);
        assert_eq!(service.top("denied", window, "user"), [(json!("user=ann"), asked - 2)]);
    }
    let denials = service.read("denials?rule=user");
    let denials = denials["denials"].as_array().expect("a list");
    assert_eq!(denials.len() as u64, asked - 2);
    let front_ends = |name: &str| denials.iter().filter(|denial| denial["front_end"] == name).count();
    assert_eq!((front_ends("grpc"), front_ends("http") as u64), (1, asked - 3));
    for denial in denials {
        assert_eq!(denial["key"], "user=ann");
        assert_eq!((&denial["limit"], &denial["source"]), (&json!("year"), &json!("memory")));
        assert!(denial["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{denial}");
    }
    let activity = service.read("rules/activity");
    let rule = activity["rules"].as_array().expect("a list").iter().find(|rule| rule["rule"] == "user");
    let rule = rule.expect("it is listed");
    assert_eq!((&rule["allowed"], &rule["denied"]), (&json!(2), &json!(asked - 2)));
    assert_eq!(rule["spark"]["denied"].as_array().map(Vec::len), Some(60));
}

#[test]
fn a_denial_has_the_request_id_whatever_front_end_it_came_by() {
    let rules = "
domain: api
forward_auth: {descriptors: [[{key: user, header: x-user}]]}
descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]
";
    let service = Setup::rules(rules).start();
    let mut grpc = Client::new(&service);
    grpc.check("api", &[descriptor(&[("user", "ann")])]);
    let call = RateLimitRequest {
        domain: "api".to_owned(),
        descriptors: vec![descriptor(&[("user", "ann")])],
        hits_addend: 0,
    };
    let mut request = tonic::Request::new(call.clone());
    request.metadata_mut().insert("x-request-id", "by-grpc".parse().expect("a value"));
    grpc.ask_with(request).expect("it is decided");
    let post = |path: &str, id: &str, body: &str| {
        let (http, length) = (service.http, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-request-id: {id}\r\n\
             content-type: application/json\r\ncontent-length: {length}"
        );
        assert!(send(http, &format!("{head}\r\n\r\n{body}")).status < 500);
    };
    post("/v1/check", "by-check", r#"{"domain":"api","descriptor":{"user":"ann"}}"#);
    post("/v1/check", "by-batch", r#"[{"domain":"api","descriptor":{"user":"ann"}}]"#);
    post("/v1/reserve", "by-reserve", r#"{"domain":"api","descriptor":{"user":"ann"},"cost":1}"#);
    let envoy = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    post("/json", "by-json", envoy);
    let forwarded =
        "GET /v1/forward-auth HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-user: ann\r\n";
    assert_eq!(send(service.http, &format!("{forwarded}x-request-id: by-proxy\r\n\r\n")).status, 429);
    // One without an ID, and one with more than is kept.
    grpc.ask(call).expect("it is decided");
    post("/v1/check", &"x".repeat(500), r#"{"domain":"api","descriptor":{"user":"ann"}}"#);
    let denials = service.read("denials");
    let ids: Vec<_> = denials["denials"].as_array().expect("a list").iter().rev().collect();
    let ids: Vec<_> = ids.into_iter().map(|denial| denial["request_id"].clone()).collect();
    let long = "x".repeat(128);
    let expected =
        json!(["by-grpc", "by-check", "by-batch", "by-reserve", "by-json", "by-proxy", null, long]);
    assert_eq!(json!(ids), expected);
    let found = service.read("denials?request_id=by-batch");
    assert_eq!(found["denials"].as_array().map(Vec::len), Some(1), "{found}");
}

#[test]
fn a_service_that_records_nothing_decides_all_the_same() {
    let service = Setup::rules(super::RULES).with("metrics.recorder", "false").start();
    let statuses = [0; 3].map(|_| service.check("api", r#"{"user":"ann"}"#).status);
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(service.top("denied", "1m", "user"), []);
    assert_eq!(service.read("denials")["denials"], json!([]));
    for path in ["overview", "history", "rules/activity", "events", "nodes"] {
        service.read(path);
    }
    let live = service.read_answer("live");
    assert_eq!(live.status, 503);
    assert!(live.body.contains("metrics.recorder"), "{}", live.body);
    assert!(get(service.admin, "/metrics").body.contains("ratelimit_denied_total"));
}

#[test]
fn a_question_and_a_rule_in_shadow_are_not_denials_of_anybody() {
    let service = start();
    post(service.http, "/v1/check", r#"{"domain":"api","descriptor":{"user":"ann"},"cost":0}"#);
    assert_eq!(service.top("active", "1m", "user"), []);
    for _ in 0..3 {
        assert_eq!(service.check("api", r#"{"trial":"x"}"#).status, 200);
    }
    assert_eq!(service.decided("trial", "shadow_denied", "1h"), 2);
    assert_eq!(service.top("denied", "1m", "trial"), []);
    let denials = service.read("denials?rule=trial");
    assert!(
        denials["denials"]
            .as_array()
            .is_some_and(|all| all.len() == 2 && all.iter().all(|one| one["shadow"] == true))
    );
}

#[test]
fn a_hidden_key_is_in_no_answer() {
    let service = start();
    for _ in 0..3 {
        service.check("api", r#"{"secret":"hunter2"}"#);
    }
    let top = service.read("top?by=denied");
    let key = &top["keys"][0];
    assert_eq!(
        (&key["key"], &key["hidden"], &key["count"]),
        (&Value::Null, &json!(true), &json!(2)),
        "{top}"
    );
    let denials = service.read("denials");
    let denial = &denials["denials"][0];
    assert_eq!((&denial["key"], &denial["fingerprint"]), (&Value::Null, &key["fingerprint"]));
    let by_fingerprint =
        service.read(&format!("denials?fingerprint={}", key["fingerprint"].as_str().expect("a text")));
    assert_eq!(by_fingerprint["denials"].as_array().map(Vec::len), Some(2));
    let why = service.ask("POST", "/admin/v1/why", &json!({ "denial": denial["id"] }));
    assert_eq!(why.status, 200, "{}", why.body);
    assert_eq!(why.json()["explanation"]["decided_by"], "secret (year)");
    let paths =
        ["top?by=active", "top", "denials", "history", "overview", "rules/activity", "rules/tree", "events"];
    let shown = paths.map(|path| service.read_answer(path).body);
    for (path, body) in
        paths.iter().zip(shown).chain([(&"why", why.body), (&"metrics", get(service.admin, "/metrics").body)])
    {
        assert!(!body.contains("hunter2"), "{path}: {body}");
    }
    let ended = service.stop();
    assert!(!ended.errors.contains("hunter2"), "{}", ended.errors);
}

#[test]
fn a_rule_that_begins_to_hide_its_keys_hides_those_it_has_shown() {
    let service = start();
    for _ in 0..3 {
        service.check("api", r#"{"user":"hunter2"}"#);
    }
    assert_eq!(service.read("top")["keys"][0]["key"], "user=hunter2");
    service.change_rules(&super::RULES.replace("- key: user", "- key: user\n    hide_keys: true"));
    for path in ["top?by=active", "top", "denials"] {
        let body = service.read_answer(path).body;
        assert!(!body.contains("hunter2"), "{path}: {body}");
    }
}

#[test]
fn hostile_keys_come_back_as_they_are_in_json() {
    let service = start();
    let long = "k".repeat(900);
    let hostile = [
        "<script>alert(1)</script>",
        "\u{202e}gnp.exe\u{2066}",
        "👩‍👩‍👧‍👦🏴",
        "a\"b\\c/d",
        "data: x event: tick",
        &long,
    ];
    for value in hostile {
        for _ in 0..3 {
            let body = json!({ "domain": "api", "descriptor": { "user": value } });
            assert!(
                [200, 429].contains(&post(service.http, "/v1/check", &body.to_string()).status),
                "{value}"
            );
        }
    }
    let shown: Vec<Value> = service.top("denied", "1m", "user").into_iter().map(|(key, _)| key).collect();
    assert_eq!(shown.len(), hostile.len());
    for value in hostile {
        let whole = format!("user={value}");
        let cut = &whole[..whole.floor_char_boundary(256)];
        assert!(shown.iter().any(|key| key == cut), "{value:?} is not among {shown:?}");
    }
}

#[test]
fn why_explains_a_denial_descriptors_and_headers() {
    let rules = "
domain: api
forward_auth:
  proxy: nginx
  descriptors:
    - [{key: user, header: x-user}, {key: path, from: path}]
descriptors:
  - key: user
    descriptors:
      - key: path
        rate_limit: {unit: year, requests_per_unit: 1}
";
    let service = Setup::rules(rules).start();
    for _ in 0..2 {
        service.check("api", r#"{"user":"ann","path":"/x"}"#);
    }
    let denial = service.read("denials")["denials"][0].clone();
    let why = |body: &Value| {
        let answer = service.ask("POST", "/admin/v1/why", body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    };
    let of_denial = why(&json!({ "denial": denial["id"] }));
    assert_eq!(of_denial["explanation"]["allowed"], false);
    assert_eq!(of_denial["denial"], denial);
    let entries = json!([{ "key": "user", "value": "bob" }, { "key": "path", "value": "/x" }]);
    let of_descriptors = why(&json!({ "domain": "api", "descriptors": [{ "entries": entries }] }));
    assert_eq!(of_descriptors["explanation"]["allowed"], true);
    let headers =
        json!({ "domain": "api", "headers": { "X-User": "ann" }, "method": "GET", "path": "/x?q=1" });
    let of_headers = why(&headers);
    assert_eq!(of_headers["explanation"]["allowed"], false, "{of_headers}");
    assert_eq!(of_headers["mapped"][0]["entries"][1], json!({ "key": "path", "value": "/x" }));
    assert_eq!(service.ask("POST", "/admin/v1/why", &json!({ "denial": "99999" })).status, 404);
    assert_eq!(service.ask("POST", "/admin/v1/why", &json!({})).status, 422);
}

#[test]
fn the_history_outlives_a_restart() {
    let service = start();
    for _ in 0..5 {
        service.check("api", r#"{"user":"ann"}"#);
    }
    let service = Setup::after(service.stop()).start();
    assert_eq!(service.decided("user", "allowed", "1h"), 2);
    assert_eq!(service.decided("user", "denied", "1d"), 3);
    let marks = service.read("history")["marks"].clone();
    let restarts = marks.as_array().expect("a list").iter().filter(|mark| mark["kind"] == "restart").count();
    assert_eq!(restarts, 2);
    // What is decided afterwards adds up.
    service.check("api", r#"{"user":"ann"}"#);
    assert_eq!(service.decided("user", "denied", "1h"), 4);
    let ended = service.stop();
    let file = ended.folder.path().join("data/history");
    let mut bytes = std::fs::read(&file).expect("it is saved");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("it is written");
    let service = Setup::after(ended).start();
    assert_eq!(service.decided("user", "allowed", "1h"), 0, "a damaged file is not believed");
    assert!(service.stop().errors.contains("the history is damaged"));
}

#[test]
fn the_history_marks_what_changed() {
    let service = start();
    service.change_rules(&super::RULES.replace("requests_per_unit: 2", "requests_per_unit: 3"));
    let switched = service.ask("PUT", "/admin/v1/switches/user", &json!({ "mode": "shadow" }));
    assert_eq!(switched.status, 200, "{}", switched.body);
    for kind in ["rules", "switch"] {
        crate::support::service::until(kind, || {
            let marks = service.read("history")["marks"].clone();
            marks.as_array().is_some_and(|marks| marks.iter().any(|mark| mark["kind"] == kind))
        });
    }
    let overview = service.read("overview");
    assert_eq!(overview["rules"]["last_reload"]["ok"], true);
    assert_eq!(overview["degradation"]["name"], "normal");
    assert_eq!(overview["nodes"][0]["self"], true);
}

#[test]
fn a_dry_run_shows_what_a_changed_limit_would_have_done() {
    let service = start();
    for _ in 0..10 {
        service.check("api", r#"{"user":"ann"}"#);
    }
    let dry_run = |rules: &str| {
        let body = json!({ "domain": "api", "yaml": rules });
        let answer = service.ask("POST", "/admin/v1/rules/dry-run", &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    };
    let same = dry_run(super::RULES);
    let of_user = |run: &Value| run["rules"].as_array().expect("a list")[0].clone();
    assert_eq!(of_user(&same)["now"], json!({ "allowed": 2, "denied": 8 }));
    assert_eq!(of_user(&same)["then"], json!({ "allowed": 2, "denied": 8 }), "{same}");
    let more = dry_run(&super::RULES.replace("requests_per_unit: 2", "requests_per_unit: 6"));
    assert_eq!(of_user(&more)["then"], json!({ "allowed": 6, "denied": 4 }), "{more}");
    let wrong =
        dry_run("domain: api\ndescriptors: [{key: user, rate_limit: {unit: eon, requests_per_unit: 1}}]");
    assert_eq!(wrong["valid"], false);
    assert_eq!(wrong["errors"][0]["line"], 2);
    assert_eq!(service.generation(), 1, "nothing changes");
}

#[test]
fn settings_name_their_origins_and_no_secret() {
    let service = Setup::rules(super::RULES).with("redis.secret", "hunter2").start();
    let settings = service.read("settings");
    let find = |name: &str| {
        let all = settings["settings"].as_array().expect("a list");
        all.iter().find(|one| one["name"] == name).cloned().unwrap_or_else(|| panic!("{name} is listed"))
    };
    assert_eq!(find("redis.secret")["secret"], true);
    assert_eq!(find("redis.secret")["from"], "environment TIDEGATE_REDIS__SECRET");
    assert_eq!(find("reload")["from"], "default");
    assert!(!settings.to_string().contains("hunter2"));
}

#[test]
fn the_terminal_shows_the_top_keys_and_the_denials() {
    let service = start();
    for _ in 0..5 {
        service.check("api", r#"{"user":"\u001b[31mann"}"#);
        service.check("api", r#"{"user":"bob"}"#);
    }
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(args).args([
            "--admin",
            &format!("http://{}", service.admin),
            "--token",
            &service.token(),
        ]);
        let output = command.current_dir(service.folder.path()).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let top = run(&["top", "--once"]);
    assert!(top.contains("user=bob") && top.contains("COUNT") && !top.contains('\u{1b}'), "{top}");
    let json: Value = serde_json::from_str(&run(&["top", "--json", "--by", "active"])).expect("JSON");
    assert_eq!(json["keys"][0]["count"], 5);
    let denials = run(&["denials", "--limit", "1"]);
    assert_eq!(denials.lines().count(), 2, "{denials}");
    let link = run(&["usage", "link", "acme", "--for", "2d"]);
    assert!(link.starts_with("/usage/"), "{link}");
}
