//! Laws of the service, each stated by the name of its test.

mod admin_cli;
mod bad_input;
mod build_info;
mod cli;
mod config;
mod conformance;
mod connections;
mod control;
mod denial_body;
mod deploy;
mod documents;
mod envoy;
mod faults;
mod first_minutes;
mod grpc;
mod http;
mod lifecycle;
mod metrics;
mod remote;
mod rendering;
mod reservations;
mod scenario;
mod support;
mod tls;
mod traces;
mod wire;
