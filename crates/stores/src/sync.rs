//! The locks and atomics of hand-written protocols, which a model checker can replace.

#[cfg(not(feature = "shuttle"))]
mod imp {
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

#[cfg(feature = "shuttle")]
mod imp {
    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

    /// The mutex of Shuttle with the interface of `parking_lot`.
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model-checked thread panicked while holding the lock")
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

pub(crate) use imp::*;
