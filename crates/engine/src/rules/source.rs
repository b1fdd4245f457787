//! Where rules come from: code, files and folders, and the catalog.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_core::KeySeed;

use super::file::{is_rule_file, load_path};
use super::limit_spec::Defaults;
use super::model::Domain;
use super::problem::{Problem, Problems};
use super::tree::RuleSet;
use super::watch::Watch;
use crate::switches::Switches;
use crate::tenants::TenantSource;

/// Files that change while they are read are read again, so that no rules are a mixture of two
/// versions; this often, for some may never hold still.
const READS: usize = 5;

/// Everything a limiter's rules are made of.
pub(crate) struct Source {
    pub(crate) domains: Vec<Domain>,
    /// In force where nobody else defines a domain of that name.
    pub(crate) default_domains: Vec<Domain>,
    pub(crate) defaults: Defaults,
    pub(crate) watch: Watch,
    pub(crate) switches: Switches,
    pub(crate) tenants: Option<Arc<dyn TenantSource>>,
    /// What the files said when they were last good: they may be broken when something else changes.
    files: Vec<Domain>,
    catalog: Vec<Domain>,
}

/// Whose a domain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The program's that uses the library.
    Code,
    /// This file's.
    File(String),
    /// The catalog's.
    Catalog,
}

impl Source {
    pub(crate) fn new(domains: Vec<Domain>, paths: Vec<PathBuf>, defaults: Defaults) -> Self {
        let (files, catalog) = (Vec::new(), Vec::new());
        let (switches, tenants) = (Switches::default(), None);
        let (default_domains, watch) = (Vec::new(), Watch::new(paths));
        Self { domains, default_domains, defaults, watch, switches, tenants, files, catalog }
    }

    /// Whether there is nothing but folders in which nothing is yet.
    pub(crate) fn is_empty(&self) -> bool {
        let empty = |path: &PathBuf| {
            path.is_dir()
                && std::fs::read_dir(path)
                    .is_ok_and(|files| files.flatten().all(|file| !is_rule_file(&file.path())))
        };
        self.domains.is_empty()
            && self.default_domains.is_empty()
            && self.catalog.is_empty()
            && self.watch.paths().iter().all(empty)
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
        let files = read?;
        let rules = self.compile_with_tenants(&files, &self.catalog, seed, generation)?;
        self.files = files;
        Ok(rules)
    }

    /// Takes these domains from the catalog instead of those before, if all is well with them.
    pub(crate) fn take_catalog(
        &mut self,
        catalog: Vec<Domain>,
        seed: KeySeed,
        generation: u64,
    ) -> Result<RuleSet, Problems> {
        let rules = self.compile_with_tenants(&self.files, &catalog, seed, generation)?;
        self.catalog = catalog;
        Ok(rules)
    }

    /// Compiles what was loaded last once more, as after a switch was thrown; without tenants.
    pub(crate) fn recompile(&self, seed: KeySeed, generation: u64) -> Result<RuleSet, Problems> {
        self.compile(&self.files, &self.catalog, seed, generation)
    }

    /// The domain of that name as it was written, and whose it is.
    pub(crate) fn find(&self, name: &str) -> Option<(Owner, &Domain)> {
        let of = |domains: &'_ [Domain]| domains.iter().position(|domain| domain.name == name);
        let code = of(&self.domains).map(|at| (Owner::Code, &self.domains[at]));
        let file = || of(&self.files).map(|at| (Owner::File(self.files[at].source.clone()), &self.files[at]));
        let catalog = || of(&self.catalog).map(|at| (Owner::Catalog, &self.catalog[at]));
        code.or_else(file).or_else(catalog)
    }

    fn compile_with_tenants(
        &self,
        files: &[Domain],
        catalog: &[Domain],
        seed: KeySeed,
        generation: u64,
    ) -> Result<RuleSet, Problems> {
        let mut rules = self.compile(files, catalog, seed, generation)?;
        if let Some(tenants) = &self.tenants {
            rules.read_tenants(&**tenants)?;
        }
        Ok(rules)
    }

    fn compile(
        &self,
        files: &[Domain],
        catalog: &[Domain],
        seed: KeySeed,
        generation: u64,
    ) -> Result<RuleSet, Problems> {
        let others = || self.domains.iter().chain(files);
        let clash = |domain: &Domain| {
            let other = others().find(|other| other.name == domain.name)?;
            let message = format!(
                "domain {:?} is defined in {} already; a domain has one owner: remove it there or from the catalog",
                domain.name, other.source
            );
            Some(Problem { file: domain.source.clone(), place: None, field: "domain".to_owned(), message })
        };
        let clashes: Vec<Problem> = catalog.iter().filter_map(clash).collect();
        if !clashes.is_empty() {
            return Err(Problems(clashes));
        }
        let mut domains: Vec<Domain> = others().chain(catalog).cloned().collect();
        for default in &self.default_domains {
            if domains.iter().all(|domain| domain.name != default.name) {
                domains.push(default.clone());
            }
        }
        let mut rules = RuleSet::compile(&domains, &self.defaults, seed, generation)?;
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
