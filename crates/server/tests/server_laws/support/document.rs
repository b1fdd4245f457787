//! Documents whose commands are run, and whose output is compared.
//!
//! - A `yaml` block whose first line is a comment with a file name is written to that file.
//! - A `sh` block is run. All blocks of a document run in one shell, in order, in an empty folder.
//! - A `text` block right after a `sh` block is what that one prints. `…` stands for any text within a
//!   line, and on a line of its own for any lines.
//! - Ports are replaced by free ones everywhere, so that documents can run at the same time.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::{envoy, ports};

/// The ports that documents may use; other numbers stay as they are.
const PORTS: [u16; 11] = [3000, 6070, 8000, 8080, 8081, 9901, 10000, 16070, 16379, 18080, 18081];

/// How long a document may take: far more than it ever does.
const PATIENCE: Duration = Duration::from_mins(4);
const LOOK: Duration = Duration::from_millis(20);

/// A document.
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
    /// Files that lie where the commands are run, by their names.
    files: Vec<(PathBuf, String)>,
    /// Variables that its commands are run with.
    environment: Vec<(&'static str, &'static str)>,
}

/// A fenced block.
pub(crate) struct Block {
    /// What it is: `sh`, `yaml`, `text`.
    pub(crate) kind: String,
    pub(crate) text: String,
    /// The line of its fence.
    pub(crate) line: usize,
    /// The index of the `sh` block whose output it is.
    output_of: Option<usize>,
}

impl Document {
    /// Reads a document, named from the workspace on.
    pub(crate) fn read(name: &str) -> Self {
        let text = fs::read_to_string(envoy::workspace().join(name)).expect("the document is there");
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        // Whether something other than empty lines stands between this block and the last.
        let mut apart = true;
        for (line, content) in (1..).zip(text.lines()) {
            match content.strip_prefix("```") {
                Some(_) if open => (open, apart) = (false, false),
                Some(kind) => {
                    let last = blocks.len().checked_sub(1).filter(|_| !apart);
                    let output_of = last.filter(|last| kind == "text" && blocks[*last].kind == "sh");
                    blocks.push(Block { kind: kind.to_owned(), text: String::new(), line, output_of });
                    open = true;
                }
                None if open => {
                    if let Some(block) = blocks.last_mut() {
                        block.text.push_str(content);
                        block.text.push('\n');
                    }
                }
                None => apart |= !content.trim().is_empty(),
            }
        }
        Self { name: name.to_owned(), blocks, files: Vec::new(), environment: Vec::new() }
    }

    /// Reads the README of a folder whose commands are run beside the folder's files.
    pub(crate) fn of_folder(name: &str) -> Self {
        let mut document = Self::read(&format!("{name}/README.md"));
        let root = envoy::workspace().join(name);
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(&path).expect("a text");
                    let name = path.strip_prefix(&root).expect("it is in the folder").to_owned();
                    document.files.push((name, text));
                }
            }
        }
        document
    }

    /// Runs its commands with a variable. For deadlines: what a document shows is not about time, and a machine that
    /// has other things to do may miss one.
    pub(crate) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    /// Replaces a text that its files have, for deadlines that are not settings of the service.
    pub(crate) fn replace(mut self, text: &str, by: &str) -> Self {
        assert!(self.blocks.iter().any(|block| block.text.contains(text)), "{}: {text} is gone", self.name);
        self.blocks.iter_mut().for_each(|block| block.text = block.text.replace(text, by));
        self
    }

    /// Runs it, and fails where something fails or prints something else than the document shows.
    pub(crate) fn run(mut self) {
        let ports: Vec<(u16, u16)> = PORTS.iter().map(|port| (*port, ports::free())).collect();
        for block in &mut self.blocks {
            block.text = with_ports(&block.text, &ports);
        }
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in &self.files {
            let path = folder.path().join("work").join(name);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
            fs::write(path, with_ports(text, &ports)).expect("a file");
        }
        let status = Shell::start(&folder, &self.script(), &ports, &self.environment).wait();
        let output = |index: usize| {
            let text = fs::read_to_string(folder.path().join(format!("out/{index}"))).unwrap_or_default();
            text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
        };
        let ran = |index: usize| folder.path().join(format!("out/{index}.ok")).exists();
        let name = &self.name;
        for (index, block) in self.blocks.iter().enumerate().filter(|(_, block)| block.kind == "sh") {
            let said = output(index).join("\n");
            assert!(ran(index), "{name}:{}: the commands fail ({status}):\n{said}", block.line);
        }
        for block in &self.blocks {
            let Some(of) = block.output_of else { continue };
            let (expected, found): (Vec<_>, _) =
                (block.text.lines().map(str::trim_end).collect(), output(of));
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            let (line, said) = (block.line, found.join("\n"));
            assert!(fits(&expected, &found), "{name}:{line}: expected\n{}\nfound\n{said}", block.text);
        }
    }

    /// One script of all blocks; what each prints goes to a file of its own.
    fn script(&self) -> String {
        let begin = "set -eu -o pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
        let step = |(index, block): (usize, &Block)| {
            let text = &block.text;
            match (block.kind.as_str(), file_of(block)) {
                ("sh", _) => {
                    let out = format!("\"$OUT\"/{index}");
                    format!("{{\n{text}}} > {out} 2>&1\ntouch {out}.ok\n")
                }
                ("yaml", Some(file)) => format!(
                    "mkdir -p \"$(dirname '{file}')\"\ncat > '{file}' <<'END OF BLOCK'\n{text}END OF BLOCK\n"
                ),
                _ => String::new(),
            }
        };
        [begin].into_iter().chain(self.blocks.iter().enumerate().map(step)).collect()
    }
}

