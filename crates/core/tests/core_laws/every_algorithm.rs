//! Instantiates the laws for every algorithm. Concurrency, which is acquired instead of charged, has laws
//! of its own.

use tidegate_testkit::schedule::limits;

use crate::{
    agrees_with_oracle, changes, clock_steps, corrections, exact_answers, forced, keeps_promise, refunds,
};

macro_rules! stamp {
    ($algorithm:ident: $($theme:ident::$law:ident,)*) => {
        mod $algorithm {
            use super::*;
            $(
                #[test]
                fn $law() {
                    $theme::$law(limits::$algorithm());
                }
            )*
        }
    };
}

macro_rules! laws_of {
    ($($algorithm:ident),*) => { $(stamp! { $algorithm:
        agrees_with_oracle::every_decision_is_the_oracles,
        agrees_with_oracle::every_decision_is_the_oracles_when_the_clock_steps,
        agrees_with_oracle::every_decision_is_the_oracles_when_the_limit_changes,
        agrees_with_oracle::charging_in_one_go_is_assessing_and_taking,
        keeps_promise::never_admits_more_than_it_promises,
        exact_answers::denied_until_retry_after_and_allowed_at_it,
        exact_answers::never_is_said_only_of_what_can_never_fit,
        exact_answers::remaining_is_the_largest_cost_that_fits,
        exact_answers::untouched_exactly_at_reset_after,
        exact_answers::nothing_of_an_expired_state_counts,
        exact_answers::peeks_and_denials_change_nothing,
        refunds::refund_restores_what_was_taken,
        refunds::refund_never_goes_above_full,
        corrections::a_correction_at_once_is_as_if_the_true_cost_had_been_charged,
        corrections::a_late_refund_gives_no_more_than_had_less_been_charged,
        corrections::what_is_overdrawn_is_owed_until_it_says_and_not_for_longer,
        corrections::overdrawing_in_pieces_is_overdrawing_at_once,
        corrections::a_step_back_at_most_doubles_what_is_owed,
        clock_steps::a_clock_step_admits_at_most_one_more_limit,
        clock_steps::a_clock_step_locks_nobody_out_for_longer_than_their_window,
        changes::units_in_use_stay_in_use,
        changes::a_changed_limit_locks_nobody_out_for_longer_than_its_window,
        changes::the_first_charge_carries_the_counter_on,
        changes::raising_and_lowering_back_changes_nothing,
        forced::a_forced_charge_locks_nobody_out_for_longer_than_their_window,
        forced::forced_charges_saturate,
    })* };
}

laws_of!(
    fixed_window,
    calendar,
    sliding_window,
    sub_windows,
    sliding_log,
    token_bucket,
    leaky_meter,
    leaky_queue
);
