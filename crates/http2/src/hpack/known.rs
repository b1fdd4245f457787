//! A cache of decoded header blocks.

/// Maximum number of cached blocks. A peer usually repeats one or two.
const MAX_BLOCKS: usize = 8;
/// Maximum length of a cached block in bytes.
const MAX_BYTES: usize = 1024;

/// A cache of decoded header blocks, by their bytes. A block that does not change the dynamic table decodes to the
/// same fields until another block changes the table, so it can be compared instead of decoded.
#[derive(Debug)]
pub struct Known<T>(Vec<(Box<[u8]>, T)>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Known<T> {
    /// Returns the cached value of a block.
    #[inline]
    pub fn get(&self, block: &[u8]) -> Option<&T> {
        self.0.iter().find(|(bytes, _)| **bytes == *block).map(|(_, said)| said)
    }

    /// Caches the value of a block that did not change the dynamic table.
    pub fn remember(&mut self, block: &[u8], said: T) {
        if block.len() > MAX_BYTES {
            return;
        }
        if self.0.len() == MAX_BLOCKS {
            self.0.remove(0);
        }
        self.0.push((block.into(), said));
    }

    /// Clears the cache. Must be called when the dynamic table has changed.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
