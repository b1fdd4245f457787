//! The origins of rules. Each keeps its last good rules.
//!
//! Every change goes through [`Limiter::update`](crate::Limiter::update). The new rules of an origin are compiled
//! together with the last good rules of the others, so a broken origin does not prevent the others from changing. To
//! add an origin, add a variant of [`Origin`] and a caller of `update`. See docs/adr/0019.
//!
//! - [`update`]: what can be changed, and how changes are put in force
//! - [`files`], `watch`: the rule files, the only origin that this crate reads by itself

pub(crate) mod files;
pub mod update;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tidegate_core::KeySeed;

use self::files::Files;
use super::limit_spec::Defaults;
use super::model::Domain;
use super::problem::{Problem, Problems};
use super::tree::RuleSet;
use crate::limiter::Limiter;
use crate::switches::Switches;
use crate::tenants::TenantSource;

/// An origin of rules. A domain belongs to one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The program that uses the library.
    Code,
    /// Files and folders of rules.
    Files,
    /// The catalog of a service.
    Catalog,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Code => "code",
            Self::Files => "files",
            Self::Catalog => "catalog",
        })
    }
}

/// The origin of a domain, and its source there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The origin.
    pub origin: Origin,
    /// The name of the domain's text in messages; for files, the path.
    pub source: String,
}

/// The origins of a limiter, and the locks that order their changes.
pub(crate) struct Origins {
    /// What the rules in force were compiled from. Reading it does not block.
    state: ArcSwap<OriginState>,
    /// Held by every update of rules and tenants from beginning to end, so that updates do not overtake each other.
    /// This may take as long as reading all tenants.
    pub(crate) updating: Mutex<Files>,
    /// Held while rules are put in force. No I/O is done with this lock.
    publishing: Mutex<()>,
    tenants: Option<Arc<dyn TenantSource>>,
}

/// Everything that the rules of a limiter are compiled from.
#[derive(Clone)]
pub(crate) struct OriginState {
    /// The last good rules of each origin.
    last_good: BTreeMap<Origin, Arc<[Domain]>>,
    /// Domains that are used only if no origin defines a domain with the same name.
    default_domains: Arc<[Domain]>,
    pub(crate) defaults: Defaults,
    pub(crate) switches: Switches,
}

impl Origins {
    pub(crate) fn new(state: OriginState, files: Files, tenants: Option<Arc<dyn TenantSource>>) -> Self {
        let state = ArcSwap::from_pointee(state);
        Self { state, updating: Mutex::new(files), publishing: Mutex::default(), tenants }
    }

    /// Returns what the rules in force were compiled from.
    pub(crate) fn state(&self) -> Arc<OriginState> {
        self.state.load_full()
    }

    /// Compiles the first rules, including those of files. If `files` is `None`, there are no rules until files
    /// appear.
    pub(crate) fn start(&self, files: Option<Vec<Domain>>, seed: KeySeed) -> Result<RuleSet, Problems> {
        let Some(files) = files else { return Ok(RuleSet::empty(seed)) };
        let state = self.state().with(Origin::Files, files);
        let mut rules = self.compile(&state, seed)?;
        rules.switch(&state.switches);
        rules.generation = 1;
        self.state.store(Arc::new(state));
        Ok(rules)
    }

    /// Returns whether rule files have changed. Returns false while an update is in progress.
    pub(crate) fn files_changed(&self) -> bool {
        self.updating.try_lock().is_some_and(|mut files| files.poll())
    }

    /// Compiles rules, and reads tenants for them. Switches are applied when the rules are put in force, because they
    /// may change while tenants are read.
    fn compile(&self, state: &OriginState, seed: KeySeed) -> Result<RuleSet, Problems> {
        let mut rules = state.compile(seed)?;
        if let Some(tenants) = &self.tenants {
            rules.read_tenants(&**tenants)?;
        }
        Ok(rules)
    }
}

impl OriginState {
    pub(crate) fn new(
        code: Vec<Domain>,
        default_domains: Vec<Domain>,
        defaults: Defaults,
        switches: Switches,
    ) -> Self {
        let last_good = BTreeMap::from([(Origin::Code, code.into())]);
        Self { last_good, default_domains: default_domains.into(), defaults, switches }
    }

    /// Returns whether no domain is defined.
    pub(crate) fn is_empty(&self) -> bool {
        self.last_good.values().all(|domains| domains.is_empty()) && self.default_domains.is_empty()
    }

    /// Returns this state with the domains of one origin replaced.
    fn with(&self, origin: Origin, domains: Vec<Domain>) -> Self {
        let mut state = self.clone();
        state.last_good.insert(origin, domains.into());
        state
    }

    /// Compiles the last good rules of all origins, without tenants and switches.
    fn compile(&self, seed: KeySeed) -> Result<RuleSet, Problems> {
        let clashes = self.clashes();
        if !clashes.is_empty() {
            return Err(Problems(clashes));
        }
        let mut domains: Vec<Domain> =
            self.last_good.values().flat_map(|domains| domains.iter()).cloned().collect();
        for default in &*self.default_domains {
            if domains.iter().all(|domain| domain.name != default.name) {
                domains.push(default.clone());
            }
        }
        RuleSet::compile(&domains, &self.defaults, seed)
    }

    /// Returns the domain with this name as it was written, and its origin.
    pub(crate) fn find(&self, name: &str) -> Option<(Origin, &Domain)> {
        let domains =
            self.last_good.iter().flat_map(|(origin, domains)| domains.iter().map(|it| (*origin, it)));
        domains.into_iter().find(|(_, domain)| domain.name == name)
    }

    /// Returns a problem for every domain that an earlier origin defines too.
    fn clashes(&self) -> Vec<Problem> {
        let mut clashes = Vec::new();
        for (origin, domains) in &self.last_good {
            for domain in domains.iter() {
                // The first origin that defines the domain.
                let Some((owner, first)) = self.find(&domain.name) else { continue };
                if owner == *origin {
                    continue;
                }
                let message = format!(
                    "domain {:?} is defined in {} already; a domain has one owner: remove it there or from the {origin}",
                    domain.name, first.source
                );
                let (file, field) = (domain.source.clone(), "domain".to_owned());
                clashes.push(Problem { file, place: None, field, message });
            }
        }
        clashes
    }
}

impl Limiter {
    /// Returns the origin that defines a domain, or `None` if there is no such domain.
    pub fn owner_of(&self, domain: &str) -> Option<Owner> {
        let state = self.inner.origins.state();
        state.find(domain).map(|(origin, domain)| Owner { origin, source: domain.source.clone() })
    }
}
