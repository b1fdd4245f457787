//! Two benchmarks: `decisions` is timed by criterion, `instructions` is counted by gungraun under valgrind.
