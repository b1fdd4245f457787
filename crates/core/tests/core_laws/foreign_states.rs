//! A state of another algorithm, found after a rule has changed its algorithm, counts as fresh.

use tidegate_core::{Algorithm, LeakyMode, Limit, Micros, State, Window};

const NOW: Micros = Micros(1_700_000_000_000_000);

fn limits() -> Vec<Limit> {
    let algorithms = [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SubWindows { buckets: 6 },
        Algorithm::SlidingLog,
        Algorithm::TokenBucket { burst: 5 },
        Algorithm::LeakyBucket { burst: 5, mode: LeakyMode::Queue },
        Algorithm::Concurrency,
    ];
    algorithms.map(|algorithm| Limit::new(algorithm, 5, Window::seconds(60)).unwrap()).into()
}

/// Returns each limit with the used-up state of every limit of another kind. The two buckets are one kind.
fn pairs() -> impl Iterator<Item = (Limit, State)> {
    let spent = |limit: Limit| {
        let mut state = limit.fresh();
        limit.take(&mut state, 5, NOW);
        state
    };
    let is_bucket = |limit: &Limit| matches!(limit.fresh(), State::Arrival(_));
    let all =
        limits().into_iter().flat_map(|limit| limits().into_iter().map(move |other| (limit.clone(), other)));
    all.filter(move |(limit, other)| limit != other && !(is_bucket(limit) && is_bucket(other)))
        .map(move |(limit, other)| (limit, spent(other)))
}

#[test]
fn a_foreign_state_counts_as_none() {
    for (limit, state) in pairs() {
        for (cost, hold) in [(0, false), (1, true), (5, false), (6, true)] {
            let fresh = limit.assess(&limit.fresh(), cost, NOW, hold);
            assert_eq!(limit.assess(&state, cost, NOW, hold), fresh, "{cost} of {limit:?} on {state:?}");
        }
    }
}

#[test]
fn a_charge_replaces_a_foreign_state() {
    for (limit, mut state) in pairs().filter(|(limit, _)| limit.algorithm() != Algorithm::Concurrency) {
        let mut expected = limit.fresh();
        limit.take(&mut expected, 2, NOW);
        limit.take(&mut state, 2, NOW);
        assert_eq!(state, expected, "{limit:?}");
    }
}

#[test]
fn a_refund_leaves_a_foreign_state_alone() {
    for (limit, state) in pairs() {
        let mut refunded = state.clone();
        limit.give_back(&mut refunded, 2, NOW);
        limit.carry_on(&mut refunded, NOW);
        assert_eq!(refunded, state, "{limit:?}");
    }
}
