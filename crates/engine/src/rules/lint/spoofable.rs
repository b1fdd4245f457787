//! Keys whose values clients choose: a client that is limited by one can send another value.

use std::collections::HashSet;

use super::super::forward_auth::ValueFrom;
use super::super::model::Rule;
use super::keys::{Spoofable, spoofable};
use super::{FindingKind, Linter, Severity};

const KIND: FindingKind = FindingKind::SpoofableKey;

pub(super) fn find(linter: &mut Linter<'_>) {
    if let Some(key) = &linter.domain.tenant
        && let Some(what) = spoofable(key)
    {
        linter.add_to_domain(
            Severity::Warning,
            KIND,
            format!("the tenant is named by {}", message(key, what)),
        );
    }
    let mapped = linter.domain.forward_auth.iter().flat_map(|forward| forward.descriptors.iter().flatten());
    let headers: Vec<String> = mapped
        .filter_map(|entry| match &entry.from {
            ValueFrom::Header(name) if spoofable(&entry.key).is_none() => {
                Some(format!("`forward_auth` takes {} from {}", entry.key, message(name, spoofable(name)?)))
            }
            _ => None,
        })
        .collect();
    for message in headers {
        linter.add_to_domain(Severity::Warning, KIND, message);
    }
    // Rules for several values of a key at one level are reported once.
    let mut reported: HashSet<(Option<*const Rule>, &str)> = HashSet::new();
    let mut found = Vec::new();
    for (index, visit) in linter.rules.iter().enumerate() {
        let key = &visit.rule().key;
        let level = visit.ancestors().last().map(|rule| std::ptr::from_ref::<Rule>(rule));
        if let Some(what) = spoofable(key)
            && reported.insert((level, key))
        {
            found.push((index, format!("limits by {}", message(key, what))));
        }
    }
    for (index, message) in found {
        linter.add(index, Severity::Warning, KIND, message);
    }
}

fn message(key: &str, what: Spoofable) -> String {
    let remedy = match what {
        Spoofable::Address => {
            "use the address that your proxy determines, such as Envoy's remote_address, or make sure that the proxy overwrites the header"
        }
        Spoofable::Identity => {
            "use an id from a verified token or API key, or make sure that the proxy overwrites the header"
        }
    };
    format!("{key}, a header that any client can send with a value of its choice; {remedy}")
}
