//! The way from a domain's root to a rule.

use super::model::Rule;
use super::pattern::Pattern;

/// The way from the root to a rule.
#[derive(Clone)]
pub(super) struct Path {
    /// As people read it: `key=value/key`.
    pub(super) id: String,
    /// As envoyproxy/ratelimit writes it: `key_value.key`.
    pub(super) dotted: String,
    /// What makes the keys of the rule's counters.
    pub(super) texts: Vec<String>,
    /// Whether the value of each entry on the way tells one counter from another.
    pub(super) varies: Vec<bool>,
}

impl Path {
    /// The path of a domain itself.
    pub(super) fn root(domain: &str) -> Self {
        Self { id: String::new(), dotted: String::new(), texts: vec![domain.to_owned()], varies: Vec::new() }
    }

    /// This path and one rule more. The texts mark what kind each value is, so that the value `*`
    /// and the pattern `*` are two things.
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
