//! Where rules come from: code, files and folders.

use std::path::PathBuf;

use tidegate_core::KeySeed;

use super::file::{is_rule_file, load_path};
use super::limit_spec::Defaults;
use super::model::Domain;
use super::problem::Problems;
use super::tree::RuleSet;
use super::watch::Watch;

/// Files that change while they are read are read again, so that no rules are a mixture of two
/// versions; this often, for some may never hold still.
const READS: usize = 5;

/// Everything a limiter's rules are made of.
pub(crate) struct Source {
    pub(crate) domains: Vec<Domain>,
    pub(crate) defaults: Defaults,
    pub(crate) watch: Watch,
}

impl Source {
    pub(crate) fn new(domains: Vec<Domain>, paths: Vec<PathBuf>, defaults: Defaults) -> Self {
        Self { domains, defaults, watch: Watch::new(paths) }
    }

    /// Whether there is nothing but folders in which nothing is yet.
    pub(crate) fn is_empty(&self) -> bool {
        let empty = |path: &PathBuf| {
            path.is_dir()
                && std::fs::read_dir(path)
                    .is_ok_and(|files| files.flatten().all(|file| !is_rule_file(&file.path())))
        };
        self.domains.is_empty() && self.watch.paths().iter().all(empty)
    }

    /// Reads and compiles all of it, or says everything that is wrong.
    pub(crate) fn load(&mut self, seed: KeySeed, generation: u64) -> Result<RuleSet, Problems> {
        let mut read = self.read();
        for _ in 1..READS {
            if !self.watch.changed() {
                break;
            }
            read = self.read();
        }
        let mut domains = self.domains.clone();
        domains.append(&mut read?);
        RuleSet::compile(&domains, &self.defaults, seed, generation)
    }

    fn read(&mut self) -> Result<Vec<Domain>, Problems> {
        let mut domains = Vec::new();
        let mut problems = Problems::default();
        self.watch.begin_load();
        for path in self.watch.paths() {
            match load_path(path, &self.defaults) {
                Ok(mut read) => domains.append(&mut read),
                Err(mut found) => problems.0.append(&mut found.0),
            }
        }
        if problems.0.is_empty() { Ok(domains) } else { Err(problems) }
    }
}
