//! The fields of a rule that concern the store: `concurrency`, `consistency` and `on_store_error`.

use std::time::Duration;

use tidegate_core::limit::MAX_LOGGED;
use tidegate_core::{Limit, Window};

use super::report::Report;
use super::value::Value;
use super::window::duration_us;
use crate::rules::model::{Concurrency, OnStoreError, StoreErrorStage};
use crate::rules::yaml::Content;

/// Reads `concurrency`.
pub(super) fn concurrency(value: Value<'_>, report: &mut Report) -> Option<Concurrency> {
    let fields = value.fields(&["max", "timeout"], report)?;
    let max = fields
        .required("max", "say how many slots may be held at once", report)
        .and_then(|max| max.whole(1..=MAX_LOGGED, report));
    let timeout = fields.required("timeout", "say when a lost slot returns, as in 60s", report)?;
    let us = duration_us(&timeout, report)?;
    if let Err(error) = Limit::concurrency(max?, Window::Period { us }) {
        timeout.fault(report, error.to_string());
    }
    Some(Concurrency { max: max?, timeout: Duration::from_micros(us) })
}

const STAGES: [(&str, StoreErrorStage); 3] =
    [("allow", StoreErrorStage::Allow), ("deny", StoreErrorStage::Deny), ("local", StoreErrorStage::Local)];

/// Reads `on_store_error`: one policy, or two staged by time.
pub(super) fn on_store_error(value: Value<'_>, report: &mut Report) -> Option<OnStoreError> {
    if !matches!(value.node.content, Content::Mapping(_)) {
        return value.choice(&STAGES, report).map(|stage| match stage {
            StoreErrorStage::Allow => OnStoreError::Allow,
            StoreErrorStage::Deny => OnStoreError::Deny,
            StoreErrorStage::Local => OnStoreError::Local,
        });
    }
    let fields = value.fields(&["first", "after", "then"], report)?;
    let remedy = "write all of `{first: deny, after: 5s, then: local}`";
    let first = fields.required("first", remedy, report).and_then(|value| value.choice(&STAGES, report));
    let after = fields.required("after", remedy, report).and_then(|value| duration_us(&value, report));
    let then = fields.required("then", remedy, report).and_then(|value| value.choice(&STAGES, report));
    Some(OnStoreError::Staged { first: first?, after: Duration::from_micros(after?), then: then? })
}

/// Reads `consistency`. Only `exact` is implemented; the others have a message of their own.
pub(super) fn consistency(value: &Value<'_>, report: &mut Report) {
    match value.node.content {
        Content::Scalar { ref text, .. } if text == "leased" || text == "synced" => {
            value.fault(report, format!("{text} is not built yet; use exact"));
        }
        Content::Scalar { ref text, .. } if text == "exact" => {}
        _ => value.fault(report, format!("must be exact, got {}", value.found())),
    }
}
