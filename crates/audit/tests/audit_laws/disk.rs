//! Disks that become full or read-only while records are written.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use tempfile::{TempDir, tempdir};
use tidegate_audit::{Settings, Trail};

use crate::support::{DEADLINE, change, close, denial, open, settings, until, whole};

/// No call takes this long, however slow the machine is. A call that waits for the disk would never return.
const LONG: Duration = Duration::from_secs(10);

/// A separate disk in memory.
struct Disk {
    at: TempDir,
}

impl Disk {
    fn new(kilobytes: u32) -> Self {
        let at = tempdir().expect("a folder");
        let size = format!("size={kilobytes}k\0");
        let size = std::ffi::CStr::from_bytes_with_nul(size.as_bytes()).expect("one nul");
        if let Err(error) = mount("tmpfs", at.path(), "tmpfs", MountFlags::empty(), size) {
            panic!(
                "this test mounts a small tmpfs, and may not ({error}): run it as root, or as the root of a \
                 namespace with `unshare --map-root-user --mount cargo test -p tidegate-audit`"
            );
        }
        Self { at }
    }

    fn audit(&self) -> PathBuf {
        self.at.path().join("audit")
    }

    /// Fills the disk with a file. Removing the file frees it again.
    fn fill(&self) -> PathBuf {
        let ballast = self.at.path().join("ballast");
        for size in [1 << 16, 1 << 12, 1] {
            use std::io::Write;
            let mut file = fs::File::options().create(true).append(true).open(&ballast).expect("a file");
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
        ballast
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.at.path(), UnmountFlags::DETACH);
    }
}

/// Records until the trail reports dropped records. No call may take long.
fn record_until_dropped(trail: &Trail) -> u64 {
    let mut recorded = 0;
    #[expect(clippy::disallowed_methods, reason = "how long a call takes is what is asked here")]
    let began = Instant::now();
    while trail.dropped().buffer_full.changes < 100 {
        trail.record(denial(recorded));
        trail.record(change(recorded));
        recorded += 2;
        assert!(began.elapsed() < DEADLINE, "the buffer fills");
    }
    recorded
}

#[expect(clippy::disallowed_methods, reason = "how long a call takes is what is asked here")]
fn calls_return(trail: &Trail) {
    for number in 0..10_000 {
        let began = Instant::now();
        trail.record(change(number));
        assert!(began.elapsed() < LONG, "a call waited for the disk");
    }
}

fn small() -> Settings {
    Settings { buffer_records: 1000, segment_bytes: 64 << 10, ..settings() }
}

#[test]
fn a_full_disk_costs_records_that_are_counted_and_no_time_and_the_trail_goes_on() {
    let disk = Disk::new(1024);
    let trail = open(&disk.audit(), &small());
    trail.record(change(0));
    until("the first is written", || trail.written() == 1);
    let ballast = disk.fill();
    let recorded = record_until_dropped(&trail);
    calls_return(&trail);
    assert!(trail.failing().is_some_and(|why| why.contains("space")), "{:?}", trail.failing());
    let before = trail.written();

    fs::remove_file(&ballast).unwrap();
    until("it goes on", || trail.failing().is_none() && trail.written() > before);
    until("the buffer is empty", || trail.waiting() == 0);
    trail.record(change(1));
    close(&trail);

    let (summary, dropped) = (whole(&disk.audit()), trail.dropped());
    assert_eq!(trail.written() + dropped.total(), recorded + 10_000 + 2);
    assert_eq!((summary.records, summary.missing), (trail.written(), dropped.buffer_full));
    assert_eq!((summary.cuts, summary.lost), (0, 0), "no half line stays behind");
}

#[test]
fn a_trail_that_begins_on_a_full_disk_begins_once_there_is_room() {
    let disk = Disk::new(256);
    let ballast = disk.fill();
    let folder = disk.at.path().join("audit");
    let trail = open(&folder, &small());
    trail.record(change(1));
    until("it fails", || trail.failing().is_some());
    fs::remove_file(ballast).unwrap();
    close(&trail);
    assert_eq!(whole(&folder).records, 1);
}

#[test]
fn a_trail_that_fills_its_disk_by_itself_keeps_the_chain_whole() {
    let disk = Disk::new(512);
    let settings = Settings { total_bytes: 1 << 30, ..small() };
    let trail = open(&disk.audit(), &settings);
    until("it fails", || {
        (0..100).for_each(|number| trail.record(change(number)));
        trail.failing().is_some()
    });
    assert!(!trail.close(Duration::ZERO));
    assert!(trail.dropped().unwritten.total() > 0);
    drop(trail);
    let before = whole(&disk.audit());
    let trail = open(&disk.audit(), &settings);
    until("it is still full", || {
        (0..100).for_each(|number| trail.record(change(number)));
        trail.failing().is_some()
    });
    assert!(whole(&disk.audit()).records >= before.records);
}

#[test]
fn a_disk_that_turns_read_only_and_back_costs_nothing_that_fits_the_buffer() {
    let disk = Disk::new(1024);
    let trail = open(&disk.audit(), &Settings { segment_bytes: 1000, ..settings() });
    trail.record(change(1));
    until("the first is written", || trail.written() == 1);
    // A file that is open for writing keeps a disk from turning, so a read-only view goes on top of it:
    // the open segment is still written, and the next cannot be begun.
    let view = ReadOnly::of(disk.at.path());
    for number in 2..=20 {
        trail.record(change(number));
    }
    until("it fails", || trail.failing().is_some());
    drop(view);
    close(&trail);
    assert_eq!((whole(&disk.audit()).records, trail.dropped().total()), (20, 0));
}

/// A read-only mount on top of a folder: files that are opened through it cannot be written.
struct ReadOnly(PathBuf);

impl ReadOnly {
    fn of(path: &Path) -> Self {
        let flags = MountFlags::BIND;
        rustix::mount::mount_bind(path, path).expect("a mount of a mount");
        mount_remount(path, flags | MountFlags::RDONLY, c"").expect("it turns read-only");
        Self(path.to_owned())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).expect("it turns back");
    }
}
