//! Thousands of random worlds with faults. A failure names its seed; `TIDEGATE_SEED=7` runs that one alone.

use fastrand::Rng;
use tidegate_core::{Algorithm, Calendar, CalendarUnit, Limit, Window};
use tidegate_simulate::{Consistency, Fault, Network, Scenario, Traffic};

const SEEDS: u64 = 1_000;

fn limit(rng: &mut Rng) -> Limit {
    let (requests, seconds) = (rng.u64(1..600), [1, 2, 10, 60][rng.usize(0..4)]);
    let algorithm = match rng.u8(0..4) {
        0 => Algorithm::FixedWindow,
        1 => Algorithm::SlidingWindow,
        2 => Algorithm::TokenBucket { burst: requests },
        _ => Algorithm::TokenBucket { burst: rng.u64(1..600) },
    };
    if algorithm == Algorithm::FixedWindow && rng.u8(0..4) == 0 {
        let days = Calendar::new(CalendarUnit::Day, "Europe/Berlin").expect("a zone");
        return Limit::new(algorithm, requests * 5, Window::Calendar(days)).expect("a limit");
    }
    Limit::new(algorithm, requests, Window::seconds(seconds)).expect("a limit")
}

fn traffic(rng: &mut Rng) -> Traffic {
    let per_second = rng.u64(1..400);
    match rng.u8(0..5) {
        0 => Traffic::Slow { per_kilosecond: per_second * 10 },
        1 => Traffic::Bursty { burst: rng.u64(1..100), every_us: rng.u64(50_000..1_000_000) },
        2 => Traffic::Diurnal { peak_per_second: per_second, period_us: rng.u64(500_000..4_000_000) },
        3 => Traffic::Recorded { per_second: (0..5).map(|_| rng.u64(0..400)).collect() },
        _ => Traffic::Steady { per_second },
    }
}

fn fault(rng: &mut Rng, nodes: usize, duration_us: u64) -> Fault {
    let (node, at_us) = (rng.usize(0..nodes), rng.u64(0..duration_us));
    match rng.u8(0..4) {
        0 => Fault::Crash { node, at_us, down_us: rng.u64(0..1_000_000) },
        1 => Fault::Pause { node, at_us, for_us: rng.u64(0..3_000_000) },
        2 => Fault::Restart { node, at_us },
        _ => Fault::Partition { node, at_us, for_us: rng.u64(0..1_000_000) },
    }
}

fn world(seed: u64, consistency: Consistency) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let nodes = rng.usize(1..6);
    let duration_us = rng.u64(1_000_000..4_000_000);
    Scenario {
        traffic: (0..nodes).map(|_| traffic(&mut rng)).collect(),
        keys: rng.usize(1..4),
        duration_us,
        network: Network {
            slow_permille: rng.u64(0..100),
            lost_permille: rng.u64(0..50),
            repeated_permille: rng.u64(0..50),
            ..Network::GOOD
        },
        faults: (0..rng.usize(0..5)).map(|_| fault(&mut rng, nodes, duration_us)).collect(),
        longest_us: rng.u64(10_000..2_000_000),
        ..Scenario::new(seed, limit(&mut rng), consistency)
    }
}

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("TIDEGATE_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().expect("a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    }
}

#[test]
fn leases_never_admit_more_than_the_limit_whatever_fails() {
    let (mut admitted, mut calls) = (0, 0);
    for seed in seeds() {
        let scenario = world(seed, Consistency::Leased);
        let report = scenario.run();
        assert_eq!(report.broken, None, "TIDEGATE_SEED={seed}: {scenario:#?}");
        assert_eq!(report, scenario.run(), "TIDEGATE_SEED={seed} has two outcomes");
        admitted += report.admitted;
        calls += report.calls;
    }
    println!("{admitted} units admitted with {calls} calls");
}

/// A store that loses its last writes forgets what was taken in them, whatever the mode.
#[test]
fn a_failover_admits_at_most_another_burst_of_every_key() {
    for seed in seeds().take(200) {
        let lost_us = 100_000;
        let at_us = 1_000_000;
        let mut scenario = world(seed, Consistency::Leased);
        scenario.faults = vec![Fault::Failover { at_us, lost_us }];
        let report = scenario.run();
        assert_eq!(report.broken, None, "TIDEGATE_SEED={seed}");
        let most = scenario.limit.burst() * scenario.keys as u64;
        assert!(report.over_admitted <= most, "TIDEGATE_SEED={seed}: {} over", report.over_admitted);
    }
}

#[test]
fn synced_worlds_repeat_from_their_seed() {
    for seed in seeds().take(200) {
        let scenario = world(seed, Consistency::Synced { every_us: 200_000 });
        let report = scenario.run();
        assert_eq!(report.broken, None, "TIDEGATE_SEED={seed}: {scenario:#?}");
        assert_eq!(report, scenario.run(), "TIDEGATE_SEED={seed} has two outcomes");
    }
}
