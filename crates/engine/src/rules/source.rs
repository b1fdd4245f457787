//! The sources of rules: code, files and folders, and the catalog.

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

/// How many times files are read if they change during the read, so that the rules are not a mixture of two
/// versions. There is a limit because some files may change all the time.
const READS: usize = 5;

/// Everything that the rules of a limiter are compiled from.
pub(crate) struct Source {
    pub(crate) domains: Vec<Domain>,
    /// Domains that are used only if no other source defines a domain with the same name.
    pub(crate) default_domains: Vec<Domain>,
    pub(crate) defaults: Defaults,
    pub(crate) watch: Watch,
    pub(crate) switches: Switches,
    pub(crate) tenants: Option<Arc<dyn TenantSource>>,
    /// The domains of the files when they were last valid. The files may be invalid when another source
    /// changes.
    files: Vec<Domain>,
    catalog: Vec<Domain>,
}

/// The source that defines a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The program that uses the library.
    Code,
    /// The file with this name.
    File(String),
    /// The catalog.
    Catalog,
}

impl Source {
    pub(crate) fn new(domains: Vec<Domain>, paths: Vec<PathBuf>, defaults: Defaults) -> Self {
        let (files, catalog) = (Vec::new(), Vec::new());
        let (switches, tenants) = (Switches::default(), None);
        let (default_domains, watch) = (Vec::new(), Watch::new(paths));
        Self { domains, default_domains, defaults, watch, switches, tenants, files, catalog }
    }

    /// Returns whether there are no rules: no domains, and only folders without rule files.
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

    /// Reads and compiles all sources. If any has mistakes, returns all of them.
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

    /// Replaces the domains of the catalog and compiles all sources. If there are mistakes, nothing changes.
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

    /// Compiles the sources as they were last loaded, as after a change of a switch. Does not read tenants.
    pub(crate) fn recompile(&self, seed: KeySeed, generation: u64) -> Result<RuleSet, Problems> {
        self.compile(&self.files, &self.catalog, seed, generation)
    }

    /// Returns the domain with this name as it was written, and its source.
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
