//! A fake Redis server whose replies the test chooses.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A server that replies to every command with the bytes that a function returns for it.
#[derive(Debug)]
pub struct Impostor {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

/// Returns the bytes to reply to a command with, or `None` to close the connection.
type ReplyFn = dyn Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync;

impl Impostor {
    /// Starts a server on a free port. `reply` gets the words of each command and returns the bytes to send,
    /// or `None` to close the connection.
    ///
    /// # Panics
    ///
    /// Panics if there is no free port.
    pub fn start(reply: impl Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let stopped = Arc::new(AtomicBool::new(false));
        let (stop, reply) = (Arc::clone(&stopped), Arc::new(reply) as Arc<ReplyFn>);
        thread::spawn(move || {
            for stream in listener.incoming().flatten().take_while(|_| !stop.load(Ordering::Relaxed)) {
                let reply = Arc::clone(&reply);
                // Ends when either side closes the connection.
                thread::spawn(move || _ = serve(stream, &*reply));
            }
        });
        Self { address, stopped }
    }

    /// Returns the `redis://` URL of the server.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the accepting thread, so that it sees the flag.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(stream: TcpStream, reply: &ReplyFn) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(command) = read_command(&mut reader)? {
        match reply(&command) {
            Some(bytes) => writer.write_all(&bytes)?,
            None => break,
        }
    }
    Ok(())
}

/// Reads a command: `*` and the number of words, then each word as `$` and its length, and its bytes.
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
