//! Parses rule files: YAML to the [`model`](super::model), or to every mistake with its position.
//!
//! A file has one domain, in a superset of the format of envoyproxy/ratelimit. [`load`] reads a text,
//! [`load_path`] a file or a folder of files.
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
//! - `folder`: files and folders
//! - `domain`, `descriptor`, `store`, `limit`, `tiers`, `window`, `metadata`, `forward_auth`: the parts of a
//!   file
//! - `value`, `fields`: values and mappings, read as the type of their field
//! - `report`, `words`: mistakes and their messages

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

/// The largest rule file. Larger ones are rejected without reading them.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Parses the rules of one domain. `source` is the name of the file, for messages.
///
/// # Errors
/// Returns every mistake in the text, in order. A syntax error is the only one.
pub fn load(source: &str, text: &str, defaults: &Defaults) -> Result<Domain, Problems> {
    read(source, text, *defaults).domain
}

/// The result of reading a file: the domain or its mistakes. The name is known even if there are other
/// mistakes, so that a domain that is defined twice is reported together with them.
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
