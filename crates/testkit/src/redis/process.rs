//! A process of ours that never outlives us.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::wait::until;

/// Waits for the end of its input, which comes with the end of the test's process however that ends, then
/// gives the process named second the signals named first, a second apart, and removes the files named after.
const WATCH: &str = r#"
    read -r end
    for signal in $1; do kill -s "$signal" "$2"; [ "$signal" = KILL ] || sleep 1; done
    shift 2
    exec rm -rf -- "$@""#;

/// A running process, killed with its value.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watcher: Child,
    /// What it leaves behind that nobody else removes.
    leftovers: Vec<PathBuf>,
}

impl Process {
    /// Starts it. If the test's own process is killed, it gets `signals`, and `files` are removed too.
    pub(crate) fn start(
        command: &mut Command,
        signals: &str,
        files: &[PathBuf],
        leftovers: impl FnOnce(u32) -> Vec<PathBuf>,
    ) -> Self {
        let program = command.get_program().to_owned();
        let started = command.spawn();
        let child = started.unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        let leftovers = leftovers(child.id());
        let mut watch = Command::new("sh");
        watch.args(["-c", WATCH, "watcher", signals, &child.id().to_string()]).args(files).args(&leftovers);
        // Its own group: an interrupt at the terminal is for the tests, and it must survive that.
        std::os::unix::process::CommandExt::process_group(&mut watch, 0);
        watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let watcher = watch.spawn().expect("sh starts");
        Self { child, watcher, leftovers }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it where it is.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        until("a process is paused", || (self.state() == Some('T')).then_some(()));
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Gives it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is our child");
    }

    /// The letter of its state: the first thing after its name, which is in brackets.
    fn state(&self) -> Option<char> {
        let line = fs::read_to_string(format!("/proc/{}/stat", self.id())).ok()?;
        line.rsplit_once(") ")?.1.chars().next()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watcher last: until then somebody answers for the process. Either may have ended already.
        for child in [&mut self.child, &mut self.watcher] {
            let _ = child.kill();
            let _ = child.wait();
        }
        for file in &self.leftovers {
            let _ = fs::remove_file(file);
        }
    }
}
