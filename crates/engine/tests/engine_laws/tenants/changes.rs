//! Changes act at once, keep counters, and outlive reloads.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{
    Domain, Limiter, Override, ReadError, Rule, Switch, Switches, Tenant, TenantChange, TenantSource,
    per_minute,
};

use super::{key, put, requests, rules, steady};
use crate::support::{left, passes};

/// Tenants in a list.
#[derive(Default)]
struct Listed(Mutex<Vec<Tenant>>);

impl TenantSource for Listed {
    fn each(&self, put: &mut dyn FnMut(Tenant)) -> Result<(), ReadError> {
        match self.0.lock().as_slice() {
            [] => Err("nobody is there".into()),
            tenants => {
                tenants.iter().cloned().for_each(put);
                Ok(())
            }
        }
    }
}

#[test]
fn a_tenant_that_is_gone_is_one_like_any_other_at_once() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("bob").with(steady(3)));
    assert_eq!(left(&limiter, &key("bob"))[0], 3);
    limiter.change_tenants([TenantChange::Gone("bob".to_owned())]);
    assert_eq!(left(&limiter, &key("bob"))[0], 10);
    assert_eq!(limiter.tenants(), 0);
    limiter.change_tenants([TenantChange::Gone("bob".to_owned())]);
}

#[test]
fn of_several_changes_at_once_the_last_counts() {
    let (limiter, _) = rules();
    for first in [None, Some(Tenant::new("eve").with(steady(1)))] {
        limiter.change_tenants(first.map(TenantChange::Put));
        limiter.change_tenants([
            TenantChange::Put(Tenant::new("bob").with(steady(3))),
            TenantChange::Gone("bob".to_owned()),
            TenantChange::Put(Tenant::new("bob").with(steady(4))),
        ]);
        assert_eq!(left(&limiter, &key("bob"))[0], 4);
        limiter.change_tenants([
            TenantChange::Put(Tenant::new("bob").with(steady(3))),
            TenantChange::Gone("bob".to_owned()),
        ]);
        assert_eq!(left(&limiter, &key("bob"))[0], 10);
        // Back to what it is, by way of something else.
        put(&limiter, Tenant::new("bob").with(steady(5)));
        limiter.change_tenants([3, 5].map(|count| TenantChange::Put(Tenant::new("bob").with(steady(count)))));
        assert_eq!(left(&limiter, &key("bob"))[0], 5);
        limiter.change_tenants([TenantChange::Gone("bob".to_owned())]);
    }
}

#[test]
fn counters_are_kept_when_a_limit_is_raised_or_lowered() {
    let limiter = Limiter::builder()
        .domain(
            Domain::new("d")
                .tenant_key("api_key")
                .rule(Rule::by("api_key").limit(per_minute(10).fixed_window())),
        )
        .clock(tidegate::VirtualClock::new())
        .build()
        .expect("good rules");
    assert_eq!(passes(&limiter, &key("bob"), 6), 6);
    put(&limiter, Tenant::new("bob").with(Override::of(requests(8))));
    assert_eq!(left(&limiter, &key("bob")), [2], "lowered: 6 of 8 are used");
    put(&limiter, Tenant::new("bob").with(Override::of(requests(5))));
    assert_eq!(left(&limiter, &key("bob")), [0], "never below nothing");
    assert_eq!(passes(&limiter, &key("bob"), 9), 0);
    put(&limiter, Tenant::new("bob").with(Override::of(requests(20))));
    assert_eq!(left(&limiter, &key("bob")), [14], "raised: 6 of 20 are used");
    limiter.change_tenants([TenantChange::Gone("bob".to_owned())]);
    assert_eq!(left(&limiter, &key("bob")), [4]);
}

#[test]
fn tenants_are_read_at_the_beginning_and_with_every_reload() {
    let listed = Arc::new(Listed::default());
    let domain = || Domain::new("d").tenant_key("api_key").rule(Rule::by("api_key").limit(per_minute(10)));
    let build =
        || Limiter::builder().domain(domain()).tenants(Arc::clone(&listed) as Arc<dyn TenantSource>).build();
    let Err(error) = build() else { panic!("they cannot be read") };
    assert!(error.to_string().contains("the tenants cannot be read: nobody is there"), "{error}");

    listed.0.lock().push(Tenant::new("bob").with(Override::of(requests(3))));
    let limiter = build().expect("they can be read now");
    assert_eq!(left(&limiter, &key("bob")), [3]);

    listed.0.lock().push(Tenant::new("bob").with(Override::of(requests(4))));
    limiter.reload().expect("good rules");
    assert_eq!(left(&limiter, &key("bob")), [4], "of two of one name the last");

    listed.0.lock().clear();
    limiter.reload().expect_err("they cannot be read");
    assert_eq!(left(&limiter, &key("bob")), [4], "what was good stays");
}

#[test]
fn switches_leave_overrides_as_they_are() {
    let (limiter, _) = rules();
    let all = |all| Switches { all, ..Switches::default() };
    put(&limiter, Tenant::new("bob").with(steady(3)));
    limiter.set_switches(all(Switch::Off));
    assert_eq!(left(&limiter, &key("bob")), [0; 0]);
    put(&limiter, Tenant::new("eve").with(steady(4)));
    limiter.set_switches(all(Switch::Enforce));
    assert_eq!((left(&limiter, &key("bob"))[0], left(&limiter, &key("eve"))[0]), (3, 4));
    assert_eq!(limiter.switches(), Switches::default());
}

#[test]
fn a_decision_tells_the_numbers_it_was_made_under_whatever_comes_after() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("bob").with(steady(3)));
    let decision = limiter.check_now(&key("bob"));
    put(&limiter, Tenant::new("bob").with(steady(9)));
    limiter.change_tenants([TenantChange::Gone("bob".to_owned())]);
    let requests: Vec<u64> = decision.limits().map(|limit| limit.limit.requests()).collect();
    assert_eq!(requests, [3, 100]);
}

#[test]
fn ten_thousand_tenants_have_each_their_own_however_they_came() {
    let (one, _) = rules();
    let (other, _) = rules();
    let tenant = |number: u64| Tenant::new(&format!("tenant {number}")).with(steady(1 + number));
    one.change_tenants((0..10_000).map(|number| TenantChange::Put(tenant(number))));
    for number in 0..10_000 {
        put(&other, tenant(number));
    }
    for limiter in [&one, &other] {
        assert_eq!(limiter.tenants(), 10_000);
        for number in (0..10_000).step_by(7) {
            let name = format!("tenant {number}");
            assert_eq!(left(limiter, &key(&name)), [1 + number, 100]);
        }
        limiter.change_tenants((0..9_999).map(|number| TenantChange::Gone(format!("tenant {number}"))));
        assert_eq!(left(limiter, &key("tenant 9998")), [10, 100]);
        assert_eq!(left(limiter, &key("tenant 9999")), [10_000, 100]);
        assert_eq!(limiter.tenants(), 1);
    }
}
