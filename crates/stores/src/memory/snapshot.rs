//! Saves a store to disk, so that a restart does not reset its counters.
//!
//! ```text
//! header   "TIDEGATE" · version u32 · seed u64 · written_at_us u64 · checksum u64
//! block*   length u32 (> 0) · that many bytes of cells · checksum u64
//! end      0 u32 · number of cells u64 · checksum u64
//! ```
//!
//! All numbers are little-endian. A checksum is XXH3 of the preceding bytes, seeded with the previous checksum, so
//! that blocks can be neither swapped nor left out. The file is written under a temporary name, and renamed when it
//! is complete and on disk.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;
use tidegate_core::algorithm::{concurrency, sliding_log, sub_windows};
use tidegate_core::limit::{MAX_BUCKETS, MAX_LOGGED};
use tidegate_core::{KeySeed, MAX_COUNT, Micros, State};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::cell::{Cell, CellKey, HOME_BITS, Kind};
use super::page::Page;
use super::{MemoryStore, MemoryStoreConfig};

const MAGIC: &[u8; 8] = b"TIDEGATE";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 8 + 4 + 8 + 8;
/// Maximum length of a block. A page of sliding logs may be large, but no block we write is longer than this.
const MAX_BLOCK_BYTES: usize = 1 << 31;

