//! A single Redis or Valkey server.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_testkit::redis::{Client, RedisServer, Reply, Setup, sharded_url, until};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

fn connect(server: &RedisServer, timeout: Duration) -> Client {
    Client::connect(server.address(), timeout).expect("the server listens")
}

fn ok() -> Reply {
    Reply::Status("OK".to_owned())
}

fn exists(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn redis_and_valkey_answer_over_their_port() {
    for setup in [Setup::redis(), Setup::valkey()] {
        let server = setup.start();
        let mut client = connect(&server, LONG);
        assert_eq!(client.ask(&["SET", "key", "value"]).unwrap(), ok());
        assert_eq!(server.command(&["GET", "key"]).text(), "value");
        assert_eq!(server.command(&["GET", "other"]), Reply::Nil);
        assert!(server.try_command(&["NO"]).unwrap().error().unwrap().starts_with("ERR unknown command"));
        let nested = server.command(&["EVAL", "return {1, {'a', false}}", "0"]);
        let inner = Reply::Array(vec![Reply::Bulk(b"a".to_vec()), Reply::Nil]);
        assert_eq!(nested, Reply::Array(vec![Reply::Integer(1), inner]));
        assert_eq!(server.url(), format!("redis://{}", server.address()));
    }
}

#[test]
fn a_killed_server_is_gone_until_it_is_restarted_on_the_same_port() {
    let server = RedisServer::start();
    server.command(&["SET", "key", "value"]);
    let mut client = connect(&server, LONG);
    let process = server.process_id().unwrap();
    server.kill();
    assert!(!server.runs() && !exists(process));
    assert!(client.ask(&["PING"]).is_err());
    assert!(Client::connect(server.address(), LONG).is_err());
    server.restart();
    assert_eq!(connect(&server, LONG).ask(&["GET", "key"]).unwrap(), Reply::Nil);
}

#[test]
fn what_is_on_disk_survives_a_kill() {
    let server = Setup::redis().set("appendonly", "yes").set("appendfsync", "always").start();
    server.command(&["SET", "key", "value"]);
    server.restart();
    assert_eq!(server.command(&["GET", "key"]).text(), "value");
}

#[test]
fn a_paused_server_keeps_connections_and_answers_when_it_resumes() {
    let server = Setup::valkey().start();
    let mut before = connect(&server, LONG);
    assert!(before.ask(&["PING"]).is_ok());
    server.pause();
    assert!(!server.runs());
    let error = connect(&server, SHORT).ask(&["PING"]).unwrap_err();
    assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
    server.resume();
    assert!(before.ask(&["PING"]).is_ok());
}

#[test]
fn a_server_ends_with_its_value_though_it_is_paused() {
    let server = RedisServer::start();
    let (process, folder) = (server.process_id().unwrap(), server.folder().to_owned());
    server.pause();
    drop(server);
    assert!(!exists(process) && !folder.exists());
}

#[test]
fn a_server_ends_with_a_test_that_panics() {
    let told = std::panic::catch_unwind(|| {
        let server = RedisServer::start();
        std::panic::panic_any(server.process_id().unwrap());
    });
    assert!(!exists(*told.unwrap_err().downcast::<u32>().unwrap()));
}

/// The next test runs this in a process of its own, and kills that process.
#[test]
#[ignore = "waits to be killed"]
fn waits_to_be_killed() {
    let server = Setup::valkey().fake_clock().start();
    println!("server {} {}", server.process_id().unwrap(), server.folder().display());
    std::thread::sleep(Duration::from_mins(1));
}

#[test]
fn a_server_ends_with_a_test_that_is_killed() {
    use std::io::{BufRead, BufReader};
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--ignored", "--exact", "single::waits_to_be_killed", "--nocapture"]);
    let mut test = test.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.contains("server ")).unwrap();
    let mut words = line.split_once("server ").unwrap().1.split(' ');
    let process: u32 = words.next().unwrap().parse().unwrap();
    let folder = Path::new(words.next().unwrap());
    assert!(exists(process) && folder.exists());
    test.kill().unwrap();
    test.wait().unwrap();
    let shared = format!("/dev/shm/faketime_shm_{process}");
    until("the server is gone", || {
        (!exists(process) && !folder.exists() && !Path::new(&shared).exists()).then_some(())
    });
}

#[test]
fn a_missing_program_fails_the_test_and_is_named_with_its_package() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "single::what_is_on_disk_survives_a_kill"]);
    test.env("PATH", "").env_remove("TIDEGATE_REDIS_SERVER");
    let output = test.output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("redis-server is missing: `make test-tools` installs it"), "{said}");
}

