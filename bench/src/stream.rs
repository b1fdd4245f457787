//! The requests to a limiter, in the order of arrival.

use std::fmt::Write;

/// The number of keys of an instruction benchmark. Each is decided once while instructions are counted.
pub const COUNTED: usize = 10_000;

/// Returns the text of a key: 13 bytes.
pub fn name(number: usize) -> String {
    let mut name = String::with_capacity(13);
    write_name(&mut name, number);
    name
}

/// Replaces `name` with the text of a key.
pub fn write_name(name: &mut String, number: usize) {
    name.clear();
    // Writing to a string cannot fail.
    let _ = write!(name, "user-{number:08}");
}

/// Returns `count` requests for keys drawn evenly from `keys`, in the order of arrival.
///
/// The texts are in memory in that order, as they would be in the buffers of a server that has just read them from
/// its sockets. If one list of key texts were indexed at random instead, every decision would first wait for the
/// benchmark's own text to be fetched from cold memory. That wait is the same for all limiters, and would hide their
/// differences.
pub fn arrivals(keys: usize, count: usize, seed: u64) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| name(random.usize(..keys))).collect()
}

#[cfg(test)]
mod tests {
    use super::{arrivals, name};

    #[test]
    fn names_are_as_long_as_documented() {
        assert_eq!(name(0), "user-00000000");
        assert_eq!(name(9_999_999).len(), 13);
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        assert_eq!(arrivals(10, 100, 1), arrivals(10, 100, 1));
        assert_ne!(arrivals(10, 100, 1), arrivals(10, 100, 2));
    }
}
