//! Servers that allow every request, to measure what the protocol alone costs on each stack.

mod bare;
mod own;
mod tonic_stack;

use std::error::Error;
use std::net::SocketAddr;

use clap::{Parser, ValueEnum};

/// Always allows.
#[derive(Parser)]
struct Options {
    stack: Stack,
    /// Where to listen.
    addr: SocketAddr,
}

#[derive(Clone, Copy, ValueEnum)]
enum Stack {
    /// gRPC by tonic on a multi-thread runtime, as its examples have it.
    TonicMulti,
    /// gRPC on Tidegate's own HTTP/2 and a current-thread runtime, as Tidegate has it.
    Own,
    /// gRPC on hyper's HTTP/2 and a current-thread runtime.
    Hyper,
    /// HTTP/1.1 on hyper and a current-thread runtime, as Tidegate has it.
    Http,
}

/// Serves as the command line specifies until the process is killed.
///
/// # Errors
/// Returns an error if the address is in use.
pub fn serve() -> Result<(), Box<dyn Error + Send + Sync>> {
    let Options { stack, addr } = Options::parse();
    match stack {
        Stack::TonicMulti => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(tonic_stack::serve(addr))?;
        }
        Stack::Own => bare::block_on(own::serve(addr))?,
        Stack::Hyper => bare::block_on(bare::serve_grpc(addr))?,
        Stack::Http => bare::block_on(bare::serve_http(addr))?,
    }
    Ok(())
}
