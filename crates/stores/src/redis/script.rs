//! The Lua script that settles batches, assembled from its files.

use std::fmt::Write;
use std::sync::LazyLock;

use tidegate_core::Algorithm;
use tidegate_core::algorithm::{
    WIDE_SCRIPT, arrival, concurrency, fixed_window, sliding_log, sliding_window, sub_windows,
};

const PRELUDE: &str = include_str!("lua/prelude.lua");
const LOAD: &str = include_str!("lua/load.lua");
const DECODE: &str = include_str!("lua/decode.lua");
const STATES: &str = include_str!("lua/states.lua");
const CORRECTIONS: &str = include_str!("lua/corrections.lua");
const REQUESTS: &str = include_str!("lua/requests.lua");
const SETTLE: &str = include_str!("lua/settle.lua");
const WRITE: &str = include_str!("lua/write.lua");

/// The kinds of counters that the script distinguishes, with the number of each in a call.
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
    /// The Lua files for small counters, which operate on the stored values.
    const VALUES: [(Self, &str); 3] = [
        (Self::FixedWindow, fixed_window::VALUE_SCRIPT),
        (Self::SlidingWindow, sliding_window::VALUE_SCRIPT),
        (Self::Bucket, arrival::VALUE_SCRIPT),
    ];

    const ALGORITHMS: [(Self, &str); 6] = [
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

    /// Returns whether many counters of this kind share a hash. Counters of the other kinds have a key each.
    pub(super) fn is_small(self) -> bool {
        self <= Self::Bucket
    }

    /// Returns the letter of the kind in the names of keys.
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

/// The source of the script. A call defines only the functions of the kinds it has counters of, and the rest of the
/// script only if its batch needs it: defining functions costs more than settling a small batch.
pub(super) static CODE: LazyLock<String> = LazyLock::new(|| {
    let mut code = format!("local FIXED_WINDOW = {}\n{PRELUDE}", Kind::FixedWindow as u8);
    add_used("values", &Kind::VALUES, &mut code);
    code.push_str(LOAD);
    code.push_str("if at_length then\nlocal algorithms, read_large, open, has_room, charge\n");
    code.push_str("local function set_up()\nif algorithms then return end\nalgorithms = {}\n");
    code.push_str(WIDE_SCRIPT);
    code.push_str(DECODE);
    add_used("algorithms", &Kind::ALGORITHMS, &mut code);
    // Writing to a string cannot fail.
    let _ = write!(code, "{STATES}end\nif args[7] or args[8] or args[9] then\nset_up()\n{CORRECTIONS}end\n");
    let _ = write!(code, "local function settle_in_order()\n{REQUESTS}end\n{SETTLE}end\n{WRITE}");
    code
});

/// Appends code that fills a Lua table with what each of these files returns, for the kinds that a call uses.
fn add_used(table: &str, files: &[(Kind, &str)], code: &mut String) {
    for (kind, file) in files {
        let number = *kind as u8;
        // Writing to a string cannot fail.
        let _ = writeln!(code, "if used[{number}] then {table}[{number}] = (function()\n{file}end)() end");
    }
}

/// The SHA-1 hash by which servers identify the script.
pub(super) static HASH: LazyLock<String> = LazyLock::new(|| redis::Script::new(&CODE).get_hash().to_owned());
