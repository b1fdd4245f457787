//! Counts instructions per decision with gungraun and valgrind, and compares them with the counts in the repository.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target};
use crate::machine::repository;
use crate::progress::Progress;
use crate::stream::COUNTED;

/// Instructions per decision, by the benchmark's name.
type Counts = BTreeMap<String, f64>;

/// The most instructions that a decision may take.
const MOST: [(&str, f64); 8] = [
    ("token_bucket", 380.0),
    ("two_descriptors", 850.0),
    ("three_descriptors", 1_300.0),
    ("two_levels", 850.0),
    ("limits_4_of_4_algorithms", 2_000.0),
    ("patterns_100", 900.0),
    ("slot_taken_and_returned", 1_500.0),
    ("own_limit", 500.0),
];

/// Pairs of benchmarks to compare, and how much more the first may take.
const TARGETS: [(&str, &str, &str, Bound); 7] = [
    ("instructions beside governor, 10k keys", "token_bucket", "governor", Bound::AtMost(1.0)),
    ("instructions, 10,000 rules to 10", "rules_10000", "rules_10", Bound::Below(1.3)),
    ("instructions, 1,000 rules with a `*` to 10", "patterns_1000", "patterns_10", Bound::Below(1.3)),
    ("instructions, 4 limits to 1", "limits_4", "limits_1", Bound::Below(2.5)),
    ("instructions, 100k overrides to none", "own_limit", "no_tenants", Bound::AtMost(1.2)),
    (
        "instructions, 100k overrides to none, 2 limits and tiers",
        "own_limit_of_two",
        "no_tenants_two_limits",
        Bound::AtMost(1.2),
    ),
    (
        "instructions, 100k overrides of a value to none",
        "own_value",
        "no_tenants_two_entries",
        Bound::AtMost(1.2),
    ),
];

enum Bound {
    AtMost(f64),
    Below(f64),
}

/// What each benchmark of `benches/instructions.rs` counts, in the order of the report.
const CASES: [(&str, &str); 31] = [
    ("governor", "governor, allowed"),
    ("governor_denied", "governor, denied"),
    ("token_bucket", "token_bucket"),
    ("denied", "token_bucket, denied"),
    ("leaky_bucket", "leaky_bucket, meter"),
    ("fixed_window", "fixed_window"),
    ("sliding_window", "sliding_window"),
    ("sub_windows_10", "sub_windows, k=10"),
    ("sub_windows_60", "sub_windows, k=60"),
    ("sliding_log", "sliding_log"),
    ("slot_taken_and_returned", "concurrency: a slot taken and returned"),
    ("limits_1", "1 limit: a token bucket"),
    ("limits_4", "4 limits: token buckets"),
    ("limits_4_of_4_algorithms", "4 limits: four algorithms"),
    ("two_descriptors", "2 descriptors, a rule for each"),
    ("three_descriptors", "3 descriptors: key and endpoint, address, one for all"),
    ("two_levels", "2 levels of a hierarchical domain"),
    ("rules_10", "10 rules, one for the request"),
    ("rules_10000", "10,000 rules, one for the request"),
    ("other_rules_10", "10 rules for others, and a general one"),
    ("other_rules_10000", "10,000 rules for others, and a general one"),
    ("patterns_10", "10 rules with a `*`, one for the request"),
    ("patterns_100", "100 rules with a `*`, one for the request"),
    ("patterns_1000", "1,000 rules with a `*` for one key"),
    ("no_tenants", "a rule for tenants, of whom there are none"),
    ("other_tenants", "100k tenants with an override, asked by others"),
    ("own_limit", "100k tenants with an override, asked by them"),
    ("no_tenants_two_limits", "2 limits and tiers for tenants, of whom there are none"),
    ("own_limit_of_two", "the same, 100k tenants with an override of one of the 2"),
    ("no_tenants_two_entries", "a rule below the tenant's, no tenants"),
    ("own_value", "the same, 100k tenants with an override for one value"),
];

/// The file with the saved counts.
const KEPT: &str = "bench/instructions.json";
/// The expected variation of counts, because seeds are random.
const NOISE_PERCENT: f64 = 1.0;

