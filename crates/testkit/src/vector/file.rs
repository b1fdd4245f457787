//! The files the vectors are kept in: one step a line, so that they can be read and compared.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tidegate_core::MAX_COUNT;

use super::Vector;

/// Where the vectors of an algorithm are.
pub fn file_of(algorithm: &str) -> PathBuf {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src/algorithm");
    core.join(algorithm).join("vectors.json")
}

/// The vectors of an algorithm.
///
/// # Panics
/// If there are none, or they cannot be read.
pub fn load(algorithm: &str) -> Vec<Vector> {
    let file = file_of(algorithm);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Vectors as text: JSON, one step a line.
///
/// # Panics
/// If a number is above 2^53, where not every language can read it exactly.
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

/// A value on one line, with spaces where people put them.
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
