//! A server that always allows, with the allocator that Tidegate has.

use std::error::Error;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    tidegate_bench::constant::serve()
}
