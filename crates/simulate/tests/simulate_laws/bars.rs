//! Figures that the modes have to reach.

use tidegate_core::{Algorithm, Limit, Window};
use tidegate_simulate::report::table;
use tidegate_simulate::{Consistency, Report, Scenario, Traffic};

const LEASABLE: [fn(u64) -> Algorithm; 3] = [
    |_| Algorithm::FixedWindow,
    |_| Algorithm::SlidingWindow,
    |requests| Algorithm::TokenBucket { burst: requests },
];

fn limit(algorithm: fn(u64) -> Algorithm, requests: u64, seconds: u64) -> Limit {
    Limit::new(algorithm(requests), requests, Window::seconds(seconds)).expect("a limit")
}

/// Two nodes, 500 per second, 800 per second offered.
fn overloaded(algorithm: fn(u64) -> Algorithm, consistency: Consistency, seed: u64) -> Report {
    let scenario = Scenario {
        traffic: vec![Traffic::Steady { per_second: 400 }; 2],
        duration_us: 62_000_000,
        ..Scenario::new(seed, limit(algorithm, 500, 1), consistency)
    };
    scenario.run()
}

/// The field's bar: others admit 590 or 438 per second here.
#[test]
fn two_nodes_at_800_of_500_per_second_admit_495_to_500_but_for_synced_windows() {
    let synced = Consistency::Synced { every_us: 200_000 };
    let mut reports = Vec::new();
    for algorithm in LEASABLE {
        for consistency in [Consistency::Exact, Consistency::Leased, synced] {
            reports.push(overloaded(algorithm, consistency, 1));
        }
    }
    println!("{}", table(&reports));
    for report in &reports {
        // Full buckets and first windows are left out.
        let rate = report.rate_after(2);
        println!("{} {}: {}.{:02}/s", report.limit, report.consistency.name(), rate / 100, rate % 100);
        assert_eq!(report.broken, None);
        if report.consistency != synced {
            assert_eq!(report.over_admitted, 0);
        }
    }
    // Windows that are synced admit less: see docs/consistency.md.
    let bucket = |report: &&Report| report.consistency != synced || report.limit.starts_with("token_bucket");
    for report in reports.iter().filter(bucket) {
        let rate = report.rate_after(2);
        // A bucket may also use what it has kept from before.
        assert!((495..=500).contains(&(rate / 100)), "{} {}", report.limit, report.consistency.name());
    }
}

#[test]
fn parking_denies_less_than_one_in_200_at_80_percent_of_a_limit() {
    let mut reports = Vec::new();
    for algorithm in LEASABLE {
        for seed in 0..5 {
            // 80 % of 1,000 per minute, divided 70/20/7/3.
            let shares =
                [70, 20, 7, 3].map(|share| Traffic::Slow { per_kilosecond: 800_000 * share / 6_000 });
            let scenario = Scenario {
                traffic: shares.to_vec(),
                duration_us: 600_000_000,
                ..Scenario::new(seed, limit(algorithm, 1_000, 60), Consistency::Leased)
            };
            reports.push(scenario.run());
        }
    }
    println!("{}", table(&reports));
    for report in &reports {
        assert_eq!(report.broken, None);
        assert!(report.falsely_denied * 200 < report.offered, "{report:?}");
    }
}

/// A busy key far below its limit costs few calls.
#[test]
fn a_busy_key_with_room_costs_under_one_call_in_a_hundred() {
    let scenario = Scenario {
        traffic: vec![Traffic::Steady { per_second: 2_000 }; 3],
        ..Scenario::new(5, limit(LEASABLE[2], 6_000_000, 60), Consistency::Leased)
    };
    let report = scenario.run();
    println!("{}", table(std::slice::from_ref(&report)));
    assert_eq!((report.broken.as_deref(), report.denied), (None, 0));
    assert!(report.calls * 100 < report.offered, "{} calls for {}", report.calls, report.offered);
}
