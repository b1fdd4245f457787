//! Rules as written in a file or in code: a tree of plain values.
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
    /// The key of the entry whose value names the tenant.
    pub(crate) tenant: Option<String>,
    /// Whether every limit on the matched path applies, not only those of the last entry's rule.
    pub(crate) hierarchical: bool,
    /// The tiers of tenants, by the tenant's name.
    pub(crate) tenants: BTreeMap<String, String>,
    /// The most distinct inline limits of requests; `None` if requests may not have inline limits.
    pub(crate) inline_limits: Option<u64>,
    /// The descriptors of forward-auth requests, which a proxy describes by headers.
    pub(crate) forward_auth: Option<Arc<ForwardAuth>>,
    pub(crate) rules: Vec<Rule>,
    /// Where the domain was defined, for messages: the name of a file, or `code`.
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
    /// The value to match: a pattern if it contains `*`, else exact; `None` for any value.
    pub(crate) value: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) limits: Vec<LimitSpec>,
    /// Whether requests that match are allowed without counting.
    pub(crate) unlimited: bool,
    /// The names of limits that do not apply to a request that matches this rule. Each of `limits` has a list
    /// of its own in addition; an unlimited rule has only this one.
    pub(crate) replaces: Vec<String>,
    /// The changed limits of tiers, by the name of the tier and the name of the limit.
    pub(crate) tiers: BTreeMap<String, BTreeMap<String, TierLimit>>,
    pub(crate) concurrency: Option<Concurrency>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) position: Position,
    /// The percentage of keys for which the rule is enforced. For the others it is in shadow mode.
    pub(crate) enforce_percent: u8,
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) detailed_metric: bool,
    pub(crate) value_to_metric: bool,
    /// Whether all values that match the pattern share one counter.
    pub(crate) share_threshold: bool,
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    /// Whether the values of keys are never shown, only fingerprints of them.
    pub(crate) hide_keys: bool,
    /// The percentages of a limit at which a warning is sent.
    pub(crate) warn_at: Vec<u8>,
    pub(crate) rules: Vec<Rule>,
}

/// Where a rule begins in its file; `None` if it was built in code. All positions compare as equal, so that
/// rules which differ only in their position are equal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position(pub(crate) Option<Place>);

impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a tier has instead of one of the rule's limits.
#[derive(Clone, Debug, PartialEq)]
pub enum TierLimit {
    /// The limit does not apply to the tier.
    Unlimited,
    /// The limit has other numbers for the tier.
    Change(LimitChange),
}

/// A limit on the number of slots held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// The number of slots.
    pub max: u64,
    /// How long a slot may be held without being renewed. After that it becomes free.
    pub timeout: Duration,
}

/// How requests are decided while the shared store fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStoreError {
    /// Allow the request.
    Allow,
    /// Deny the request.
    Deny,
    /// Limit requests in this process to the node's share of the limit.
    #[default]
    Local,
    /// Use one policy at first, and another once the failure has lasted for some time.
    Staged {
        /// The first policy.
        first: StoreErrorStage,
        /// How long the first policy applies.
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
    /// Creates a domain without rules.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), source: CODE.to_owned(), ..Self::default() }
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Makes every limit on a matched path apply, not only those of the last entry's rule.
    #[must_use]
    pub fn hierarchical(mut self) -> Self {
        self.hierarchical = true;
        self
    }

    /// Sets the key of the entry whose value names the tenant.
    #[must_use]
    pub fn tenant_key(mut self, key: &str) -> Self {
        self.tenant = Some(key.to_owned());
        self
    }

    /// Allows inline limits in requests, at most `max` distinct ones.
    #[must_use]
    pub fn inline_limits(mut self, max: u64) -> Self {
        self.inline_limits = Some(max);
        self
    }

    /// Sets the descriptors of forward-auth requests, which a proxy describes by headers.
    #[must_use]
    pub fn forward_auth(mut self, forward_auth: ForwardAuth) -> Self {
        self.forward_auth = Some(Arc::new(forward_auth));
        self
    }

    /// Assigns a tenant to a tier.
    #[must_use]
    pub fn tenant(mut self, tenant: &str, tier: &str) -> Self {
        self.tenants.insert(tenant.to_owned(), tier.to_owned());
        self
    }
}

impl Rule {
    /// Creates a rule for every value of `key`. Each value has counters of its own.
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
            position: Position(None),
            enforce_percent: 100,
            shadow_mode: false,
            quota_mode: false,
            detailed_metric: false,
            value_to_metric: false,
            hide_keys: false,
            warn_at: Vec::new(),
            share_threshold: false,
            metadata: serde_json::Map::new(),
            rules: Vec::new(),
        }
    }

    /// Restricts the rule to one value, or to the values that match a pattern with `*`.
    #[must_use]
    pub fn value(mut self, value: &str) -> Self {
        self.value = Some(value.to_owned());
        self
    }

    /// Sets the name of the rule. A rule without a name is identified by its path, such as `key=value/key`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Adds a limit. All limits of a rule apply together.
    #[must_use]
    pub fn limit(mut self, limit: LimitSpec) -> Self {
        self.limits.push(limit);
        self
    }

    /// Sets how requests are decided while the shared store fails.
    #[must_use]
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.on_store_error = policy;
        self
    }

    /// Limits the number of slots held at once. A slot that is not renewed becomes free after `timeout`.
    #[must_use]
    pub fn concurrency(mut self, max: u64, timeout: Duration) -> Self {
        self.concurrency = Some(Concurrency { max, timeout });
        self
    }

    /// Sets what a tier has instead of the limit with this name.
    #[must_use]
    pub fn tier(mut self, tier: &str, limit: &str, instead: TierLimit) -> Self {
        self.tiers.entry(tier.to_owned()).or_default().insert(limit.to_owned(), instead);
        self
    }

    /// Puts the rule into shadow mode: it is evaluated and counted, but denies nothing.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.shadow_mode = true;
        self
    }

    /// Enforces the rule for this percentage of its keys. For the others it is in shadow mode.
    #[must_use]
    pub fn enforce_percent(mut self, percent: u8) -> Self {
        self.enforce_percent = percent;
        self
    }

    /// Never shows the values of the rule's keys in lists of keys and denials, only fingerprints of them.
    #[must_use]
    pub fn hide_keys(mut self) -> Self {
        self.hide_keys = true;
        self
    }

    /// Warns when a key has used so many percent of a limit, from 1 to 100.
    #[must_use]
    pub fn warn_at(mut self, percentages: impl IntoIterator<Item = u8>) -> Self {
        self.warn_at = percentages.into_iter().collect();
        self
    }

    /// Adds a rule for the next entry of the descriptor.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}
