//! As whom the server runs: as ourselves, except that root must not.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

/// Whose the server's files and processes are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Account {
    Ours,
    Other { user: u32, group: u32 },
}

impl Account {
    /// # Panics
    ///
    /// If we are root and there is neither a user `postgres` nor `nobody`.
    pub(super) fn find() -> Self {
        if !geteuid().is_root() {
            return Self::Ours;
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let find = |name: &str| users.lines().find_map(|line| parse(line, name));
        find("postgres").or_else(|| find("nobody")).expect("there is a user postgres or nobody")
    }

    /// A command that runs as this one.
    pub(super) fn command(self, program: &Path) -> Command {
        let Self::Other { user, group } = self else { return Command::new(program) };
        // It becomes the program, so that its number is the program's.
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
        command.args(["--clear-groups", "--"]).arg(program);
        command
    }

    /// Makes a file or folder theirs.
    pub(super) fn give(self, path: &Path) {
        if let Self::Other { user, group } = self {
            chown(path, Some(user), Some(group)).expect("root gives what it likes");
        }
    }
}

/// `name:password:user:group:…`
fn parse(line: &str, name: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let (found, _password) = (fields.next()?, fields.next()?);
    let (user, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (found == name).then_some(Account::Other { user, group })
}
