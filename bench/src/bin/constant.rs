//! A server that allows every request, with the allocator that Tidegate uses.

use std::error::Error;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    tidegate_bench::constant::serve()
}
