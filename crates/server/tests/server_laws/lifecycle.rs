//! Starting, reloading and stopping the real binary.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use socket2::{Domain, Socket, Type};

use crate::support::grpc::{Client, only, with_hits};
use crate::support::service::{PATIENCE, Setup, get, service, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 10}}]
";

#[test]
fn sigterm_exits_0_and_a_restart_is_no_free_refill() {
    let first = service(RULES);
    let mut client = Client::new(&first);
    client.check("api", &[with_hits(&[("user", "ann")], 7)]);
    let ended = first.stop();
    assert!(ended.status.success(), "{}", ended.errors);
    assert!(ended.errors.contains("draining") && ended.errors.contains("counters saved"), "{}", ended.errors);

    let second = Setup::after(ended).start();
    let left = only(&Client::new(&second).check("api", &[with_hits(&[("user", "ann")], 0)])).limit_remaining;
    assert_eq!(left, 3);
}

#[test]
fn what_was_accepted_is_finished_while_draining() {
    let service = Setup::rules(RULES).start();
    let mut stream = TcpStream::connect(service.http).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let body = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // The request is under way when the signal comes.
    stream.write_all(head.as_bytes()).expect("it reads");
    stream.write_all(&body.as_bytes()[..10]).expect("it reads");
    until("the connection is counted", || {
        get(service.admin, "/metrics").body.contains("ratelimit_connections{listener=\"http\"} 1")
    });
    service.signal("TERM");
    until("it accepts no more", || TcpStream::connect(service.http).is_err());
    stream.write_all(&body.as_bytes()[10..]).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(service.wait().status.success());
}

#[test]
fn readiness_goes_off_before_connections_are_refused() {
    let service = Setup::rules(RULES).with("drain.delay", "30s").start();
    assert_eq!(get(service.http, "/healthcheck").body, "OK");
    service.signal("TERM");
    until("it is not ready", || get(service.http, "/readyz").status == 503);
    let detail = get(service.http, "/readyz").json();
    assert_eq!((&detail["ready"], &detail["draining"]), (&false.into(), &true.into()));
    assert_eq!(get(service.http, "/healthcheck").status, 500);
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200, "it still answers");
    service.signal("TERM");
    let ended = service.wait();
    assert!(ended.status.success() && ended.errors.contains("after a second signal"), "{}", ended.errors);
}

#[test]
fn sighup_reloads_at_once() {
    let service = Setup::rules(RULES).with("reload", "false").start();
    let path = service.file("rules/rules.yaml");
    fs::write(&path, RULES.replace("10", "99")).expect("it is written");
    service.signal("HUP");
    until("the rules are in force", || service.generation() == 2);
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).header("x-ratelimit-limit"), Some("99"));
}

#[test]
fn rules_may_come_later_and_until_then_it_is_not_ready() {
    let setup = Setup::rules(RULES);
    fs::remove_file(setup.path().join("rules/rules.yaml")).expect("it was there");
    let service = setup.start();
    assert_eq!(get(service.http, "/readyz").status, 503);
    fs::write(service.file("rules/rules.yaml"), RULES).expect("it is written");
    until("it is ready", || get(service.http, "/readyz").status == 200);
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).header("x-ratelimit-limit"), Some("10"));
}

#[test]
fn a_port_in_use_is_one_clear_message_and_exit_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for listener in ["grpc.listen", "http.listen", "admin.listen"] {
        let ended = Setup::rules(RULES).with(listener, &address).fail();
        assert_eq!(ended.status.code(), Some(1));
        let expected = format!("cannot listen on {address} ({listener}): ");
        assert!(
            ended.errors.contains(&expected) && ended.errors.contains("choose another address"),
            "{}",
            ended.errors
        );
        assert_eq!(ended.errors.trim().lines().count(), 1, "{}", ended.errors);
    }
}

#[test]
fn a_data_folder_in_use_or_unwritable_is_one_clear_message_and_exit_1() {
    let first = service(RULES);
    let data = first.file("data").display().to_string();
    let ended = Setup::rules(RULES).with("data", &data).fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.errors.contains("is in use by another process"), "{}", ended.errors);

    let setup = Setup::rules(RULES);
    fs::write(setup.path().join("file"), "").expect("it is written");
    let inside = setup.path().join("file/data").display().to_string();
    let ended = setup.with("data", &inside).fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.errors.contains("cannot be used: "), "{}", ended.errors);
    assert_eq!(ended.errors.trim().lines().count(), 1, "{}", ended.errors);
}

