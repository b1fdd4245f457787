//! The user that a server runs as: the current one, or another if the current one is root.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

/// The owner of the server's files and processes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Account {
    Ours,
    Other { user: u32, group: u32 },
}

impl Account {
    /// Returns the current user; if that is root, the user `postgres` or `nobody`.
    ///
    /// # Panics
    ///
    /// Panics if the current user is root and there is neither a user `postgres` nor `nobody`.
    pub(super) fn find() -> Self {
        if !geteuid().is_root() {
            return Self::Ours;
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let find = |name: &str| users.lines().find_map(|line| parse(line, name));
        find("postgres").or_else(|| find("nobody")).expect("there is a user postgres or nobody")
    }

    /// Returns a command that runs `program` as this user.
    pub(super) fn command(self, program: &Path) -> Command {
        let Self::Other { user, group } = self else { return Command::new(program) };
        // `setpriv` replaces itself with the program, so the process ID is that of the program.
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
        command.args(["--clear-groups", "--"]).arg(program);
        command
    }

    /// Makes this user the owner of a file or folder.
    pub(super) fn give(self, path: &Path) {
        if let Self::Other { user, group } = self {
            chown(path, Some(user), Some(group)).expect("root may change the owner of files");
        }
    }
}

/// Parses a line `name:password:user:group:…` of `/etc/passwd`, if it is of the user `name`.
fn parse(line: &str, name: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let (found, _password) = (fields.next()?, fields.next()?);
    let (user, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (found == name).then_some(Account::Other { user, group })
}
