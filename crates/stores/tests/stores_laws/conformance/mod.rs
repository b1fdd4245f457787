//! What every store must do.
//!
//! A law is a function of a [`World`]: a fresh store whose time is in hand. `conformance!` stamps all
//! of them over one store, each as a test of its own:
//!
//! ```ignore
//! conformance!(memory, MemoryWorld::new);
//! ```

pub(crate) mod all_or_nothing;
pub(crate) mod changed_limit;
pub(crate) mod charging;
pub(crate) mod clock_steps;
pub(crate) mod correcting;
pub(crate) mod forces;
pub(crate) mod granting;
pub(crate) mod looking;
pub(crate) mod queue;
pub(crate) mod refund;
pub(crate) mod slots;

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Key, Limit, Micros, Outcome, Verdict};
use tidegate_stores::{Charge, Grant, Intent, Store, Verdicts};

/// A store that nobody has used yet, and its time in hand.
pub(crate) trait World {
    type Store: Store;

    /// Whether a counter is carried on when its limit's window changes. Rules give such a limit a new
    /// counter, so a store need not.
    const CARRIES_WINDOWS: bool = true;

    fn store(&self) -> &Self::Store;

    /// The store's time.
    fn now(&self) -> Micros;

    /// Steps the store's time, forward or back.
    fn set_now(&self, now: Micros);

    /// The counter of that name; names with the same `home` share one.
    fn key(&self, home: &str, name: &str) -> Key;

    /// Goes through what a store's decisions must not show: it is swept, restarted and the like.
    fn upheaval(&mut self) {}

    fn advance_us(&self, us: u64) {
        self.set_now(self.now().plus(us));
    }

    /// The counter of that name, somewhere of its own.
    fn named(&self, name: &str) -> Key {
        self.key(name, name)
    }

