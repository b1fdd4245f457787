//! A server that allows every request, with the system allocator, as tonic is by default.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    tidegate_bench::constant::serve()
}
