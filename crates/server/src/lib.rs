//! The rate limit service: Envoy's rate limit protocol, an HTTP API, and the command line.
//!
//! # Layout
//!
//! - [`cli`]: commands; [`config`]: settings
//! - [`run`]: starts and stops the service; `assemble`: builds its parts; [`banner`]: prints its addresses; [`logs`],
//!   [`trace`]
//! - [`listen`]: listeners, TLS, workers and connections
//! - [`grpc`], [`http`], [`admin`]: the front ends
//! - [`decider`]: decides requests and records decisions, for every front end
//! - [`recorder`]: top keys, history, recent denials and warnings, from the decisions of every front end
//! - [`usage_link`]: a tenant's view of its own usage
//! - [`body`], [`bounds`]: what a client may send; [`permit_token`]: the token of a permit; [`request_id`]: the
//!   ID of a request; `problem`: errors over HTTP
//! - [`access`]: tokens and roles; [`denials`]: records of denials; [`control`]: puts the catalog in force
//! - [`health`], [`metrics`], [`build_info`]: the state of the service
//! - [`memory`]: divides the memory of the process
//! - [`data_folder`]: data that survives a restart
//! - [`protocols`]: compiled from `proto/`

pub mod access;
pub mod admin;
mod assemble;
pub mod banner;
pub mod body;
pub mod bounds;
pub mod build_info;
pub mod cli;
pub mod config;
pub mod control;
pub mod data_folder;
pub mod decider;
pub mod denials;
pub mod grpc;
pub mod health;
pub mod http;
mod inline;
pub mod listen;
pub mod logs;
pub mod memory;
pub mod metrics;
pub mod permit_token;
mod problem;
pub mod protocols;
pub mod recorder;
pub mod request_id;
pub mod run;
pub mod signals;
pub mod trace;
pub mod usage_link;