/// Errors of writing or reading a snapshot.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The file could not be read or written.
    #[error("snapshot {path}: {source}")]
    Io {
        /// The path of the snapshot.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a complete snapshot of this program.
    #[error("snapshot {path} is refused: {reason}; move it away to start without it")]
    Refused {
        /// The path of the snapshot.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// A summary of a snapshot that was written or restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Number of counters written or restored.
    pub keys: u64,
    /// When the snapshot was written, by the store's clock.
    pub written_at: Micros,
}

impl MemoryStore {
    /// Writes every live counter to `path`, page by page, while decisions continue. Each counter is written as it was
    /// at some moment during the call.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. A previous file at `path` is kept then.
    pub fn snapshot(&self, path: &Path) -> Result<SnapshotSummary, SnapshotError> {
        let _one_at_a_time = self.snapshotting.lock();
        let fail = |source| SnapshotError::Io { path: path.to_owned(), source };
        let mut beside = path.as_os_str().to_owned();
        beside.push(".partial");
        let beside = PathBuf::from(beside);
        let summary = self.write(&beside).and_then(|summary| {
            std::fs::rename(&beside, path)?;
            sync_folder(path)?;
            Ok(summary)
        });
        if summary.is_err() {
            // Do not let an incomplete snapshot fill the disk. The file may not exist.
            let _ = std::fs::remove_file(&beside);
        }
        summary.map_err(fail)
    }

    fn write(&self, path: &Path) -> io::Result<SnapshotSummary> {
        // Create a new file, so that neither the mode nor a link target of an existing one is inherited.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = BufWriter::with_capacity(1 << 16, options.open(path)?);
        let written_at = self.now();
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&self.seed.0.to_le_bytes());
        header.extend_from_slice(&written_at.0.to_le_bytes());
        let mut checksum = put_summed(&mut file, &header, 0)?;
        let (mut keys, mut block) = (0_u64, Vec::new());
        for shard in &self.shards {
            let mut mark = Some(0);
            while let Some(from) = mark {
                block.clear();
                {
                    let shard = shard.lock();
                    let (page, last) = shard.page_at(from);
                    let live = page.cells().filter(|cell| cell.mark() >= from && !cell.expired(written_at));
                    keys += live.map(|cell| put_cell(&mut block, page, cell)).count() as u64;
                    mark = last.checked_add(1);
                }
                if !block.is_empty() {
                    file.write_all(&(block.len() as u32).to_le_bytes())?;
                    checksum = put_summed(&mut file, &block, checksum)?;
                }
            }
        }
        file.write_all(&0_u32.to_le_bytes())?;
        put_summed(&mut file, &keys.to_le_bytes(), checksum)?;
        file.into_inner()?.sync_all()?;
        Ok(SnapshotSummary { keys, written_at })
    }

    /// Restores a store from the snapshot at `path`. The seed is that of the snapshot; the other settings are those
    /// of `config`. Counters that have expired are dropped, and so are the lightest ones if there are more than
    /// `max_keys`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a complete snapshot. Nothing is restored then.
    pub fn restore(path: &Path, config: MemoryStoreConfig) -> Result<(Self, SnapshotSummary), SnapshotError> {
        let file = File::open(path).map_err(|source| SnapshotError::Io { path: path.to_owned(), source })?;
        Self::read(&mut BufReader::with_capacity(1 << 16, file), config).map_err(|error| match error {
            ReadError::Refused(reason) => SnapshotError::Refused { path: path.to_owned(), reason },
            ReadError::Io(source) => SnapshotError::Io { path: path.to_owned(), source },
        })
    }

    /// Restores a store like [`MemoryStore::restore`], but from bytes. Used by the fuzzer.
    ///
    /// # Errors
    /// Returns the reason the bytes are rejected.
    pub fn restore_bytes(
        mut bytes: &[u8],
        config: MemoryStoreConfig,
    ) -> Result<(Self, SnapshotSummary), &'static str> {
        Self::read(&mut bytes, config).map_err(|error| match error {
            ReadError::Refused(reason) => reason,
            ReadError::Io(_) => "it cannot be read",
        })
    }

    fn read(input: &mut impl Read, config: MemoryStoreConfig) -> Result<(Self, SnapshotSummary), ReadError> {
        let mut header = [0; HEADER_BYTES];
        input.read_exact(&mut header).map_err(|error| ended(error, "it is too short to be a snapshot"))?;
        let mut fields = Fields(&header);
        if fields.take(8)? != MAGIC {
            return Err(ReadError::Refused("it is not a tidegate snapshot"));
        }
        if fields.u32()? != VERSION {
            return Err(ReadError::Refused("it was written by another version of tidegate"));
        }
        let (seed, written_at) = (KeySeed(fields.u64()?), Micros(fields.u64()?));
        let mut checksum = check_summed(input, &header, 0)?;
        let store = Self::new(MemoryStoreConfig { seed, ..config });
        let (now, mut keys) = (store.now(), 0_u64);
        // Cells are read in the order of their marks, so the lightest ones are known only at the end.
        let bounds: Vec<_> = store.shards.iter().map(|shard| shard.lock().bound(usize::MAX, now)).collect();
        let mut block = Vec::new();
        loop {
            let length = u32::from_le_bytes(read_array(input)?) as usize;
            if length == 0 {
                break;
            }
            if length > MAX_BLOCK_BYTES {
                return Err(ReadError::Refused("a block has an impossible length"));
            }
            // The buffer grows with the bytes that are read, so a wrong length cannot allocate memory.
            block.clear();
            let got = input.by_ref().take(length as u64).read_to_end(&mut block)?;
            if got < length {
                return Err(ReadError::Refused("it ends in the middle of a block"));
            }
            checksum = check_summed(input, &block, checksum)?;
            let mut fields = Fields(&block);
            while !fields.0.is_empty() {
                store.put_back(&mut fields, now)?;
                keys += 1;
            }
        }
        let count: [u8; 8] = read_array(input)?;
        check_summed(input, &count, checksum)?;
        if u64::from_le_bytes(count) != keys {
            return Err(ReadError::Refused("it does not hold as many counters as it says"));
        }
        if input.read(&mut [0])? > 0 {
            return Err(ReadError::Refused("something follows its end"));
        }
        for (shard, max_len) in store.shards.iter().zip(bounds) {
            shard.lock().bound(max_len, now);
        }
        let keys = store.stats().keys as u64;
        Ok((store, SnapshotSummary { keys, written_at }))
    }

    /// Adds one counter, unless it has expired.
    fn put_back(&self, fields: &mut Fields<'_>, now: Micros) -> Result<(), ReadError> {
        let key = CellKey { mark: fields.u64()?, home: fields.u16()? };
        let (expires, kind, fill) = (Micros(fields.u64()?), fields.u8()?, fields.u8()?);
        if key.mark == 0 || u32::from(key.home) >> HOME_BITS != 0 {
            return Err(ReadError::Refused("a counter has an impossible key"));
        }
        let kind = match kind {
            0 => Kind::FixedWindow,
            1 => Kind::SlidingWindow,
            2 => Kind::Arrival,
            _ => {
                let state = take_large(kind, fields)?;
                let mut shard = self.shard(key).lock();
                if expires >= now && shard.find(key).slot.is_none() {
                    shard.insert_large(key, now, fill, expires, state);
                }
                return Ok(());
            }
        };
        let (a, b, trace) = (fields.count()?, fields.count()?, fields.u16()?);
        if trace >= 1 << 10 || trace > 0 && kind != Kind::Arrival {
            return Err(ReadError::Refused("a counter has an impossible trace"));
        }
        let cell = Cell::new(key, kind, fill, expires, (a, b, trace));
        let mut shard = self.shard(key).lock();
        if !cell.expired(now) && shard.find(key).slot.is_none() {
            shard.insert(key, now, cell);
        }
        Ok(())
    }
}

enum ReadError {
    Refused(&'static str),
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ended(error, "it ends too early, as if it was not written to the end")
    }
}

fn ended(error: io::Error, reason: &'static str) -> ReadError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Refused(reason),
        _ => ReadError::Io(error),
    }
}

/// Flushes the folder of a file, because a rename is on disk only after that.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn put_summed(output: &mut impl Write, bytes: &[u8], before: u64) -> io::Result<u64> {
    let checksum = xxh3_64_with_seed(bytes, before);
    output.write_all(bytes)?;
    output.write_all(&checksum.to_le_bytes())?;
    Ok(checksum)
}

