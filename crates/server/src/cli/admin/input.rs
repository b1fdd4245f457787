//! Input files of commands.

use std::io::Read as _;
use std::path::Path;

use super::Outcome;
use super::failure::Failure;

/// Reads a file, or standard input for `-`.
pub(super) fn read(file: &Path) -> Outcome<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| Failure::other(format!("cannot read standard input: {error}")))?;
        return Ok(bytes);
    }
    std::fs::read(file).map_err(|error| Failure::other(format!("cannot read {}: {error}", file.display())))
}
