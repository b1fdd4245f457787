//! Encodes the arguments of the script as `MessagePack`, which the Lua host decodes in one call.

use rmp::encode::{write_array_len, write_nfix, write_nil, write_str_len, write_uint};

/// Writing to memory cannot fail.
const INFALLIBLE: &str = "memory takes every byte";

/// Appends `MessagePack` values to a buffer.
pub(super) struct Packer(Vec<u8>);

impl Packer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Returns everything appended, as one list of `length` values.
    pub(super) fn into_list(self, length: usize) -> Vec<u8> {
        let mut list = Self::with_capacity(self.0.len() + 5);
        list.list(length);
        list.0.extend_from_slice(&self.0);
        list.0
    }

    pub(super) fn nil(&mut self) {
        write_nil(&mut self.0).expect(INFALLIBLE);
    }

    /// Appends the header of a list; its values follow.
    pub(super) fn list(&mut self, length: usize) {
        write_array_len(&mut self.0, length as u32).expect(INFALLIBLE);
    }

    pub(super) fn number(&mut self, number: u64) {
        write_uint(&mut self.0, number).expect(INFALLIBLE);
    }

    /// Appends a number from -32 to -1.
    pub(super) fn small_negative(&mut self, number: i8) {
        write_nfix(&mut self.0, number).expect(INFALLIBLE);
    }

    pub(super) fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        self.list(numbers.len());
        for number in numbers {
            self.number(number);
        }
    }

    /// Appends a list of numbers, or nil if it is empty.
    pub(super) fn numbers_or_nil(&mut self, numbers: &[u64]) {
        if numbers.is_empty() { self.nil() } else { self.numbers(numbers.iter().copied()) }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        write_str_len(&mut self.0, bytes.len() as u32).expect(INFALLIBLE);
        self.0.extend_from_slice(bytes);
    }
}
