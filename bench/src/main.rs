//! The program `tidegate-bench`; the library documents it.

use std::process::ExitCode;

use tidegate_bench::cli;
use tidegate_bench::heap::Counting;

#[global_allocator]
static HEAP: Counting = Counting;

fn main() -> ExitCode {
    cli::run()
}
