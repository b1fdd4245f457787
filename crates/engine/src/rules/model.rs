//! Rules as somebody wrote them, in a file or in code: a tree of plain values.
//!
//! ```
//! use tidegate::{Domain, Rule, per_day, per_minute};
//!
//! let api = Domain::new("api").rule(
//!     Rule::by("api_key")
//!         .limit(per_minute(100).burst(20))
//!         .limit(per_day(50_000))
//!         .rule(Rule::by("endpoint").value("POST /orders").limit(per_minute(20))),
//! );
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::forward_auth::ForwardAuth;
use super::limit_spec::{LimitChange, LimitSpec};
use super::problem::Place;

/// The source of a domain that was built in code.
pub(crate) const CODE: &str = "code";

/// A namespace of rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Domain {
    pub(crate) name: String,
    /// Which entry's value names the tenant.
    pub(crate) tenant: Option<String>,
    /// Whether every limit on the matched path applies, not only the leaf's.
    pub(crate) hierarchical: bool,
    /// Which tenant is on which tier.
    pub(crate) tenants: BTreeMap<String, String>,
    /// How many distinct inline limits requests may bring; none where absent.
    pub(crate) inline_limits: Option<u64>,
    /// What is asked about requests that a proxy describes by headers.
    pub(crate) forward_auth: Option<Arc<ForwardAuth>>,
    pub(crate) rules: Vec<Rule>,
    /// Where the domain was defined, for messages: a file's name, or `code`.
    pub(crate) source: String,
}

/// A node of the descriptor tree: which requests get which limits.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the rule file, independent of the others"
)]
pub struct Rule {
    pub(crate) key: String,
    /// The value to match: exact, or a wildcard where it contains `*`; any where absent.
    pub(crate) value: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) limits: Vec<LimitSpec>,
    /// The rule matches, and nothing is counted.
    pub(crate) unlimited: bool,
    /// Limits of these names do not apply to a request that matches this rule; each of `limits` has
    /// a list of its own besides. An unlimited rule has only this one.
    pub(crate) replaces: Vec<String>,
    /// Tier name, limit name, what the tier has instead.
    pub(crate) tiers: BTreeMap<String, BTreeMap<String, TierLimit>>,
    pub(crate) concurrency: Option<Concurrency>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) written: Written,
    /// How many percent of the keys are enforced; the rest is shadow.
    pub(crate) enforce_percent: u8,
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) detailed_metric: bool,
    pub(crate) value_to_metric: bool,
    /// All values that match the wildcard share one counter.
    pub(crate) share_threshold: bool,
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    pub(crate) rules: Vec<Rule>,
}

/// Where a rule begins in its file; `None` where it was built in code. It is no part of what the rule
/// says, so rules that differ in it alone are equal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written(pub(crate) Option<Place>);

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a tier has in place of one of the rule's limits.
#[derive(Clone, Debug, PartialEq)]
pub enum TierLimit {
    /// No limit of that name.
    Unlimited,
    /// Other numbers.
    Change(LimitChange),
}

/// At most `max` holders at once, each for `timeout` unless it renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Holders at once.
    pub max: u64,
    /// When a slot that is neither renewed nor released returns.
    pub timeout: Duration,
}

/// What to answer while the store cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStoreError {
    /// Let the request pass.
    Allow,
    /// Deny it.
    Deny,
    /// Limit it in-process to this node's share.
    #[default]
    Local,
    /// One policy at first, another once the trouble has lasted.
    Staged {
        /// The first policy.
        first: StoreErrorStage,
        /// How long it holds.
        after: Duration,
        /// The policy after that.
        then: StoreErrorStage,
    },
}

/// One policy of a staged [`OnStoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "described in OnStoreError")]
pub enum StoreErrorStage {
    Allow,
    Deny,
    Local,
}

impl Domain {
    /// An empty domain.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), source: CODE.to_owned(), ..Self::default() }
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Makes every limit on a matched path apply, not only the leaf's.
    #[must_use]
    pub fn hierarchical(mut self) -> Self {
        self.hierarchical = true;
        self
    }

    /// Says which entry's value names the tenant.
    #[must_use]
    pub fn tenant_key(mut self, key: &str) -> Self {
        self.tenant = Some(key.to_owned());
        self
    }

    /// Lets requests bring limits of their own, at most so many different ones.
    #[must_use]
    pub fn inline_limits(mut self, max: u64) -> Self {
        self.inline_limits = Some(max);
        self
    }

    /// Says what is asked about requests that a proxy describes by headers.
    #[must_use]
    pub fn forward_auth(mut self, forward_auth: ForwardAuth) -> Self {
        self.forward_auth = Some(Arc::new(forward_auth));
        self
    }

    /// Puts a tenant on a tier.
    #[must_use]
    pub fn tenant(mut self, tenant: &str, tier: &str) -> Self {
        self.tenants.insert(tenant.to_owned(), tier.to_owned());
        self
    }
}

impl Rule {
    /// A rule for every value of `key`, each with its own counters.
    pub fn by(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: None,
            name: None,
            limits: Vec::new(),
            unlimited: false,
            replaces: Vec::new(),
            tiers: BTreeMap::new(),
            concurrency: None,
            on_store_error: OnStoreError::default(),
            written: Written(None),
            enforce_percent: 100,
            shadow_mode: false,
            quota_mode: false,
            detailed_metric: false,
            value_to_metric: false,
            share_threshold: false,
            metadata: serde_json::Map::new(),
            rules: Vec::new(),
        }
    }

    /// Narrows the rule to one value, or to those that match a pattern with `*` in it.
    #[must_use]
    pub fn value(mut self, value: &str) -> Self {
        self.value = Some(value.to_owned());
        self
    }

    /// Names the rule; without a name it goes by its path, `key=value/key`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Adds a limit; all limits of a rule apply together.
    #[must_use]
    pub fn limit(mut self, limit: LimitSpec) -> Self {
        self.limits.push(limit);
        self
    }

    /// What to do while the store that nodes share fails.
    #[must_use]
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.on_store_error = policy;
        self
    }

    /// Adds a limit on holders at once.
    #[must_use]
    pub fn concurrency(mut self, max: u64, timeout: Duration) -> Self {
        self.concurrency = Some(Concurrency { max, timeout });
        self
    }

    /// Says what a tier has in place of the limit of that name.
    #[must_use]
    pub fn tier(mut self, tier: &str, limit: &str, instead: TierLimit) -> Self {
        self.tiers.entry(tier.to_owned()).or_default().insert(limit.to_owned(), instead);
        self
    }

    /// Evaluates and counts, never denies.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.shadow_mode = true;
        self
    }

    /// Enforces the rule for this many percent of its keys; the rest is shadow.
    #[must_use]
    pub fn enforce_percent(mut self, percent: u8) -> Self {
        self.enforce_percent = percent;
        self
    }

    /// Adds a rule for the next entry of the descriptor.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}
