//! A server that speaks the protocol of Redis and answers what it likes.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A server that replies to every command with the bytes that a function makes of it.
#[derive(Debug)]
pub struct Impostor {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

/// The bytes to answer a command with; none to hang up.
type Answer = dyn Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync;

impl Impostor {
    /// Starts one on a port of its own.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub fn start(answer: impl Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let stopped = Arc::new(AtomicBool::new(false));
        let (stop, answer) = (Arc::clone(&stopped), Arc::new(answer) as Arc<Answer>);
        thread::spawn(move || {
            for stream in listener.incoming().flatten().take_while(|_| !stop.load(Ordering::Relaxed)) {
                let answer = Arc::clone(&answer);
                // Whoever hangs up ends it.
                thread::spawn(move || _ = serve(stream, &*answer));
            }
        });
        Self { address, stopped }
    }

    /// `redis://` and its address.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes it, so that it sees that.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(stream: TcpStream, answer: &Answer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(command) = read_command(&mut reader)? {
        match answer(&command) {
            Some(bytes) => writer.write_all(&bytes)?,
            None => break,
        }
    }
    Ok(())
}

/// `*2`, then each word as its length and its bytes.
fn read_command(reader: &mut impl BufRead) -> io::Result<Option<Vec<Vec<u8>>>> {
    let Some(count) = read_number(reader, '*')? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..count {
        let Some(length) = read_number(reader, '$')? else { return Ok(None) };
        let mut word = vec![0; length + 2];
        reader.read_exact(&mut word)?;
        word.truncate(length);
        words.push(word);
    }
    Ok(Some(words))
}

fn read_number(reader: &mut impl BufRead, kind: char) -> io::Result<Option<usize>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.strip_prefix(kind).and_then(|number| number.trim_end().parse().ok()))
}
