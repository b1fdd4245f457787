//! An allocator that counts the bytes in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system allocator, which counts the bytes that are allocated and not yet freed.
pub struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Returns the bytes allocated now.
pub fn held_bytes() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// Returns the most bytes allocated at once since [`forget_peak`].
pub fn peak_bytes() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// Resets the peak to the bytes allocated now.
pub fn forget_peak() {
    PEAK.store(held_bytes(), Ordering::Relaxed);
}

fn grow(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

fn shrink(bytes: usize) {
    HELD.fetch_sub(bytes, Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "an allocator is; this one hands everything on to the system's")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        shrink(layout.size());
        unsafe { System.dealloc(memory, layout) }
    }

    // Old and new memory are counted together, because both exist while the content is moved.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        let moved = unsafe { System.realloc(memory, layout, size) };
        shrink(layout.size());
        moved
    }
}
