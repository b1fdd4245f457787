//! The path from the root of a domain to a rule.

use super::model::Rule;
use super::pattern::Pattern;

/// The path from the root of a domain to a rule.
#[derive(Clone)]
pub(super) struct Path {
    /// The path in our notation: `key=value/key`.
    pub(super) id: String,
    /// The path in the notation of envoyproxy/ratelimit: `key_value.key`.
    pub(super) dotted: String,
    /// The texts that the keys of the rule's counters are built from.
    pub(super) texts: Vec<String>,
    /// For each entry on the path, whether each of its values has counters of its own.
    pub(super) varies: Vec<bool>,
}

impl Path {
    /// Returns the path of a domain.
    pub(super) fn root(domain: &str) -> Self {
        Self { id: String::new(), dotted: String::new(), texts: vec![domain.to_owned()], varies: Vec::new() }
    }

    /// Returns this path extended by a rule. The texts include the kind of each value, so that the exact
    /// value `*` and the pattern `*` are distinct.
    pub(super) fn with(&self, rule: &Rule) -> Self {
        let mut path = self.clone();
        if !path.id.is_empty() {
            path.id.push('/');
            path.dotted.push('.');
        }
        path.id.push_str(&rule.key);
        path.dotted.push_str(&rule.key);
        path.texts.push(rule.key.clone());
        match rule.value.as_deref().filter(|value| !value.is_empty()) {
            None => {
                path.texts.push("any".to_owned());
                path.varies.push(true);
            }
            Some(value) => {
                path.id.push('=');
                path.id.push_str(value);
                path.dotted.push('_');
                path.dotted.push_str(value);
                let pattern = Pattern::is_pattern(value);
                path.texts.push(if pattern { "pattern" } else { "exact" }.to_owned());
                path.texts.push(value.to_owned());
                path.varies.push(pattern && !rule.share_threshold);
            }
        }
        path
    }
}