/// Counts instructions, compares them with the saved counts and, with `save`, replaces those.
pub(crate) fn run(save: bool) -> Result<Finding, Error> {
    let progress = Progress::new("instructions", 1);
    progress.step("cargo bench --bench instructions, under valgrind");
    let path = repository().join(KEPT);
    let kept = kept(&path)?;
    let found = count()?;
    drop(progress);
    if save {
        let text = serde_json::to_string_pretty(&found)?;
        fs::write(&path, text + "\n").map_err(Error::io(&path))?;
        eprintln!("instructions: kept in {}", path.display());
    }
    Ok(finding(&found, &kept))
}

fn kept(path: &Path) -> Result<Counts, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(serde_json::from_str(&text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Counts::new()),
        Err(error) => Err(Error::io(path)(error)),
    }
}

/// Runs the benchmarks, each of which prints a line of JSON.
fn count() -> Result<Counts, Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .current_dir(repository().join("bench"))
        .env("PATH", path_with_tools())
        .args(["bench", "-q", "-p", "tidegate-benches", "--bench", "instructions", "--"])
        .args(["--output-format=json", "--nosummary"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(Error::io(Path::new(&cargo)))?;
    if !output.status.success() {
        return Err(Error::Wrong(
            "cargo bench --bench instructions failed. It needs valgrind (apt-get install valgrind) and \
             cargo install gungraun-runner --version =0.20.0 --locked --root .tools"
                .to_owned(),
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let parsed = lines.map(|line| parse(line).ok_or_else(|| Error::Wrong(format!("no count in {line}"))));
    let counts = parsed.collect::<Result<Counts, Error>>()?;
    let unknown = counts.keys().find(|name| !CASES.iter().any(|(known, _)| known == name));
    ensure(unknown.is_none(), || format!("benchmark {unknown:?} is missing in CASES"))?;
    Ok(counts)
}

/// Returns `PATH` with the tools folder of the repository, where the runner is installed.
fn path_with_tools() -> OsString {
    let tools = repository().join(".tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools).chain(std::env::split_paths(&path));
    std::env::join_paths(paths).unwrap_or(path)
}

/// Returns the name and count of one benchmark from its gungraun summary.
fn parse(line: &str) -> Option<(String, f64)> {
    let summary: Value = serde_json::from_str(line).ok()?;
    let name = summary.get("id")?.as_str()?.to_owned();
    let count = summary.pointer("/profiles/0/data/total/metrics/Ir/values/new")?.as_f64()?;
    // Smaller differences than a tenth of an instruction are noise.
    Some((name, (count * 10.0 / COUNTED as f64).round() / 10.0))
}

fn finding(found: &Counts, kept: &Counts) -> Finding {
    let mut table = Table::new("Instructions per decision", ["", "found", "kept", "difference"]);
    let counted = CASES.iter().filter_map(|(name, what)| Some((*name, *what, found.get(*name)?)));
    for (name, what, count) in counted {
        let before = kept.get(name);
        let percent = before.map(|before| (count / before - 1.0) * 100.0);
        let difference = match percent {
            None => "new".to_owned(),
            Some(percent) if percent.abs() < NOISE_PERCENT => "none".to_owned(),
            Some(percent) => format!("{percent:+.1} %"),
        };
        let before = before.map_or_else(String::new, |before| format!("{before:.0}"));
        table.row([what, &format!("{count:.0}"), &before, &difference]);
    }
    let counts = MOST.iter().filter_map(|(name, most)| {
        let (_, what) = CASES.iter().find(|(known, _)| known == name)?;
        Some(Target::at_most(format!("instructions: {what}"), *found.get(*name)?, *most, ""))
    });
    let ratios = TARGETS.iter().filter_map(|(what, one, other, bound)| {
        let ratio = found.get(*one)? / found.get(*other)?;
        Some(match bound {
            Bound::AtMost(most) => Target::at_most(*what, ratio, *most, "x"),
            Bound::Below(bound) => Target::below(*what, ratio, *bound, "x"),
        })
    });
    let note = format!(
        "Callgrind counts the instructions of {COUNTED} decisions on as many keys that are there already, on \
         the deciding thread alone; governor's is the same loop. Beside them the counts kept in `{KEPT}`; \
         differences below {NOISE_PERCENT} % come from random seeds. `-- instructions --save` keeps new ones."
    );
    Finding {
        study: "instructions",
        title: "Instructions per decision",
        notes: vec![note],
        targets: counts.chain(ratios).collect(),
        tables: vec![table],
        plots: Vec::new(),
        data: serde_json::json!({ "found": found, "kept": kept }),
    }
}
