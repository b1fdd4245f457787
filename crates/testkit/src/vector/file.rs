//! The vector files: JSON with one step per line, so that people can read and compare them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tidegate_core::MAX_COUNT;

use super::Vector;

/// Returns the path of the vector file of an algorithm.
pub fn file_of(algorithm: &str) -> PathBuf {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src/algorithm");
    core.join(algorithm).join("vectors.json")
}

/// Reads the vectors of an algorithm.
///
/// # Panics
/// Panics if there is no such file or it is invalid.
pub fn load(algorithm: &str) -> Vec<Vector> {
    let file = file_of(algorithm);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Formats vectors as JSON with one step per line.
///
/// # Panics
/// Panics if a number is above 2^53, which not every language can read exactly.
pub fn format(vectors: &[Vector]) -> String {
    let listed: Vec<_> = vectors.iter().map(format_vector).collect();
    format!("[\n{}\n]\n", listed.join(",\n"))
}

fn format_vector(vector: &Vector) -> String {
    let steps: Vec<_> = vector.steps.iter().map(|step| format!("      {}", line(step))).collect();
    let mut text = String::new();
    let (name, limit) = (line(&vector.name), line(&vector.limit));
    write!(text, "  {{\n    \"name\": {name},\n    \"limit\": {limit},\n    \"steps\": [\n")
        .and_then(|()| write!(text, "{}\n    ]\n  }}", steps.join(",\n")))
        .expect("writing to a string does not fail");
    text
}

/// Formats a value as JSON on one line, with spaces after colons and commas.
fn line(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("vectors are plain data");
    spaced(&value)
}

fn spaced(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("\"{name}\": {}", spaced(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        serde_json::Value::Number(number) => {
            let exact = number.as_u64().is_some_and(|number| number <= MAX_COUNT);
            assert!(exact, "{number} is above 2^53: not every language can read it");
            number.to_string()
        }
        other => other.to_string(),
    }
}
