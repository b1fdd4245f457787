//! A service under attack, a good client beside it, and the table of what was seen.
#![expect(clippy::disallowed_methods, reason = "attacks on another process happen in real time")]

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_testkit::processor_waits::{ProcessorWaits, Waited};

use crate::support::service::{PATIENCE, Service, Setup, get};

pub(super) const RULES: &str = "
domain: api
inline_limits: {max: 1000}
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 100000000}}
  - {key: once, limits: [{name: once, algorithm: fixed_window, requests: 1, per: 365d}]}
";

/// The memory that the service may use in every attack, unless the attack says otherwise.
pub(super) const MEMORY_BYTES: u64 = 192 << 20;
/// What a good client waits for an answer at most: far more than it ever should.
const GOOD_PATIENCE: Duration = Duration::from_secs(5);
/// What the 99th percentile of a good client may be under an attack, without what it and the service waited for a
/// processor. The service is not optimised here, and several attacks may be running; the study `floods` in bench/ has
/// the figures of a release.
const MOST_P99: Duration = Duration::from_millis(500);
const BETWEEN: Duration = Duration::from_millis(5);

/// Whether the long form runs.
pub(super) fn is_full() -> bool {
    std::env::var("TIDEGATE_ATTACK").is_ok_and(|form| form == "full")
}

/// The one in the short form, the other in the long one.
pub(super) fn either<T>(short: T, full: T) -> T {
    if is_full() { full } else { short }
}

/// How long an attack goes on that goes on.
pub(super) fn duration() -> Duration {
    either(Duration::from_millis(300), Duration::from_secs(5))
}

/// The service under attack.
pub(super) struct Arena {
    pub(super) service: Service,
    name: &'static str,
    tried: String,
    good: Option<GoodClient>,
    calm: Vec<Duration>,
    waits: Option<ProcessorWaits>,
    most_resident: u64,
}

impl Arena {
    /// Starts the service and lets a good client ask for a while, undisturbed.
    pub(super) fn new(name: &'static str, setup: Setup) -> Self {
        let setup = setup.with("memory.max_bytes", &MEMORY_BYTES.to_string());
        let service = setup.start();
        let good = GoodClient::start(service.http);
        thread::sleep(either(Duration::from_millis(100), Duration::from_secs(1)));
        let calm = good.stop().took(&Waited::default());
        let waits = ProcessorWaits::start();
        waits.add_process(service.pid());
        let good = Some(GoodClient::start(service.http));
        let most_resident = service.resident_bytes();
        Self { service, name, tried: String::new(), good, calm, waits: Some(waits), most_resident }
    }

    /// What is tried, for the table.
    pub(super) fn tries(&mut self, what: impl Into<String>) {
        self.tried = what.into();
    }

    /// Looks at the service in the middle of it: it lives, is healthy, and stays within its memory.
    pub(super) fn look(&mut self) {
        assert!(self.service.runs(), "{}: the service has ended", self.name);
        for path in ["/healthcheck", "/readyz", "/metrics"] {
            let answer = get(self.service.admin, path);
            assert_eq!(answer.status, 200, "{}: {path}: {}", self.name, answer.body);
        }
        self.most_resident = self.most_resident.max(self.service.resident_bytes());
        assert!(
            self.most_resident <= MEMORY_BYTES,
            "{}: {} MiB are used of {}",
            self.name,
            self.most_resident >> 20,
            MEMORY_BYTES >> 20
        );
    }

    /// Does the same again and again while the attack is to last.
    pub(super) fn keep_up(&mut self, mut attack: impl FnMut(&mut Self)) {
        let end = Instant::now() + duration();
        loop {
            attack(self);
            self.look();
            if Instant::now() >= end {
                return;
            }
        }
    }

    /// Ends it: the good client was served all along. Writes the row.
    pub(super) fn held(mut self, seen: &str) {
        self.look();
        let served = self.good.take().map(GoodClient::stop).unwrap_or_default();
        let waited = self.waits.take().map(ProcessorWaits::stop).unwrap_or_default();
        assert!(!served.calls.is_empty(), "{}: the good client got no answer", self.name);
        let judged = p99(&served.took(&waited));
        assert!(judged < MOST_P99, "{}: the good client waited {judged:?}", self.name);
        let columns = [
            self.name.to_owned(),
            std::mem::take(&mut self.tried),
            seen.to_owned(),
            format!("{} MiB", self.most_resident >> 20),
            format!("{} / {}", p99_ms(&self.calm), p99_ms(&served.took(&Waited::default()))),
            served.reconnections.to_string(),
            "held".to_owned(),
        ];
        write_row(&columns);
    }
}

