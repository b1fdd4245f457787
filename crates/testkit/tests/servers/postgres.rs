//! A `PostgreSQL` server and its standby server.

use std::path::Path;
use std::process::Command;

use tidegate_testkit::postgres::{PostgresServer, Setup, multi_host_url};

fn exists(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn a_database_survives_stop_and_kill() {
    let server = PostgresServer::start();
    let database = server.create_database();
    server.query(&database, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)");
    for stop in [PostgresServer::stop, PostgresServer::kill] {
        let process = server.process_id().unwrap();
        stop(&server);
        assert!(!exists(process));
        assert!(server.try_query(&database, "SELECT n FROM t").is_err());
        server.restart();
        assert_eq!(server.query(&database, "SELECT n FROM t"), "7");
    }
    assert_ne!(server.create_database(), database);
}

#[test]
fn a_promoted_standby_has_what_the_primary_had() {
    let primary = PostgresServer::start();
    let database = primary.create_database();
    let standby = primary.start_standby();
    primary.query(&database, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)");
    primary.wait_for_standby(&standby);
    assert!(standby.try_query(&database, "INSERT INTO t VALUES (8)").unwrap_err().contains("read-only"));
    primary.kill();
    standby.promote();
    standby.query(&database, "INSERT INTO t VALUES (8)");
    assert_eq!(standby.query(&database, "SELECT n FROM t"), "7\n8");
    let url = multi_host_url(&[&primary, &standby], "d");
    let (one, other) = (primary.port(), standby.port());
    assert_eq!(url, format!("postgres://tidegate@127.0.0.1:{one},127.0.0.1:{other}/d"));
}

#[test]
fn a_paused_server_is_silent_until_it_goes_on() {
    let server = PostgresServer::start();
    let mut session = psql(&server).args(["--command", "SELECT pg_sleep(0)"]).spawn().unwrap();
    assert!(session.wait().unwrap().success());
    server.pause();
    let mut session = psql(&server).args(["--command", "SELECT 1"]).spawn().unwrap();
    assert!(session.try_wait().unwrap().is_none());
    server.resume();
    assert!(session.wait().unwrap().success());
    server.pause();
    // A paused server also ends when its value is dropped.
    let process = server.process_id().unwrap();
    drop(server);
    assert!(!exists(process));
}

#[test]
fn with_password_and_tls_nobody_comes_in_without() {
    let server = Setup::new().password("secret").tls().start();
    let ask = |url: &str, password: &str| {
        let mut command = Command::new(tidegate_testkit::postgres::program("psql"));
        command.env("PGPASSWORD", password).args([url, "--command", "SELECT 1"]).output().unwrap().status
    };
    let place = format!("postgres://tidegate@127.0.0.1:{}/postgres", server.port());
    assert!(
        ask(&format!("{place}?sslmode=verify-full&sslrootcert={}", server.authority().display()), "secret")
            .success()
    );
    assert!(!ask(&format!("{place}?sslmode=require"), "wrong").success());
    assert!(!ask(&format!("{place}?sslmode=disable"), "secret").success());
    assert!(server.url("d").starts_with("postgres://tidegate:secret@127.0.0.1:"));
}

fn psql(server: &PostgresServer) -> Command {
    let mut command = Command::new(tidegate_testkit::postgres::program("psql"));
    command.arg(server.url("postgres")).stdout(std::process::Stdio::null());
    command
}

#[test]
#[should_panic(
    expected = "postgres-of-nobody is missing: `make test-tools` installs it (Debian's packages postgresql and pgbouncer)"
)]
fn a_missing_program_is_told_with_its_package() {
    tidegate_testkit::postgres::program("postgres-of-nobody");
}