#[test]
fn a_full_server_that_may_not_evict_refuses_writes() {
    let server = Setup::redis().memory(4 << 20, "noeviction").start();
    assert_eq!(server.command(&["CONFIG", "GET", "maxmemory-policy"]).items()[1].text(), "noeviction");
    let value = "x".repeat(1 << 20);
    let replies = (0..10).map(|key| server.try_command(&["SET", &key.to_string(), &value]).unwrap());
    let refused: Vec<Reply> = replies.filter(|reply| reply.error().is_some()).collect();
    assert!(refused.first().unwrap().error().unwrap().starts_with("OOM"));
}

#[test]
fn a_password_is_asked_of_clients_and_not_of_the_kit() {
    let server = Setup::redis().password("secret").start();
    assert!(server.url().starts_with("redis://:secret@127.0.0.1:"));
    assert_eq!(server.command(&["PING"]).text(), "PONG");
    let mut client = connect(&server, LONG);
    assert!(client.ask(&["PING"]).unwrap().error().unwrap().starts_with("NOAUTH"));
    assert_eq!(client.ask(&["AUTH", "secret"]).unwrap(), ok());
    assert_eq!(client.ask(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn users_may_do_what_their_rules_say() {
    let setup = Setup::valkey().user("default", "off").user("ann", "on >pw ~a:* &* +get +ping");
    let server = setup.start();
    let mut client = connect(&server, LONG);
    assert!(client.ask(&["PING"]).unwrap().error().is_some());
    assert_eq!(client.ask(&["AUTH", "ann", "pw"]).unwrap(), ok());
    assert_eq!(client.ask(&["GET", "a:1"]).unwrap(), Reply::Nil);
    assert!(client.ask(&["GET", "b:1"]).unwrap().error().unwrap().starts_with("NOPERM"));
    assert!(client.ask(&["SET", "a:1", "1"]).unwrap().error().unwrap().starts_with("NOPERM"));
    assert_eq!(server.url_as("ann", "pw"), format!("redis://ann:pw@{}", server.address()));
}

#[test]
fn tls_is_by_a_certificate_of_the_private_authority() {
    let server = Setup::redis().tls().start();
    assert_eq!(server.url(), format!("rediss://{}", server.address()));
    assert_eq!(server.command(&["PING"]).text(), "PONG");
    let verified = |authority: &Path| {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-brief", "-verify_return_error", "-verify_ip", "127.0.0.1", "-connect"]);
        command.arg(server.address().to_string()).arg("-CAfile").arg(authority);
        command.stdin(Stdio::null()).output().unwrap().status.success()
    };
    assert!(verified(&server.authority()));
    assert!(!verified(&Setup::redis().tls().start().authority()));
}

#[test]
fn independent_servers_share_nothing() {
    let servers = RedisServer::start_many(&Setup::redis(), 3);
    servers[0].command(&["SET", "key", "value"]);
    assert!(servers[1..].iter().all(|server| server.command(&["GET", "key"]).is_nil()));
    let [a, b, c] = [0, 1, 2].map(|index| servers[index].address());
    assert_eq!(sharded_url(&servers), format!("redis+sharded://{a},{b},{c}"));
    servers[1].kill();
    assert_eq!(servers[2].command(&["PING"]).text(), "PONG");
}

const TIME: [&str; 3] = ["EVAL", "return redis.call('TIME')[1]", "0"];

#[test]
fn a_faked_clock_jumps_in_scripts_and_for_expiry_and_leaves_the_event_loop_alone() {
    let setup = Setup::valkey().fake_clock();
    let (faked, truth) = (setup.start(), RedisServer::start());
    // Whole minutes, because time passes between the two commands.
    let ahead_minutes = || {
        let ahead = faked.command(&TIME).integer() - truth.command(&TIME).integer();
        (ahead + 30).div_euclid(60)
    };
    assert_eq!(ahead_minutes(), 0);
    faked.command(&["SET", "key", "value", "EX", "1800"]);
    faked.set_clock_offset(-3600);
    assert_eq!(ahead_minutes(), -60);
    assert_eq!(faked.command(&["GET", "key"]).text(), "value");
    faked.set_clock_offset(3600);
    assert_eq!(ahead_minutes(), 60);
    assert_eq!(faked.command(&["GET", "key"]), Reply::Nil);
    // Timeouts use the monotonic clock, which is not faked.
    assert!(connect(&faked, LONG).ask(&["BLPOP", "nothing", "0.2"]).unwrap().is_nil());
    faked.command(&["SET", "key", "value", "PX", "50"]);
    until("a key expires under a faked clock", || faked.command(&["GET", "key"]).is_nil().then_some(()));
    faked.restart();
    assert_eq!(ahead_minutes(), 60);
}

#[test]
#[should_panic(expected = "does not start under libfaketime: take Valkey")]
fn a_clock_that_cannot_be_faked_is_told() {
    let _ = Setup::redis().fake_clock();
}

#[test]
#[should_panic(expected = "nonsense")]
fn a_server_that_does_not_start_shows_its_log() {
    let _ = Setup::redis().set("nonsense", "yes").start();
}