    /// A charge under a lease of its own.
    fn charge<'a>(&self, name: &str, limit: &'a Limit, cost: u64) -> Charge<'a> {
        static LEASES: AtomicU64 = AtomicU64::new(1);
        let lease = LEASES.fetch_add(1, Ordering::Relaxed);
        Charge { lease, ..Charge::new(self.named(name), limit, cost) }
    }

    async fn settle(&self, charges: &[Charge<'_>]) -> Verdicts {
        self.settle_as(charges, Intent::Take).await
    }

    async fn settle_as(&self, charges: &[Charge<'_>], intent: Intent) -> Verdicts {
        self.store().settle(charges, intent).await.expect("the store settles")
    }

    async fn take_up_to(&self, charge: Charge<'_>) -> Grant {
        self.store().take_up_to(&charge).await.expect("the store grants")
    }

    async fn give_back(&self, charges: &[Charge<'_>]) {
        self.store().give_back(charges).await.expect("the store gives back");
    }

    async fn renew(&self, slot: &Charge<'_>) -> bool {
        self.store().renew(slot).await.expect("the store renews")
    }

    async fn release(&self, slot: &Charge<'_>) -> bool {
        self.store().release(slot).await.expect("the store releases")
    }

    async fn take(&self, charge: Charge<'_>) -> Verdict {
        one(&self.settle(&[charge]).await)
    }

    async fn look(&self, charge: Charge<'_>) -> Verdict {
        one(&self.settle_as(&[charge], Intent::Look).await)
    }

    /// Charges 1 again and again until that is denied; answers how many fitted.
    async fn fill(&self, charge: Charge<'_>) -> u64 {
        for fitted in 0..100 {
            if !self.take(Charge { cost: 1, lease: charge.lease + (fitted << 32), ..charge }).await.allowed()
            {
                return fitted;
            }
        }
        panic!("{:?} has no end", charge.limit)
    }

    /// All there is to see of a counter: what would become of a charge of every cost.
    async fn reading(&self, charge: Charge<'_>) -> Vec<Verdict> {
        let mut reading = Vec::new();
        for cost in 0..=charge.limit.burst() {
            for hold in [false, true] {
                reading.push(self.look(Charge { cost, hold, ..charge }).await);
            }
        }
        reading
    }
}

/// The verdict on a request of one charge.
pub(crate) fn one(verdicts: &Verdicts) -> Verdict {
    match verdicts[..] {
        [verdict] => verdict,
        _ => panic!("one charge was answered with {verdicts:?}"),
    }
}

#[track_caller]
pub(crate) fn retry_after_us(verdict: &Verdict) -> u64 {
    match verdict.outcome {
        Outcome::Denied { retry_after_us } => retry_after_us,
        outcome => panic!("expected a denial, got {outcome:?}"),
    }
}

/// Stamps every law over a store: `conformance!(name, function that makes a World)`.
macro_rules! conformance {
    ($name:ident, $world:expr) => {
        conformance! { @laws $name, $world,
            charging: [
                never_admits_more_than_the_limit_at_once,
                never_admits_more_than_the_limit_over_time,
                a_denied_charge_is_allowed_exactly_at_retry_after,
                a_cost_counts_as_that_many_single_charges,
                a_cost_beyond_the_limit_never_fits_and_takes_nothing,
                a_denied_charge_takes_nothing,
                counters_do_not_touch_each_other,
                a_limit_of_zero_denies_everything,
                a_key_that_comes_back_under_another_algorithm_starts_afresh,
                an_empty_request_has_no_verdicts,
                nothing_shows_that_the_store_was_swept_or_restarted
            ],
            looking: [
                a_peek_changes_nothing,
                a_look_changes_nothing_and_answers_what_a_charge_would
            ],
            granting: [
                what_is_granted_fits_and_one_unit_more_does_not,
                a_grant_leaves_a_counter_as_a_charge_of_as_much_does,
                grants_never_add_up_to_more_than_the_limit,
                slots_and_queues_grant_no_part
            ],
            refund: [
                a_refund_makes_room_for_what_was_taken,
                a_refund_never_fills_above_full,
                a_refund_of_more_than_was_ever_taken_leaves_nothing,
                a_refund_of_a_counter_that_is_not_there_does_nothing
            ],
            correcting: [
                less_than_the_estimate_is_as_if_only_that_was_taken,
                more_than_the_estimate_is_owed_and_paid_back,
                what_was_never_charged_can_be_overdrawn,
                a_window_that_is_over_gives_nothing_to_the_next,
                a_sliding_window_gives_back_to_the_window_it_was_taken_in,
                a_look_answers_and_changes_nothing
            ],
            all_or_nothing: [
                if_one_denies_none_is_charged,
                if_all_fit_each_is_charged,
                a_blocked_request_says_what_each_limit_has_left,
                a_request_of_many_charges_is_settled_as_one,
                a_repeated_key_counts_each_time
            ],
            forces: [
                a_shadow_charge_never_blocks,
                a_shadow_denial_is_not_charged,
                a_blocked_request_charges_no_shadow,
                quota_charges_block_only_if_all_are_denied,
                count_denied_charges_the_denied_too,
                count_denied_puts_off_the_retry_it_announces,
                count_denied_charges_what_another_limit_blocks
            ],
            queue: [
                a_queue_holds_for_as_long_as_it_takes_to_drain,
                who_cannot_hold_is_denied_for_as_long_and_takes_nothing,
                a_full_queue_denies
            ],
            slots: [
                at_most_max_slots_are_held,
                a_released_slot_is_free_at_once,
                a_slot_nobody_renews_returns_after_its_timeout,
                a_renewed_slot_stays_held,
                a_slot_that_has_returned_can_neither_be_renewed_nor_released,
                slots_and_charges_are_taken_together_or_not_at_all
            ],
            changed_limit: [
                a_raised_limit_has_room_at_once,
                a_lowered_limit_keeps_what_was_taken,
                a_lowered_limit_says_exactly_when_it_has_room_again,
                a_limit_lowered_and_raised_again_has_forgotten_nothing
            ],
            clock_steps: [
                a_step_back_admits_at_most_one_more_limit,
                a_step_back_locks_nobody_out_for_longer_than_a_window,
                a_step_forward_admits_at_most_one_more_limit
            ],
        }
    };
    (@laws $name:ident, $world:expr, $($module:ident: [$($law:ident),* $(,)?]),* $(,)?) => {
        mod $name {
            $(mod $module {
                $(#[test]
                fn $law() {
                    pollster::block_on(crate::conformance::$module::$law($world()));
                })*
            })*
        }
    };
}
