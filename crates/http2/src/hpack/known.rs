//! Blocks that need not be decoded again.

/// Blocks that are remembered. A peer sends about one or two kinds of them.
const MAX_BLOCKS: usize = 8;
/// The longest of them.
const MAX_BYTES: usize = 1024;

/// What blocks said that came before. One that neither changed the table nor has seen it change
/// since says the same whenever it comes again, so its bytes are compared and not decoded.
#[derive(Debug)]
pub struct Known<T>(Vec<(Box<[u8]>, T)>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Known<T> {
    /// What these very bytes said.
    #[inline]
    pub fn get(&self, block: &[u8]) -> Option<&T> {
        self.0.iter().find(|(bytes, _)| **bytes == *block).map(|(_, said)| said)
    }

    /// Remembers a block that changed nothing.
    pub fn remember(&mut self, block: &[u8], said: T) {
        if block.len() > MAX_BYTES {
            return;
        }
        if self.0.len() == MAX_BLOCKS {
            self.0.remove(0);
        }
        self.0.push((block.into(), said));
    }

    /// Forgets all of them: the table has changed.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
