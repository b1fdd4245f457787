//! The commit that a program is built from: for the build script, and for the law about it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The digits of a commit that are shown: enough to be the only one.
const DIGITS: usize = 12;

/// The commit of a folder, and the files that change when it is another one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkout {
    pub(crate) commit: Option<String>,
    pub(crate) watched: Vec<PathBuf>,
}

/// What git says about a folder whose file `known` is under its care. A copy of the sources that lies in somebody
/// else's repository has no commit.
pub(crate) fn checkout(folder: &Path, known: &str) -> Checkout {
    if git(folder, &["ls-files", "--error-unmatch", known]).is_none() {
        return Checkout::default();
    }
    let commit = git(folder, &["rev-parse", "HEAD"]).and_then(|hash| shortened(&hash));
    // Every way to another commit changes one of these: HEAD is a branch or a commit, the branch a file or packed,
    // and the log of HEAD grows with each. Cargo takes a file that is missing for one that has changed.
    let branch = git(folder, &["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD".to_owned(), "logs/HEAD".to_owned()].into_iter().chain(branch);
    let path = |name: String| Some(folder.join(git(folder, &["rev-parse", "--git-path", &name])?));
    let watched = names.filter_map(path).filter(|path| path.exists()).collect();
    Checkout { commit, watched }
}

/// The first digits of a commit; `None` if it is not one.
pub(crate) fn shortened(hash: &str) -> Option<String> {
    let hash = hash.trim();
    let known = hash.len() >= DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    known.then(|| hash[..DIGITS].to_ascii_lowercase())
}

fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
