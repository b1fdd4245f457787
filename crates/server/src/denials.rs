//! Records a sample of denials in the audit trail, without delaying decisions.

use std::sync::Arc;

use tidegate::{Decision, Limiter, Request};
use tidegate_audit::{Denial, Sampler, Trail};

/// Records a sample of denials. Clones share their state.
#[derive(Clone, Default)]
pub struct Denials(Option<Arc<Inner>>);

struct Inner {
    trail: Trail,
    sampler: Sampler,
    descriptors: bool,
    node: String,
}

impl Denials {
    /// Records at most `per_second` denials per second, with the values of the entries if `descriptors` is true.
    pub fn new(trail: Trail, per_second: u32, descriptors: bool, node: String) -> Self {
        let sampler = Sampler::new(per_second);
        Self((per_second > 0).then(|| Arc::new(Inner { trail, sampler, descriptors, node })))
    }

    /// Records a decision if it is a denial.
    #[inline]
    pub fn note(&self, limiter: &Limiter, request: &Request<'_>, decision: &Decision) {
        if !decision.allowed()
            && let Some(inner) = &self.0
        {
            inner.note(limiter, request, decision);
        }
    }
}

impl Inner {
    #[cold]
    #[inline(never)]
    fn note(&self, limiter: &Limiter, request: &Request<'_>, decision: &Decision) {
        let at = limiter.now();
        let (Some(unsampled), Some(by)) = (self.sampler.sample(at), decision.decided_by()) else { return };
        let entries = || {
            let descriptor = by.descriptor.and_then(|descriptor| request.descriptors().nth(descriptor));
            let entries = descriptor.map(|(entries, _)| entries.iter());
            entries
                .into_iter()
                .flatten()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        self.trail.record(Denial {
            at,
            domain: request.domain().to_owned(),
            rule: by.rule.to_owned(),
            limit: by.name.to_owned(),
            descriptor: self.descriptors.then(entries),
            unsampled,
            node: self.node.clone(),
        });
    }
}
