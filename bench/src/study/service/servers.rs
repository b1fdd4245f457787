//! Starts each server, and builds the requests to send it.

use std::fmt::Write;
use std::fs;

use tidegate_load::payload::{Check, EnvoyRateLimit, Get, Payload, Throttlecrab};

use super::programs::Programs;
use crate::error::Error;
use crate::study::bed::{Child, Server, free_addr, new_folder};

/// A rate and a burst that no run comes near to, for all servers.
pub(super) const PLENTY: i32 = 1_000_000;

/// Returns rules with one token bucket for each user, which never runs dry.
pub(super) fn generous_rules() -> String {
    format!(
        "domain: api\ndescriptors:\n  - key: user\n    limits:\n      \
         - {{ algorithm: token_bucket, requests: {PLENTY}, per: second, burst: {PLENTY} }}\n"
    )
}

/// Returns rules with token buckets for each key and endpoint, for each address and for all, none of which ever runs
/// dry.
pub(super) fn three_rules() -> String {
    let limits = |indent: &str| {
        format!(
            "{indent}limits:\n{indent}  \
             - {{ algorithm: token_bucket, requests: {PLENTY}, per: second, burst: {PLENTY} }}\n"
        )
    };
    format!(
        "domain: api\ndescriptors:\n  - key: api_key\n    descriptors:\n      - key: endpoint\n{}  \
         - key: remote_address\n{}  - key: global\n{}",
        limits("        "),
        limits("    "),
        limits("    "),
    )
}

/// Returns rules with one token bucket for each user that refills slowly, so that no key expires soon.
pub(super) fn lasting_rules() -> String {
    "domain: api\ndescriptors:\n  - key: user\n    limits:\n      \
     - { algorithm: token_bucket, requests: 24, per: day, burst: 24 }\n"
        .to_owned()
}

/// Returns a rule for each of the first `count` users.
pub(super) fn many_rules(count: u64, requests: u64) -> String {
    let (mut text, mut user) = (String::from("domain: api\ndescriptors:\n"), String::new());
    for number in 0..count {
        tidegate_load::payload::write_key(number, &mut user);
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "  - key: user\n    value: {user}\n    limits:\n      \
             - {{ algorithm: token_bucket, requests: {requests}, per: second, burst: {requests} }}"
        );
    }
    text
}

pub(super) fn throttlecrab(programs: &Programs) -> Result<Server, Error> {
    let addr = free_addr()?;
    let port = addr.port().to_string();
    let command = ["--grpc", "--grpc-host", "127.0.0.1", "--grpc-port", &port].map(AsRef::as_ref);
    let command: Vec<_> = [programs.throttlecrab.as_os_str()].into_iter().chain(command).collect();
    let child = Child::start(&programs.launcher, "throttlecrab", &command, &[], new_folder()?)?;
    Server::listening(child, addr, Box::new(Throttlecrab::new(PLENTY, PLENTY, 1)))
}

/// Starts NGINX with `limit_req`. `return` would respond before the limit is checked, so the response is a GIF of one
/// pixel, which is served from memory.
pub(super) fn nginx(programs: &Programs) -> Result<Server, Error> {
    let (addr, folder) = (free_addr()?, new_folder()?);
    let settings = format!(
        "daemon off;
master_process off;
worker_processes 1;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  limit_req_zone $arg_key zone=keys:32m rate={PLENTY}r/s;
  limit_req_status 429;
  server {{
    listen {addr};
    location / {{
      limit_req zone=keys burst={PLENTY} nodelay;
      empty_gif;
    }}
  }}
}}
"
    );
    let path = folder.path().join("nginx.conf");
    fs::write(&path, settings).map_err(Error::io(&path))?;
    let command = [
        programs.nginx.as_os_str(),
        "-p".as_ref(),
        folder.path().as_os_str(),
        "-c".as_ref(),
        path.as_os_str(),
    ]
    .map(ToOwned::to_owned);
    let command: Vec<_> = command.iter().map(AsRef::as_ref).collect();
    let child = Child::start(&programs.launcher, "NGINX", &command, &[], folder)?;
    Server::listening(child, addr, Box::new(Get::new("localhost", "/", "key")))
}

/// The stack of a server that allows every request.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stack {
    /// tonic with the system allocator.
    Tonic,
    TonicMimalloc,
    /// Tidegate's own HTTP/2.
    Own,
    Hyper,
    Http,
}

pub(super) fn constant(programs: &Programs, stack: Stack) -> Result<Server, Error> {
    let (name, mode) = match stack {
        Stack::Tonic => ("tonic, constant", "tonic-multi"),
        Stack::TonicMimalloc => ("tonic with mimalloc, constant", "tonic-multi"),
        Stack::Own => ("the same stack, constant", "own"),
        Stack::Hyper => ("hyper, constant", "hyper"),
        Stack::Http => ("hyper, constant", "http"),
    };
    let program = if stack == Stack::Tonic { &programs.constant_stock } else { &programs.constant };
    let (addr, folder) = (free_addr()?, new_folder()?);
    let addr_text = addr.to_string();
    let command = [program.as_os_str(), mode.as_ref(), addr_text.as_ref()];
    let child = Child::start(&programs.launcher, name, &command, &[], folder)?;
    let payload: Box<dyn Payload> = match stack {
        Stack::Http => Box::new(Check::new("localhost", "api", "user")),
        _ => Box::new(EnvoyRateLimit::new("api", "user")),
    };
    Server::listening(child, addr, payload)
}