/// The lock of another time can be there in a folder that nobody may write to.
#[test]
fn a_data_folder_that_takes_no_new_files_is_found_out_at_the_start() {
    let setup = Setup::rules(RULES);
    fs::create_dir_all(setup.path().join("data")).expect("a folder");
    fs::write(setup.path().join("data/lock"), "").expect("a file");
    // Files can be opened, and nothing can be written to them.
    let ended = setup.under(&["env", "--ignore-signal=XFSZ", "prlimit", "--fsize=0"]).fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.errors.contains("cannot be used: "), "{}", ended.errors);
}

/// Rules that are a pipe: the service waits for them, and so it is known where it is when the signal comes.
fn starting_up(signal: &'static str) -> (Setup, impl FnOnce(u32)) {
    let setup = Setup::rules(RULES);
    let rules = setup.path().join("rules/rules.yaml");
    fs::remove_file(&rules).expect("it was there");
    assert!(Command::new("mkfifo").arg(&rules).status().expect("mkfifo runs").success());
    let first = move |pid: u32| {
        let mut pipe = fs::File::options().write(true).open(&rules).expect("somebody reads it");
        let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status();
        assert!(status.expect("kill runs").success());
        // It may look again, and finds a file then.
        let file = rules.with_extension("new");
        fs::write(&file, RULES).and_then(|()| fs::rename(&file, &rules)).expect("it is written");
        pipe.write_all(RULES.as_bytes()).expect("it is read");
    };
    (setup, first)
}

#[test]
fn a_signal_while_it_starts_is_heeded() {
    let (setup, first) = starting_up("TERM");
    let ended = setup.end_after(first);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.errors);
    assert!(ended.errors.contains("\"stopped"), "{}", ended.errors);

    let (setup, first) = starting_up("HUP");
    let service = setup.start_after(first);
    until("the rules were read again", || service.generation() >= 2);
}

#[test]
fn logs_tell_where_it_listens() {
    let ended = service(RULES).stop();
    for listener in ["grpc", "http", "admin"] {
        let line = format!("\"message\":\"listening\",\"listener\":\"{listener}\",\"at\":\"127.0.0.1:");
        assert!(ended.errors.contains(&line), "{}", ended.errors);
    }
    assert!(ended.errors.contains("\"message\":\"started\",\"ready\":true"), "{}", ended.errors);
}

#[test]
fn traces_that_cannot_be_sent_are_told_of() {
    // A port that is taken, so that nobody else comes to listen there, and at which nobody does.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    taken.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    let closed = taken.local_addr().ok().and_then(|at| at.as_socket()).expect("an address");
    let setup = Setup::rules(RULES).with("traces.endpoint", &format!("http://{closed}"));
    let service = setup.with("traces.sample", "1").start();
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200);
    let ended = service.stop();
    assert!(ended.status.success());
    assert_eq!(ended.errors.matches("traces were not sent and are lost").count(), 1, "{}", ended.errors);
}

#[test]
fn bad_rules_and_a_bad_snapshot_are_clear_messages_and_exit_1() {
    let ended =
        Setup::rules("domain: api\ndescriptors: [{key: user, rate_limit: {unit: fortnight}}]\n").fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.errors.contains("rules.yaml:2:") && ended.errors.contains("fortnight"), "{}", ended.errors);

    let setup = Setup::rules(RULES);
    fs::create_dir(setup.path().join("data")).expect("a folder");
    fs::write(setup.path().join("data/counters"), "not a snapshot at all").expect("it is written");
    let ended = setup.fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.errors.contains("counters"), "{}", ended.errors);
}

#[test]
fn a_killed_service_leaves_its_folder_to_the_next() {
    let first = service(RULES);
    let ended = first.kill();
    let second = Setup::after(ended).start();
    assert_eq!(second.check("api", r#"{"user":"ann"}"#).status, 200);
}

#[test]
fn logs_are_json_away_from_a_terminal_and_human_if_told() {
    let ended = service(RULES).stop();
    for line in ended.errors.lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    let ended = Setup::rules(RULES).with("log.format", "human").start().stop();
    assert!(ended.errors.contains(" INFO ") && !ended.errors.contains('{'), "{}", ended.errors);
}

#[test]
fn a_unix_socket_serves_and_goes_with_the_service() {
    let setup = Setup::rules(RULES);
    let path = setup.path().join("http.sock");
    let service = setup.with("http.listen", &format!("unix:{}", path.display())).start();
    let ask = || {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
        stream
            .write_all(b"GET /healthcheck HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    assert!(ask().starts_with("HTTP/1.1 200"));
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "its group may ask too");
    let ended = service.kill();
    assert!(path.exists(), "a killed process cannot remove it");
    let again = Setup::after(ended).with("http.listen", &format!("unix:{}", path.display())).start();
    assert!(ask().starts_with("HTTP/1.1 200"), "the next one takes it over");
    let _ended = again.stop();
    assert!(!path.exists());
}
