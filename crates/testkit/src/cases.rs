//! Settings for property tests: the number of random cases, and where failing inputs are kept.

use std::any::Any;
use std::path::Path;

use proptest::test_runner::{Config, FailurePersistence, FileFailurePersistence, PersistedSeed};

/// Returns settings for a property test of `count` random cases; `TIDEGATE_SOAK=100` runs a hundred times as many.
///
/// The seed of a failing case is written to a file in `proptest-regressions`, a folder next to that of the test
/// program, and is run first from then on. Commit these files. [`Config::source_file`] determines the file; the macro
/// `proptest!` sets it.
///
/// # Panics
///
/// Panics if `TIDEGATE_SOAK` is not a number.
pub fn cases(count: u32) -> Config {
    let soak: u32 = std::env::var("TIDEGATE_SOAK").map_or(1, |times| times.parse().expect("a number"));
    Config { cases: count * soak, failure_persistence: Some(Box::new(Regressions)), ..Config::default() }
}

/// Finds proptest's own files at the same path wherever the test runs.
///
/// The compiler names source files relative to the root of the workspace, but cargo runs tests in the folder of their
/// crate. Proptest accounts for that when it reads seeds, but not when it writes them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Regressions;

impl FailurePersistence for Regressions {
    fn load_persisted_failures2(&self, source_file: Option<&'static str>) -> Vec<PersistedSeed> {
        FileFailurePersistence::default().load_persisted_failures2(source_file.map(from_root))
    }

    fn save_persisted_failure2(
        &mut self,
        source_file: Option<&'static str>,
        seed: PersistedSeed,
        shrunken_value: &dyn std::fmt::Debug,
    ) {
        let mut files = FileFailurePersistence::default();
        files.save_persisted_failure2(source_file.map(from_root), seed, shrunken_value);
    }

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(*self)
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other.as_any().is::<Self>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the absolute path of a source file. It is leaked, a few bytes per property, because proptest requires a
/// `&'static str`.
fn from_root(source_file: &'static str) -> &'static str {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/testkit");
    root.join(source_file).display().to_string().leak()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use proptest::test_runner::{Config, TestRunner};

    use super::{cases, from_root};

    #[test]
    fn an_input_that_broke_a_property_is_tried_first_from_then_on() {
        let kept = from_root("crates/testkit/proptest-regressions/only_in_a_test.txt");
        let _ = fs::remove_file(kept);
        let settings = Config { source_file: Some("crates/testkit/src/only_in_a_test.rs"), ..cases(64) };
        let broken = catch_unwind(AssertUnwindSafe(|| {
            TestRunner::new(settings.clone()).run(&(0..1_000_000_u32), |number| {
                assert!(number < 500_000, "it is large");
                Ok(())
            })
        }));
        assert!(broken.expect("it is told").is_err());
        let first = Cell::new(None);
        let passed = TestRunner::new(settings).run(&(0..1_000_000_u32), |number| {
            first.set(first.get().or(Some(number)));
            Ok(())
        });
        let seeds = fs::read_to_string(kept);
        let _ = fs::remove_file(kept);
        let _ = fs::remove_dir(from_root("crates/testkit/proptest-regressions"));
        passed.expect("it holds now");
        assert!(seeds.expect("the seed is kept").contains("shrinks to 500000"));
        assert!(first.get() >= Some(500_000), "{first:?}");
    }
}
