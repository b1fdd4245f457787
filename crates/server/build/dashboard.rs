//! Lists the files of the dashboard, which are built already: the service is built without Node.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Writes `dashboard.rs`: a list of pairs of path and content. It is empty if there is no such folder.
pub(super) fn list(folder: &Path) -> Result<(), Box<dyn Error>> {
    // Also if it does not exist: then it may come to be.
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    if folder.is_dir() {
        collect(folder, &mut files)?;
    }
    files.sort();
    let mut text = String::from("&[\n");
    for file in files {
        let path = file.strip_prefix(folder)?.to_str().ok_or("the name of a file is not text")?;
        let whole = fs::canonicalize(&file)?;
        let whole = whole.to_str().ok_or("the name of a folder is not text")?;
        writeln!(text, "    ({path:?}, include_bytes!({whole:?})),")?;
    }
    text.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("dashboard.rs"), text)?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
