//! The service: Envoy's rate limit protocol, an HTTP API, and the tools around them.
//!
//! # Layout
//!
//! - [`cli`]: commands; [`config`]: settings
//! - [`run`]: from start to end; `assemble`: what it is made of; [`banner`]: what is seen first; [`logs`], [`trace`]
//! - [`listen`]: sockets, TLS, workers and connections
//! - [`grpc`], [`http`], [`admin`]: who answers
//! - [`body`], [`bounds`]: what a client may send; [`permit_token`]: what it holds
//! - [`access`]: who may do what; [`denials`]: who was denied; [`control`]: what the catalog says, in force here
//! - [`health`], [`metrics`], [`build_info`]: what the service says about itself
//! - [`memory`]: how much memory there is, and who gets it
//! - [`data_folder`]: what outlives a restart
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
pub mod protocols;
pub mod run;
pub mod signals;
pub mod trace;
