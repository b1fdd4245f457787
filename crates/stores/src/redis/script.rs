//! The script that settles batches, put together from its parts.

use std::fmt::Write;
use std::sync::LazyLock;

use tidegate_core::Algorithm;
use tidegate_core::algorithm::{
    WIDE_SCRIPT, arrival, concurrency, fixed_window, sliding_log, sliding_window, sub_windows,
};

const PRELUDE: &str = include_str!("prelude.lua");
const SETTLE: &str = include_str!("settle.lua");

/// Which of the scripts settles a limit, by the number it goes by there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    FixedWindow = 1,
    SlidingWindow = 2,
    Bucket = 3,
    SubWindows = 4,
    SlidingLog = 5,
    Concurrency = 6,
}

impl Kind {
    const ALL: [(Self, &str); 6] = [
        (Self::FixedWindow, fixed_window::SCRIPT),
        (Self::SlidingWindow, sliding_window::SCRIPT),
        (Self::Bucket, arrival::SCRIPT),
        (Self::SubWindows, sub_windows::SCRIPT),
        (Self::SlidingLog, sliding_log::SCRIPT),
        (Self::Concurrency, concurrency::SCRIPT),
    ];

    pub(super) fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::FixedWindow => Self::FixedWindow,
            Algorithm::SlidingWindow => Self::SlidingWindow,
            Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => Self::Bucket,
            Algorithm::SubWindows { .. } => Self::SubWindows,
            Algorithm::SlidingLog => Self::SlidingLog,
            Algorithm::Concurrency => Self::Concurrency,
        }
    }

    /// Whether many counters of this kind share a hash; the others have a key each.
    pub(super) fn is_small(self) -> bool {
        self <= Self::Bucket
    }

    /// The letter it has in the names of keys.
    pub(super) fn letter(self) -> char {
        match self {
            Self::FixedWindow => 'f',
            Self::SlidingWindow => 's',
            Self::Bucket => 'b',
            Self::SubWindows => 'w',
            Self::SlidingLog => 'l',
            Self::Concurrency => 'c',
        }
    }
}

/// The whole script. Of the algorithms, only those that a batch needs are set up when it runs.
pub(super) static CODE: LazyLock<String> = LazyLock::new(|| {
    let mut code = format!("{PRELUDE}{WIDE_SCRIPT}\nlocal FIXED_WINDOW = 1\n");
    for (kind, script) in Kind::ALL {
        let number = kind as u8;
        // Writing to a string cannot fail.
        let _ =
            write!(code, "if used[{number}] then algorithms[{number}] = (function()\n{script}end)() end\n");
    }
    code.push_str(SETTLE);
    code
});

/// What servers know it by.
pub(super) static HASH: LazyLock<String> = LazyLock::new(|| redis::Script::new(&CODE).get_hash().to_owned());
