//! Time per allowed decision at 10k keys, for developers: `cd bench && cargo bench -p tidegate-benches --bench decisions`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use tidegate::Limiter;
use tidegate_bench::stream::{arrivals, name};
use tidegate_bench::subject::{self, ask, ask_governor};

const KEYS: usize = 10_000;
/// So many that no key comes near its limit, and few enough for a log of each to stay small.
const REQUESTS: u64 = 10_000;

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("allowed decision, 10k keys");
    group.throughput(Throughput::Elements(1));
    let governor = subject::governor();
    measure(&mut group, "governor", |name| ask_governor(&governor, name));
    for (algorithm, limit) in subject::every_algorithm(REQUESTS, Duration::from_millis(100)) {
        let limiter: Limiter = subject::limiter(limit, KEYS).expect("a valid limit");
        measure(&mut group, algorithm, |name| ask(&limiter, name));
    }
    group.finish();
}

fn measure(
    group: &mut BenchmarkGroup<'_, criterion::measurement::WallTime>,
    subject: &str,
    decide: impl Fn(&String) -> bool,
) {
    for number in 0..KEYS {
        decide(&name(number));
    }
    let stream = arrivals(KEYS, 1 << 16, 1);
    group.bench_function(subject, |bencher| {
        let mut next = 0;
        bencher.iter(|| {
            next = (next + 1) % stream.len();
            black_box(decide(&stream[next]))
        });
    });
}

criterion_group!(benches, decisions);
criterion_main!(benches);
