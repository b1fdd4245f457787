//! Commands that take the whole terminal, in one.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use super::command;
use crate::support::service::{Service, Setup, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]
";
/// The sequence that gives the screen back as it was.
const LEFT: &str = "\u{1b}[?1049l";

/// A command in a terminal of 120 columns and 40 rows.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(service: &Service, args: &str) -> Self {
        let tidegate = env!("CARGO_BIN_EXE_tidegate");
        let line = format!("stty cols 120 rows 40; exec {tidegate} {args}");
        let of_command = command(service.folder.path(), &[]);
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        for (name, value) in of_command.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        script.current_dir(service.folder.path()).env("TERM", "xterm-256color");
        script.env("TIDEGATE_DATA", service.folder.path().join("data"));
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = script.spawn().expect("script, of util-linux, is there");
        let (keys, mut out) =
            (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        let shown = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&shown);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                into.lock().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keys, shown }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads");
    }

    fn expect(&self, text: &str) {
        until(&format!("{text:?} is on the screen"), || self.shown.lock().contains(text));
    }

    fn end(mut self) -> i32 {
        self.expect(LEFT);
        drop(self.keys);
        self.child.wait().expect("it ends").code().expect("no signal ends it")
    }
}

#[test]
fn top_follows_the_node_until_the_user_leaves() {
    let service = Setup::rules(RULES).start();
    for _ in 0..3 {
        service.check("api", r#"{"user":"ann"}"#);
    }
    // By its address, as from another machine.
    let mut top = Terminal::start(&service, &format!("top --admin http://{}", service.admin));
    top.expect("user=ann");
    // What happens meanwhile comes by itself.
    for _ in 0..3 {
        service.check("api", r#"{"user":"zoe"}"#);
    }
    // Only what has changed is drawn, so that the key of the name may be there already.
    top.expect("zoe");
    top.press("2");
    top.expect("enforced");
    top.press("3");
    top.expect("RETRY");
    top.press("q");
    assert_eq!(top.end(), 0);
}

#[test]
fn top_goes_on_asking_a_node_that_is_away() {
    let service = Setup::rules(RULES).start();
    let mut top = Terminal::start(&service, &format!("top --admin http://{}", service.admin));
    top.expect("normal");
    let ended = service.stop();
    top.expect("disconnected");
    drop(ended);
    // Control-C is a key there, and no signal.
    top.press("\u{3}");
    assert_eq!(top.end(), 0);
}

#[test]
fn top_of_a_node_that_is_not_there_fails_and_leaves_the_terminal_alone() {
    let service = Setup::rules(RULES).start();
    let mut top = Terminal::start(&service, "top --admin http://127.0.0.1:1");
    let code = top.child.wait().expect("it ends").code();
    assert_eq!(code, Some(6), "{}", top.shown.lock());
    assert!(!top.shown.lock().contains("\u{1b}[?1049h"));
}
