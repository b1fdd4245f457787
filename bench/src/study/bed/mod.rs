//! The test bed: one core for the server, another for the load generator.
//!
//! - `launcher`, `child`: processes that are bound to a core and end with this one
//! - `server`, `tidegate`: running servers, and the requests to send them
//! - `drive`: passes of the load generator, and whether they are valid; `percentiles`: the reported percentiles

mod child;
mod drive;
mod launcher;
mod percentiles;
mod server;
mod tidegate;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub(crate) use self::child::{Child, free_addr, new_folder};
pub(crate) use self::drive::{BATCHED, Passes, Shape, UNBATCHED, USERS, drive, pass};
pub(crate) use self::launcher::{Launcher, built, installed, version};
pub(crate) use self::percentiles::{P50, P99, PERCENTILES, percentiles};
pub(crate) use self::server::Server;
pub(crate) use self::tidegate::{RULES, Tidegate, WITH_THREE};
use crate::error::{Error, ensure};

/// The core of the measured servers.
pub(crate) const SERVER_CORE: usize = 0;
/// The core of the load generator, which is a thread of this process.
pub(crate) const GENERATOR_CORE: usize = 1;

/// Binds this thread to one core until it is dropped. Threads and processes that are started meanwhile stay bound.
pub(crate) struct Bound {
    before: CpuSet,
}

impl Bound {
    /// Binds this thread to the core of the load generator, if there is another one for the servers.
    pub(crate) fn to_generator_core() -> Result<Self, Error> {
        let cores = sched_getaffinity(None).map_or(0, |cores| cores.count());
        ensure(cores >= 2, || {
            "the service is measured on two cores, one for the server and one for the generator; there is one"
                .to_owned()
        })?;
        Self::to(GENERATOR_CORE)
    }

    pub(crate) fn to(core: usize) -> Result<Self, Error> {
        let refused = |error| Error::Wrong(format!("a thread cannot be bound to core {core}: {error}"));
        let before = sched_getaffinity(None).map_err(refused)?;
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).map_err(refused)?;
        Ok(Self { before })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Restore the previous affinity.
        let _ = sched_setaffinity(None, &self.before);
    }
}