fn check_summed(input: &mut impl Read, bytes: &[u8], before: u64) -> Result<u64, ReadError> {
    let checksum = xxh3_64_with_seed(bytes, before);
    if u64::from_le_bytes(read_array(input)?) != checksum {
        return Err(ReadError::Refused("a checksum does not match, it is damaged"));
    }
    Ok(checksum)
}

fn read_array<const N: usize>(input: &mut impl Read) -> Result<[u8; N], ReadError> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

const SUB_WINDOWS: u8 = 3;
const SLIDING_LOG: u8 = 4;
const CONCURRENCY: u8 = 5;

fn put_cell(block: &mut Vec<u8>, page: &Page, cell: &Cell) {
    let large = page.large(cell);
    let kind = match large {
        None => cell.kind() as u8,
        Some(State::SubWindows(_)) => SUB_WINDOWS,
        Some(State::SlidingLog(_)) => SLIDING_LOG,
        Some(_) => CONCURRENCY,
    };
    let put = |block: &mut Vec<u8>, number: u64| block.extend_from_slice(&number.to_le_bytes());
    put(block, cell.mark());
    block.extend_from_slice(&cell.key().home.to_le_bytes());
    put(block, cell.expires().0);
    block.extend_from_slice(&[kind, cell.fill()]);
    match large {
        None => {
            put(block, cell.a());
            put(block, cell.b());
            block.extend_from_slice(&cell.trace().to_le_bytes());
        }
        Some(State::SubWindows(state)) => {
            put(block, state.newest);
            put(block, state.counts.len() as u64);
            state.counts.iter().for_each(|count| put(block, *count));
        }
        Some(State::SlidingLog(state)) => {
            put(block, state.stamps.len() as u64);
            for stamp in &state.stamps {
                put(block, stamp.at.0);
                put(block, stamp.cost);
            }
        }
        Some(State::Concurrency(state)) => {
            put(block, state.leases.len() as u64);
            for lease in &state.leases {
                put(block, lease.id);
                put(block, lease.cost);
                put(block, lease.expires.0);
            }
        }
        Some(_) => {}
    }
}

fn take_large(kind: u8, fields: &mut Fields<'_>) -> Result<State, ReadError> {
    match kind {
        SUB_WINDOWS => {
            let newest = fields.u64()?;
            let length = fields.length(u64::from(MAX_BUCKETS))?;
            let counts = (0..length.max(1)).map(|_| fields.count()).collect::<Result<Box<[_]>, _>>()?;
            let total = sum(counts.iter().copied())?;
            Ok(State::SubWindows(sub_windows::State { newest, counts, total }))
        }
        SLIDING_LOG => {
            let length = fields.length(MAX_LOGGED)?;
            let mut log = sliding_log::State::default();
            for _ in 0..length {
                let stamp = sliding_log::Stamp { at: Micros(fields.u64()?), cost: fields.count()? };
                if log.stamps.back().is_some_and(|newest| newest.at >= stamp.at) {
                    return Err(ReadError::Refused("the stamps of a log are out of order"));
                }
                log.stamps.push_back(stamp);
            }
            log.total = sum(log.stamps.iter().map(|stamp| stamp.cost))?;
            Ok(State::SlidingLog(log))
        }
        CONCURRENCY => {
            let length = fields.length(MAX_LOGGED)?;
            let mut state = concurrency::State::default();
            for _ in 0..length {
                let (id, cost, expires) = (fields.u64()?, fields.count()?, Micros(fields.u64()?));
                state.leases.push(concurrency::Lease { id, cost, expires });
            }
            sum(state.leases.iter().map(|lease| lease.cost))?;
            Ok(State::Concurrency(state))
        }
        _ => Err(ReadError::Refused("a counter is of an unknown kind")),
    }
}

fn sum(counts: impl Iterator<Item = u64>) -> Result<u64, ReadError> {
    counts
        .map(u128::from)
        .sum::<u128>()
        .try_into()
        .ok()
        .filter(|total| *total <= MAX_COUNT)
        .ok_or(ReadError::Refused("a counter is impossibly large"))
}

/// The remaining bytes of a block.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], ReadError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(ReadError::Refused("a counter is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, ReadError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, ReadError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, ReadError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ReadError> {
        self.array().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Result<u64, ReadError> {
        let count = self.u64()?;
        if count > MAX_COUNT {
            return Err(ReadError::Refused("a counter is impossibly large"));
        }
        Ok(count)
    }

    fn length(&mut self, most: u64) -> Result<u64, ReadError> {
        let length = self.u64()?;
        if length > most {
            return Err(ReadError::Refused("a counter has impossibly many parts"));
        }
        Ok(length)
    }
}
