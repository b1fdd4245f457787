//! A child process that never outlives the test process.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::wait::until;

/// Shell script of the watcher. Waits until its input is closed, which happens when the test process ends in
/// any way. Then sends the signals of argument 1 to the process of argument 2, waiting up to 5 s after each
/// signal other than KILL, and removes the files of the other arguments. Retries the removal once, in case a
/// process was still writing there.
const WATCH: &str = r#"
    read -r end
    signals=$1 process=$2
    shift 2
    for signal in $signals; do
        kill -s "$signal" "$process" || break
        looks=0
        while [ "$signal" != KILL ] && [ $looks -lt 50 ] && kill -0 "$process"; do
            looks=$((looks + 1))
            sleep 0.1
        done
    done
    rm -rf -- "$@" || { sleep 1; exec rm -rf -- "$@"; }"#;

/// A running process that is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watcher: Child,
    /// Files that the process leaves behind and nothing else removes.
    leftovers: Vec<PathBuf>,
}

impl Process {
    /// Starts the process. If the test process is killed, the child gets `signals`, and `files` are removed
    /// together with the `leftovers` of its process ID.
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
        // A process group of its own, so that the watcher survives an interrupt at the terminal.
        std::os::unix::process::CommandExt::process_group(&mut watch, 0);
        watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let watcher = watch.spawn().expect("sh starts");
        Self { child, watcher, leftovers }
    }

    /// Returns the exit status, if the process has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Returns the process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the process with SIGSTOP, and waits until it is stopped.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        until("a process is paused", || (self.state() == Some('T')).then_some(()));
    }

    /// Continues the process with SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is our child");
    }

    /// Returns the state letter from `/proc/PID/stat`: the first field after the name in parentheses.
    fn state(&self) -> Option<char> {
        let line = fs::read_to_string(format!("/proc/{}/stat", self.id())).ok()?;
        line.rsplit_once(") ")?.1.chars().next()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watcher last, so that the child is always watched. Either may have ended already.
        for child in [&mut self.child, &mut self.watcher] {
            let _ = child.kill();
            let _ = child.wait();
        }
        for file in &self.leftovers {
            let _ = fs::remove_file(file);
        }
    }
}