/// The file that a block is the content of.
pub(crate) fn file_of(block: &Block) -> Option<&str> {
    let name = block.text.lines().next()?.strip_prefix("# ")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    (name.contains('.') && name.chars().all(plain)).then_some(name)
}

/// The text with every port replaced. A port is a whole number, not a part of a longer word.
fn with_ports(text: &str, ports: &[(u16, u16)]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest[start..].find(|c: char| !part(c)).unwrap_or(rest.len() - start);
        let (before, word) = (&rest[..start], &rest[start..start + length]);
        let inside = before.ends_with(part);
        let found = ports.iter().find(|(port, _)| !inside && port.to_string() == word);
        replaced.push_str(before);
        match found {
            Some((_, free)) => replaced.push_str(&free.to_string()),
            None => replaced.push_str(word),
        }
        rest = &rest[start + length..];
    }
    replaced + rest
}

/// Whether lines are what is expected.
fn fits(expected: &[&str], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((&"…", rest)) => (0..=found.len()).any(|skipped| fits(rest, &found[skipped..])),
        Some((first, rest)) => {
            found.split_first().is_some_and(|(line, more)| line_fits(first, line) && fits(rest, more))
        }
    }
}

pub(crate) fn line_fits(expected: &str, found: &str) -> bool {
    match expected.split_once('…') {
        None => expected == found,
        Some((before, after)) => found.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| line_fits(after, &rest[at..]))
        }),
    }
}

/// A shell and all that it started, which end with it.
struct Shell(Child);

impl Shell {
    fn start(folder: &TempDir, script: &str, ports: &[(u16, u16)], environment: &[(&str, &str)]) -> Self {
        let place = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).expect("a folder");
            path
        };
        let (bin, out, work) = (place("bin"), place("out"), place("work"));
        fs::write(folder.path().join("script"), script).expect("the script is written");
        // Several run at once, and each is to be small.
        let envoy = envoy::program();
        let options = "--use-dynamic-base-id --concurrency 1";
        program(&bin.join("envoy"), &format!("exec '{}' {options} \"$@\"", envoy.display()));
        program(&bin.join("tidegate"), &format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_tidegate")));
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.arg(folder.path().join("script")).current_dir(work);
        command.env("PATH", format!("{}:{path}", bin.display())).env("OUT", out);
        // Whoever runs the tests may have settings of their own.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TIDEGATE_"))
        {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", folder.path().join("config"));
        // The ports of a service that is told nothing.
        for (listener, usual) in [("GRPC", 8081), ("HTTP", 8080), ("ADMIN", 6070)] {
            let free = ports.iter().find(|(port, _)| *port == usual).map_or(usual, |(_, free)| *free);
            command.env(format!("TIDEGATE_{listener}__LISTEN"), format!("127.0.0.1:{free}"));
            if listener == "ADMIN" {
                command.env("TIDEGATE_ADMIN", format!("http://127.0.0.1:{free}"));
            }
        }
        command.envs(environment.iter().copied());
        let said = File::create(folder.path().join("out/shell")).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Self(command.process_group(0).spawn().expect("bash runs"))
    }

    fn wait(mut self) -> String {
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if let Some(status) = self.0.try_wait().expect("it is our child") {
                return ExitStatus::to_string(&status);
            }
            thread::sleep(LOOK);
        }
        format!("no end after {PATIENCE:?}")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The group is the shell's own: what it started is in it, and nothing else.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

fn program(path: &Path, line: &str) {
    fs::write(path, format!("#!/bin/sh\n{line}\n")).expect("it is written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn an_ellipsis_stands_for_any_text() {
    assert!(fits(&["a…c", "…", "d"], &["abc", "x", "y", "d"]) && fits(&["…"], &[]));
    assert!(!fits(&["a…c"], &["abd"]) && !fits(&["a"], &["a", "b"]) && !fits(&["a", "b"], &["a"]));
}

#[test]
fn only_whole_numbers_are_ports() {
    let ports = [(8080, 1), (3000, 2)];
    assert_eq!(with_ports("a:8080 18080 8080x 80_8080 3000/", &ports), "a:1 18080 8080x 80_8080 2/");
}
