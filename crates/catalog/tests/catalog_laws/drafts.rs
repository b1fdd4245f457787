//! What is refused before any database is asked, each by the name of its field.

use tidegate_catalog::{Error, OverrideDraft, TenantDraft};

use crate::world::{at, requests, tier, with};

fn refused(draft: &TenantDraft) -> (String, String) {
    match draft.check() {
        Err(Error::Invalid { field, reason }) => (field, reason),
        other => panic!("{draft:?} gives {other:?}"),
    }
}

/// The field that is refused, of the second of two overrides.
fn field_of(second: OverrideDraft) -> String {
    let first = OverrideDraft { descriptor: "other".to_owned(), ..requests(1) };
    let (field, _) = refused(&with(vec![first, second]));
    field.strip_prefix("overrides[1].").unwrap_or_else(|| panic!("{field}")).to_owned()
}

#[test]
fn numbers_out_of_range_are_refused() {
    const MOST: i64 = 1 << 53;
    for fine in [requests(0), requests(MOST), OverrideDraft { burst: Some(MOST), ..requests(1) }] {
        with(vec![fine]).check().unwrap();
    }
    for wrong in [-1, MOST + 1, i64::MIN, i64::MAX] {
        assert_eq!(field_of(requests(wrong)), "requests_per_unit");
    }
    for wrong in [-1, 0, MOST + 1] {
        assert_eq!(field_of(OverrideDraft { burst: Some(wrong), ..requests(1) }), "burst");
    }
    for wrong in [-1, 0, i64::MAX] {
        assert_eq!(field_of(OverrideDraft { duration_us: Some(wrong), ..requests(1) }), "duration");
    }
    let (field, reason) = refused(&with(vec![requests(-5)]));
    assert_eq!(
        format!("{field}: {reason}"),
        "overrides[0].requests_per_unit: must be from 0 to 9007199254740992, got -5"
    );
}

#[test]
fn what_does_not_go_together_is_refused() {
    let text = |text: &str| Some(text.to_owned());
    let unlimited = || OverrideDraft { unlimited: true, ..OverrideDraft::default() };
    with(vec![unlimited()]).check().unwrap();
    assert_eq!(field_of(OverrideDraft::default()), "requests_per_unit");
    assert_eq!(field_of(OverrideDraft { requests: Some(1), ..unlimited() }), "requests_per_unit");
    assert_eq!(field_of(OverrideDraft { unit: text("day"), ..unlimited() }), "unit");
    assert_eq!(field_of(OverrideDraft { burst: Some(1), ..unlimited() }), "burst");
    assert_eq!(field_of(OverrideDraft { unit: text("fortnight"), ..requests(1) }), "unit");
    let both = OverrideDraft { unit: text("day"), duration_us: Some(1), ..requests(1) };
    assert_eq!(field_of(both), "duration");
    assert_eq!(field_of(OverrideDraft { algorithm: text("magic"), ..requests(1) }), "algorithm");
    assert_eq!(field_of(OverrideDraft { algorithm: text("concurrency"), ..requests(1) }), "algorithm");
    let burst = OverrideDraft { algorithm: text("fixed_window"), burst: Some(2), ..requests(1) };
    assert_eq!(field_of(burst), "burst");
}

#[test]
fn names_are_one_to_256_characters_without_control_characters() {
    let text = |text: &str| Some(text.to_owned());
    let long = "é".repeat(256);
    let named = |name: &str| OverrideDraft { domain: text(name), limit: text(name), ..requests(1) };
    with(vec![named(&long)]).check().unwrap();
    tier(&long).check().unwrap();
    for wrong in ["", &(long.clone() + "x"), "a\nb", "a\0b", "\u{9f}"] {
        assert_eq!(refused(&tier(wrong)).0, "tier");
        assert_eq!(field_of(OverrideDraft { domain: text(wrong), ..requests(1) }), "domain");
        assert_eq!(field_of(OverrideDraft { limit: text(wrong), ..requests(1) }), "limit");
    }
    for wrong in ["a|", "a:b\u{7}", &"x".repeat(257), &format!("key:{}", "x".repeat(257)), &"k|".repeat(600)]
    {
        assert_eq!(field_of(OverrideDraft { descriptor: (*wrong).to_owned(), ..requests(1) }), "descriptor");
    }
}

#[test]
fn an_override_ends_after_it_begins() {
    let span =
        |from, to| OverrideDraft { effective_at: Some(at(from)), expires_at: Some(at(to)), ..requests(1) };
    with(vec![span(0, 1)]).check().unwrap();
    assert_eq!(field_of(span(1, 1)), "expires_at");
    assert_eq!(field_of(span(1, 0)), "expires_at");
}

#[test]
fn two_overrides_of_one_limit_never_hold_at_once() {
    let span = |from: Option<i64>, to: Option<i64>| OverrideDraft {
        effective_at: from.map(at),
        expires_at: to.map(at),
        descriptor: "endpoint:GET /".to_owned(),
        ..requests(1)
    };
    let successive = vec![span(None, Some(10)), span(Some(20), None), span(Some(10), Some(20))];
    with(successive.clone()).check().unwrap();
    for more in [span(None, None), span(Some(19), Some(20)), span(Some(15), None), span(None, Some(1))] {
        let mut overrides = successive.clone();
        overrides.push(more.clone());
        assert_eq!(refused(&with(overrides)).0, "overrides[3].effective_at");
        let elsewhere = [
            OverrideDraft { domain: Some("d".to_owned()), ..more.clone() },
            OverrideDraft { limit: Some("daily".to_owned()), ..more.clone() },
            OverrideDraft { descriptor: "endpoint".to_owned(), ..more },
        ];
        for other in elsewhere {
            let mut overrides = successive.clone();
            overrides.push(other);
            with(overrides).check().unwrap();
        }
    }
    // However it is written.
    let mut same = vec![span(None, None), span(None, None)];
    same[0].descriptor = "endpoint:a:b".to_owned();
    same[1].descriptor = r"endpoint:a\:b".to_owned();
    assert_eq!(refused(&with(same)).0, "overrides[1].effective_at");
}

#[test]
fn a_tenant_has_at_most_100_overrides() {
    let many = |count: usize| {
        let each = |index| OverrideDraft { descriptor: format!("key:{index}"), ..requests(1) };
        with((0..count).map(each).collect())
    };
    many(100).check().unwrap();
    assert_eq!(refused(&many(101)).0, "overrides");
}
