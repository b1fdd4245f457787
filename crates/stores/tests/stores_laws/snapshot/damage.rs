//! Whatever is wrong with a snapshot, it is refused as a whole, with the reason.

use std::fs;

use tidegate_core::VirtualClock;
use tidegate_stores::MemoryStore;
use tidegate_stores::memory::SnapshotError;

use super::small;
use crate::world::{config, snapshot_of};

/// Why the bytes are refused.
#[track_caller]
fn refused(bytes: &[u8]) -> &'static str {
    let restored = MemoryStore::restore_bytes(bytes, config(1_000, &VirtualClock::new()));
    restored.err().expect("damaged bytes are refused")
}

#[test]
fn every_truncation_is_refused_by_name_and_reason() {
    let clock = VirtualClock::new();
    let bytes = snapshot_of(&small(&clock));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut-off");
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).expect("a file");
        match MemoryStore::restore(&path, config(1_000, &clock)) {
            Err(error @ SnapshotError::Refused { reason, .. }) => {
                let text = error.to_string();
                assert!(text.contains(&path.display().to_string()) && text.contains(reason), "{text}");
            }
            Err(error) => panic!("{length} of {} bytes: {error}", bytes.len()),
            Ok(_) => panic!("{length} of {} bytes are accepted", bytes.len()),
        }
    }
}

#[test]
fn every_changed_byte_is_refused() {
    let mut bytes = snapshot_of(&small(&VirtualClock::new()));
    for index in 0..bytes.len() {
        for change in 1..=u8::MAX {
            bytes[index] ^= change;
            let restored = MemoryStore::restore_bytes(&bytes, config(1, &VirtualClock::new()));
            assert!(restored.is_err(), "byte {index} ^ {change:#04x} is accepted");
            bytes[index] ^= change;
        }
    }
}

#[test]
fn what_is_no_snapshot_is_told_from_what_is_damaged() {
    let bytes = snapshot_of(&small(&VirtualClock::new()));
    assert_eq!(refused(b""), "it is too short to be a snapshot");
    assert_eq!(refused(&[0; 1_000]), "it is not a tidegate snapshot");
    let mut other = bytes.clone();
    other[7] ^= 1;
    assert_eq!(refused(&other), "it is not a tidegate snapshot");
    for version in [0_u32, 1, 3, 1 << 24] {
        let mut other = bytes.clone();
        other[8..12].copy_from_slice(&version.to_le_bytes());
        assert_eq!(refused(&other), "it was written by another version of tidegate");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(refused(&longer), "something follows its end");
    let twice = [&bytes[..], &bytes[..]].concat();
    assert_eq!(refused(&twice), "something follows its end");
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    assert_eq!(refused(&damaged), "a checksum does not match, it is damaged");
    assert_eq!(refused(&bytes[..bytes.len() - 1]), "it ends too early, as if it was not written to the end");
}

/// A length that was never written must not be believed: it would claim gigabytes.
#[test]
fn an_impossible_length_claims_no_memory() {
    let bytes = snapshot_of(&small(&VirtualClock::new()));
    for length in [u32::MAX, 1 << 31, (1 << 31) - 1] {
        let mut other = bytes.clone();
        other[36..40].copy_from_slice(&length.to_le_bytes());
        let before = crate::allocation::most_held_bytes();
        refused(&other);
        let most = crate::allocation::most_held_bytes() - before;
        assert!(most < 1 << 20, "{most} bytes were held");
    }
}
