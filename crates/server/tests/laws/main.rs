//! Laws of the service, each stated by the name of its test.

mod config;
mod http;
