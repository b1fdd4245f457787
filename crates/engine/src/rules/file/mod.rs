//! Rule files: YAML in, the [`model`](super::model) out, or every mistake at its place.
//!
//! A file holds one domain, in a superset of what envoyproxy/ratelimit reads. [`load`] reads a text,
//! [`load_path`] a file or a folder of them.
//!
//! ```
//! use tidegate::rules::file;
//!
//! let rules = "
//! domain: api
//! descriptors:
//!   - key: api_key
//!     rate_limit: { unit: minute, requests_per_unit: many }
//! ";
//! let problems = file::load("api.yaml", rules, &tidegate::Defaults::default()).unwrap_err();
//! assert_eq!(
//!     problems.to_string(),
//!     "api.yaml:5:52: descriptors[0].rate_limit.requests_per_unit: \
//!      must be a whole number from 0 to 4294967295, got \"many\""
//! );
//! ```
//!
//! # Layout
//!
//! - `folder`: from a path to texts
//! - `domain`, `descriptor`, `store`, `limit`, `tiers`, `window`, `metadata`, `forward_auth`: one noun of the
//!   file each
//! - `value`, `fields`: a value read as what its field is
//! - `report`, `words`: mistakes, and how they are worded

mod descriptor;
mod domain;
mod fields;
mod folder;
mod forward_auth;
mod limit;
mod metadata;
mod report;
mod store;
mod tiers;
mod value;
mod window;
#[doc(hidden)]
pub mod words;

pub(crate) use folder::is_rule_file;
pub use folder::load_path;
#[doc(hidden)]
pub use window::{micros, window_of};

use super::limit_spec::Defaults;
use super::model::Domain;
use super::problem::{Place, Problem, Problems};
use super::yaml::{self, Fault};
use report::{Path, Report};
use value::Value;

/// A longer file is refused unread.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Reads the rules of one domain. `source` is the file's name, for messages.
///
/// # Errors
/// Every mistake of the text, in its order; a syntax error is alone.
pub fn load(source: &str, text: &str, defaults: &Defaults) -> Result<Domain, Problems> {
    read(source, text, *defaults).domain
}

/// What came of a file: the domain, or what is wrong with it. The name is known even where
/// something else is wrong, so that a domain that is defined twice is noticed at once.
struct Outcome {
    name: Option<(String, Place)>,
    domain: Result<Domain, Problems>,
}

fn read(source: &str, text: &str, defaults: Defaults) -> Outcome {
    if text.len() > MAX_FILE_BYTES {
        return Outcome::refused(source, None, too_large(text.len() as u64));
    }
    match yaml::parse(text) {
        Err(Fault { place, message }) => Outcome::refused(source, Some(place), message),
        Ok(None) => Outcome::refused(source, None, "the file is empty; begin with `domain: NAME`".to_owned()),
        Ok(Some(node)) => {
            let top = Value { node: &node, path: Path::TOP };
            let mut reading = domain::Reading::new(defaults, Report::new(source));
            let (mut domain, name) = domain::domain(top, &mut reading);
            source.clone_into(&mut domain.source);
            Outcome { name, domain: reading.report.finish().map(|()| domain) }
        }
    }
}

impl Outcome {
    fn refused(file: &str, place: Option<Place>, message: String) -> Self {
        let problem = Problem { file: file.to_owned(), place, field: String::new(), message };
        Self { name: None, domain: Err(Problems(vec![problem])) }
    }
}

fn too_large(found: u64) -> String {
    format!("the file has {found} bytes, the most is {MAX_FILE_BYTES}; split it into several domains")
}
