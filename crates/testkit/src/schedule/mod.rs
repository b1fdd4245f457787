//! Random limits and random schedules.
//!
//! A schedule is generated before the verdicts are known, so its steps are relative: to the boundary of the
//! window, as much as remains, to when the last denied charge fits. They are resolved to times and costs
//! while the schedule runs.

mod advance;
mod amount;
mod change;
pub mod limits;

pub use advance::{Advance, Scale, clock_steps};
pub use amount::Amount;
pub use change::{Change, Number, changes};

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::Micros;

/// A start time and a list of steps.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The time before the first step.
    pub start: Micros,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A step of a schedule: time passes, then an action is done.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// How much time passes.
    pub advance: Advance,
    /// What is done then.
    pub action: Action,
}

/// An action on a counter.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Charge if it fits.
    Charge {
        /// The units to charge.
        amount: Amount,
        /// Whether the caller can hold the request.
        hold: bool,
    },
    /// Charge, whether it fits or not.
    Take(Amount),
    /// Refund.
    Refund(Amount),
    /// Charge 0.
    Peek,
    /// Change the numbers of the limit.
    Relimit(Change),
}

/// The kinds of steps in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Charges and peeks only.
    Charges,
    /// Charges, peeks, refunds and forced charges.
    Plain,
    /// As `Plain`, with a clock that jumps.
    ClockSteps,
    /// As `Plain`, with limits that change.
    Changes,
}

/// Generates schedules of 1 to `steps` steps.
pub fn schedules(mix: Mix, steps: usize) -> impl Strategy<Value = Schedule> {
    (starts(), vec(step(mix), 1..=steps)).prop_map(|(start, steps)| Schedule { start, steps })
}

/// Generates start times: near the epoch, where differences become negative; in 2023; and near 2^52 us, the
/// latest time of the stores.
pub fn starts() -> impl Strategy<Value = Micros> {
    const NOW_US: u64 = 1_700_000_000_000_000;
    prop_oneof![
        1 => (0_u64..5).prop_map(Micros),
        1 => (0_u64..1 << 40).prop_map(Micros),
        6 => (NOW_US..NOW_US + (1 << 40)).prop_map(Micros),
        1 => ((1_u64 << 52) - (1 << 46)..1 << 52).prop_map(Micros),
    ]
}

fn step(mix: Mix) -> impl Strategy<Value = Step> {
    let advance = match mix {
        Mix::ClockSteps => prop_oneof![3 => advance::forward(), 1 => clock_steps()].boxed(),
        Mix::Charges | Mix::Plain | Mix::Changes => advance::forward().boxed(),
    };
    let charges = || {
        prop_oneof![
            12 => (amount::amounts(), any::<bool>()).prop_map(|(amount, hold)| Action::Charge { amount, hold }),
            1 => Just(Action::Peek),
        ]
    };
    let plain = || {
        prop_oneof![
            13 => charges(),
            1 => amount::amounts().prop_map(Action::Take),
            3 => amount::amounts().prop_map(Action::Refund),
        ]
    };
    let action = match mix {
        Mix::Charges => charges().boxed(),
        Mix::Plain | Mix::ClockSteps => plain().boxed(),
        Mix::Changes => prop_oneof![4 => plain(), 1 => changes().prop_map(Action::Relimit)].boxed(),
    };
    (advance, action).prop_map(|(advance, action)| Step { advance, action })
}
