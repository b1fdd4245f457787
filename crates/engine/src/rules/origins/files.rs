//! Files and folders of rules, read again when they change.

use std::path::PathBuf;

use super::watch::Watch;
use crate::rules::file::{is_rule_file, load_path};
use crate::rules::limit_spec::Defaults;
use crate::rules::model::Domain;
use crate::rules::problem::Problems;

/// How many times files are read if they change during the read, so that the rules are not a mixture of two
/// versions. There is a limit because some files may change all the time.
const READS: usize = 5;

/// The files and folders of a limiter.
pub(crate) struct Files {
    watch: Watch,
}

impl Files {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self { watch: Watch::new(paths) }
    }

    /// Returns whether files have changed since they were read, and are stable.
    pub(crate) fn poll(&mut self) -> bool {
        self.watch.poll()
    }

    /// Returns whether there are only folders without rule files.
    pub(crate) fn are_missing(&self) -> bool {
        let is_empty = |path: &PathBuf| {
            path.is_dir()
                && std::fs::read_dir(path)
                    .is_ok_and(|files| files.flatten().all(|file| !is_rule_file(&file.path())))
        };
        self.watch.paths().iter().all(is_empty)
    }

    /// Reads all files. If any has mistakes, returns all of them.
    pub(crate) fn read(&mut self, defaults: &Defaults) -> Result<Vec<Domain>, Problems> {
        let mut read = self.read_once(defaults);
        for _ in 1..READS {
            if !self.watch.changed() {
                break;
            }
            read = self.read_once(defaults);
        }
        read
    }

    fn read_once(&mut self, defaults: &Defaults) -> Result<Vec<Domain>, Problems> {
        let (mut domains, mut problems) = (Vec::new(), Problems::default());
        self.watch.begin_load();
        for path in self.watch.paths() {
            match load_path(path, defaults) {
                Ok(mut read) => domains.append(&mut read),
                Err(mut found) => problems.0.append(&mut found.0),
            }
        }
        if problems.0.is_empty() { Ok(domains) } else { Err(problems) }
    }
}
