//! Connections that cost their sender little: open files, slow heads, slow and dripping bodies.
#![expect(clippy::disallowed_methods, reason = "attacks on another process happen in real time")]

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use super::arena::{Arena, RULES, answered, crowd, duration, either};
use crate::bad_input::{EMPTY_SETTINGS, PREFACE};
use crate::overload::{slow_post, token_of};
use crate::support::service::{Setup, get};

#[test]
fn connections_beyond_the_limit_on_open_files() {
    let setup = Setup::rules(RULES).with("workers", "2").under(&["prlimit", "--nofile=256:256"]);
    let mut arena = Arena::new("open files", setup);
    arena.tries("300 connections to gRPC and 300 to HTTP under a limit of 256 files");
    let preface = [PREFACE, EMPTY_SETTINGS].concat();
    arena.keep_up(|arena| {
        let grpc = crowd(arena.service.grpc, 300, &preface);
        let http = crowd(arena.service.http, 300, b"");
        arena.look();
        drop((grpc, http));
    });
    arena.held("each listener keeps its share; idle connections make room");
}

#[test]
fn slow_heads_on_every_listener() {
    let setup = Setup::rules(RULES).with("connections.max", "64");
    let mut arena = Arena::new("slow loris", setup);
    arena.tries("300 heads that never end on HTTP, gRPC and admin, where HTTP and gRPC take 64");
    arena.keep_up(|arena| {
        let held = [arena.service.http, arena.service.grpc, arena.service.admin]
            .map(|at| crowd(at, 300, b"POST /v1/check HTTP/1.1\r\nx: "));
        arena.look();
        let again = crowd(arena.service.admin, 300, b"");
        arena.look();
        drop((held, again));
    });
    arena.held("the oldest that has sent no request makes room");
}

#[test]
fn slow_bodies_of_a_viewer() {
    let mut arena = Arena::new("slow admin bodies", Setup::rules(RULES));
    arena.tries("300 bodies that do not come, with a viewer's token");
    let viewer = token_of(&arena.service, "viewer", "viewer");
    let slow = slow_post("/admin/v1/explain", &viewer, 100);
    let mut refused = 0;
    arena.keep_up(|arena| {
        let held = crowd(arena.service.admin, 300, slow.as_bytes());
        arena.look();
        refused += answered(&held, 429);
    });
    assert!(refused > 100, "{refused}");
    arena.held(&format!("{refused} are told 429; probes and others are answered"));
}

#[test]
fn large_bodies_that_stop_before_their_end() {
    let mut arena = Arena::new("slow bodies", Setup::rules(RULES));
    let count = either(150, 1000);
    arena.tries(format!("{count} bodies of 1 MiB to /v1/check without their last byte"));
    let mut bytes = slow_post("/v1/check", "", 1 << 20).into_bytes();
    bytes.resize((1 << 20) - 1, b' ');
    let held = crowd(arena.service.http, count, &bytes);
    arena.look();
    let refused = answered(&held, 503);
    assert!(refused > 50, "{refused}");
    arena.held(&format!("{refused} are told 503; small bodies are decided"));
}

#[test]
fn bodies_that_drip() {
    let mut arena = Arena::new("drip", Setup::rules(RULES));
    arena.tries("200 bodies of 1 MiB to /v1/check and to admin, a byte at a time");
    let viewer = token_of(&arena.service, "viewer", "viewer");
    let mut held = crowd(arena.service.http, 200, slow_post("/v1/check", "", 1 << 20).as_bytes());
    let admin = slow_post("/admin/v1/explain", &viewer, 1 << 20);
    held.extend(crowd(arena.service.admin, 200, admin.as_bytes()));
    // The body's deadline is ten seconds, however many bytes come.
    let end = Instant::now() + either(duration(), Duration::from_secs(12));
    while Instant::now() < end {
        for mut stream in &held {
            let _ = stream.write_all(b" ");
        }
        thread::sleep(Duration::from_millis(50));
        arena.look();
    }
    let seen = either(0, answered(&held, 408));
    let told = either("nobody else notices".to_owned(), format!("{seen} are told 408 after 10 s"));
    assert!(either(true, seen > 200), "{seen} of {} were told that it takes too long", held.len());
    arena.held(&told);
}

#[test]
fn answers_that_nobody_takes() {
    let mut arena = Arena::new("unread answers", Setup::rules(RULES).with("http.header_timeout", "2s"));
    arena.tries("20 connections that ask for /metrics and more, and read nothing");
    let many = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(either(2_000, 20_000));
    arena.keep_up(|arena| {
        let admin = crowd(arena.service.admin, 10, &many);
        let http = crowd(arena.service.http, 10, &many);
        arena.look();
        drop((admin, http));
    });
    assert_eq!(get(arena.service.http, "/healthcheck").status, 200);
    arena.held("they are shut out, and hold little until then");
}
