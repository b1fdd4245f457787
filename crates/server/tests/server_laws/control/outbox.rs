//! Changes of a process that dies before they are in its audit files: the next one looks into them.

use std::fs;
use std::thread;

use serde_json::{Value, json};
use tidegate_testkit::postgres::PostgresServer;

use super::{RULES, ask_at, requests};
use crate::support::service::{Ended, Service, Setup, get, until};

/// Makes commits of changes take long, and then fail if they are of `never`.
const SLOW_COMMITS: &str = "CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     PERFORM pg_sleep(2); IF NEW.object = 'never' THEN RAISE EXCEPTION 'never'; END IF; RETURN NULL; END $$; \
     CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED \
     FOR EACH ROW EXECUTE FUNCTION slow()";
const USUAL_COMMITS: &str = "DROP TRIGGER slow ON audit";

/// Sends a change, and kills the service while the database commits it. `is_committing` tells whether it does.
fn die_in_a_commit(
    service: Service,
    (method, path): (&'static str, &str),
    body: &Value,
    is_committing: impl Fn() -> bool,
) -> Ended {
    let (admin, token) =
        (service.admin, fs::read_to_string(service.file("data/admin-token")).expect("a token"));
    let (path, body) = (path.to_owned(), body.to_string());
    let caller = thread::spawn(move || {
        ask_at(admin, Some(token.trim()), method, &path, &[("content-type", "application/json")], &body)
    });
    let outbox = service.file("data/outbox");
    until("it is kept", || {
        let names = fs::read_dir(&outbox).expect("a folder").flatten().map(|file| file.path());
        names.into_iter().any(|path| path.extension().is_some_and(|end| end == "json"))
    });
    until("it is being committed", is_committing);
    let ended = service.kill();
    // It was not answered.
    let _ = caller.join();
    ended
}

/// The lines of the audit files that have a text.
fn lines(service: &Service, text: &str) -> usize {
    let files = fs::read_dir(service.file("data/audit")).expect("a folder").flatten();
    let all: String = files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
    all.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn what_was_committed_while_a_node_died_is_in_its_audit_files_after_the_next_start() {
    let postgres = PostgresServer::start();
    let database = postgres.create_database();
    let url = postgres.url(&database);
    let mut setup = Setup::rules(RULES);
    let token = json!({ "name": "unseen", "role": "viewer" });
    for (method, path, body, made) in [
        ("PUT", "/admin/v1/quotas/late", requests(1), Some("put_tenant")),
        ("PUT", "/admin/v1/quotas/never", requests(1), None),
        ("POST", "/admin/v1/tokens", token, Some("create_token")),
    ] {
        let service = setup.with("catalog", &url).start();
        service.put_quota("first", &requests(1));
        postgres.query(&database, SLOW_COMMITS);
        let ended = die_in_a_commit(service, (method, path), &body, || {
            let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND wait_event = 'PgSleep'";
            postgres.query(&database, sleeping) != "0"
        });
        until("the database is done", || {
            let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND state <> 'idle' AND pid <> pg_backend_pid()";
            postgres.query(&database, busy) == "0"
        });
        postgres.query(&database, USUAL_COMMITS);
        let service = Setup::after(ended).with("catalog", &url).start();
        until("it has looked into it", || {
            get(service.admin, "/metrics").body.contains("ratelimit_audit_waiting 0")
        });
        assert_eq!(lines(&service, "\"object\":\"never\""), 0);
        if let Some(action) = made {
            assert_eq!(lines(&service, action), if action == "put_tenant" { 2 } else { 1 }, "{path}");
        }
        if method == "POST" {
            // Nobody has seen its secret.
            assert_eq!(lines(&service, "revoke_token"), 1);
        }
        assert_eq!(fs::read_dir(service.file("data/outbox")).expect("a folder").count(), 0);
        let ended = service.stop();
        tidegate_audit::verify(&ended.folder.path().join("data/audit")).expect("the chain is whole");
        setup = Setup::after(ended);
    }
}