/// Somebody who asks on a connection of their own, and again on a new one now and then.
pub(super) struct GoodClient {
    stop: Arc<AtomicBool>,
    asks: JoinHandle<Served>,
}

/// What a good client got.
#[derive(Default)]
pub(super) struct Served {
    /// When each answer was asked for, and when it came.
    calls: Vec<(tokio::time::Instant, tokio::time::Instant)>,
    /// Connections that were closed before an answer, and opened again.
    reconnections: u64,
}

impl GoodClient {
    pub(super) fn start(at: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let asks = thread::spawn(move || {
            let mut served = Served::default();
            while !told.load(Relaxed) {
                let mut stream = connect(at);
                for _ in 0..10 {
                    served.ask(at, &mut stream);
                    thread::sleep(BETWEEN);
                }
            }
            served
        });
        Self { stop, asks }
    }

    /// What it got. Panics if an answer was not 200, or did not come.
    pub(super) fn stop(self) -> Served {
        self.stop.store(true, Relaxed);
        self.asks.join().expect("the good client was served")
    }
}

impl Served {
    /// How long each answer took, without what was `waited` for a processor meanwhile.
    fn took(&self, waited: &Waited) -> Vec<Duration> {
        let took = |(begin, end): &(tokio::time::Instant, tokio::time::Instant)| {
            (*end - *begin).saturating_sub(waited.between(*begin, *end))
        };
        self.calls.iter().map(took).collect()
    }

    /// Asks until there is an answer. A connection that is closed before is opened again, as every HTTP client does: a
    /// crowd that connects in between can make the oldest one leave before it has asked.
    fn ask(&mut self, at: SocketAddr, stream: &mut TcpStream) {
        let begin = tokio::time::Instant::now();
        while let Err(error) = ask(stream) {
            assert!(begin.elapsed() < GOOD_PATIENCE, "no answer in time: {error}");
            self.reconnections += 1;
            *stream = connect(at);
        }
        let end = tokio::time::Instant::now();
        self.calls.push((begin, end));
    }
}

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(GOOD_PATIENCE)).expect("a time-out");
    stream.set_nodelay(true).expect("an option");
    stream
}

/// Asks once; an error if the connection is closed before an answer. Panics if the answer is not 200.
fn ask(stream: &mut TcpStream) -> io::Result<()> {
    let body = r#"{"domain":"api","descriptor":{"user":"good"}}"#;
    let length = body.len();
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: \
         {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&answer) {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..read]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    Ok(())
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}

fn p99(took: &[Duration]) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort();
    let at = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

fn p99_ms(took: &[Duration]) -> String {
    let tenths = p99(took).as_micros() / 100;
    format!("{}.{} ms", tenths / 10, tenths % 10)
}

/// Opens connections and sends each the same, as fast as it goes; who is not let in is let go.
pub(super) fn crowd(at: SocketAddr, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = TcpStream::connect(at).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(Duration::from_secs(1))).ok()?;
        let _ = stream.write_all(bytes);
        Some(stream)
    };
    (0..count).filter_map(open).collect()
}

/// How many of these connections the service has answered with this status so far.
pub(super) fn answered(streams: &[TcpStream], status: u16) -> usize {
    let expected = format!("HTTP/1.1 {status}");
    let is_so = |mut stream: &TcpStream| {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
        let mut start = [0; 12];
        stream.read_exact(&mut start).is_ok() && start == *expected.as_bytes()
    };
    streams.iter().filter(|stream| is_so(stream)).count()
}

/// Adds a row to the table, in a file that `make attack` prints.
fn write_row(columns: &[String; 7]) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attack.md");
    let mut row = String::from("|");
    for column in columns {
        let _ = write!(row, " {column} |");
    }
    row.push('\n');
    let _ = fs::create_dir_all(env!("CARGO_TARGET_TMPDIR"));
    let mut table = OpenOptions::new().append(true).create(true).open(file).expect("a file");
    table.write_all(row.as_bytes()).expect("a row");
}
