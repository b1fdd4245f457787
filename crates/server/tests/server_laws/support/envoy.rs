//! Where Envoy is.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the whole project.
pub(crate) fn workspace() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.canonicalize().expect("the crate is in the workspace")
}

/// Envoy's program: `TIDEGATE_ENVOY`, else `envoy` on the `PATH`, else what `make test-tools` installs.
pub(crate) fn program() -> PathBuf {
    if let Some(named) = env::var_os("TIDEGATE_ENVOY") {
        return named.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = env::split_paths(&path).map(|folder| folder.join("envoy")).collect();
    places.push(workspace().join(".tools/envoy/bin/envoy"));
    let found = places.into_iter().find(|place| place.is_file());
    found.expect("Envoy is missing: `make test-tools` installs it, or name one in TIDEGATE_ENVOY")
}
