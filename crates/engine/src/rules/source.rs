//! Where rules come from: code, files and folders.

use std::path::PathBuf;

use tidegate_core::KeySeed;

use super::file::{is_rule_file, load_path};
use super::limit_spec::Defaults;
use super::model::Domain;
use super::problem::Problems;
use super::tree::RuleSet;
use super::watch::Watch;
use crate::switches::Switches;

/// Files that change while they are read are read again, so that no rules are a mixture of two
/// versions; this often, for some may never hold still.
const READS: usize = 5;

/// Everything a limiter's rules are made of.
pub(crate) struct Source {
    pub(crate) domains: Vec<Domain>,
    pub(crate) defaults: Defaults,
    pub(crate) watch: Watch,
    pub(crate) switches: Switches,
    /// What was compiled last, for when a switch is thrown: files may be broken just then.
    last_good: Vec<Domain>,
}

impl Source {
    pub(crate) fn new(domains: Vec<Domain>, paths: Vec<PathBuf>, defaults: Defaults) -> Self {
        let (switches, last_good) = (Switches::default(), Vec::new());
        Self { domains, defaults, watch: Watch::new(paths), switches, last_good }
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
        let rules = self.compile(&domains, seed, generation)?;
        self.last_good = domains;
        Ok(rules)
    }

    /// Compiles what was loaded last once more, as after a switch was thrown.
    pub(crate) fn recompile(&self, seed: KeySeed, generation: u64) -> Result<RuleSet, Problems> {
        self.compile(&self.last_good, seed, generation)
    }

    fn compile(&self, domains: &[Domain], seed: KeySeed, generation: u64) -> Result<RuleSet, Problems> {
        let mut rules = RuleSet::compile(domains, &self.defaults, seed, generation)?;
        rules.switch(&self.switches);
        Ok(rules)
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
