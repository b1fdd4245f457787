//! A server that always allows, with the allocator of the system: what tonic is like out of the box.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    tidegate_bench::constant::serve()
}
