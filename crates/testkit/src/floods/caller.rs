//! A well-behaved client that runs beside the floods.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tidegate_http2::frame::{self, Frame, HEADER_BYTES, PREFACE, flag, kind};

use super::{CHECK, head, message};

/// The timeout of a response: far longer than it should ever take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client of the gRPC listener that requests one decision at a time, on one connection.
///
/// ```no_run
/// use tidegate_testkit::floods::Caller;
///
/// let mut caller = Caller::connect("127.0.0.1:8081".parse().unwrap()).unwrap();
/// caller.check("api", "user", "ann").unwrap();
/// ```
#[derive(Debug)]
pub struct Caller {
    stream: TcpStream,
    next: u32,
    received: Vec<u8>,
    /// Bytes of responses received since the window was last enlarged.
    taken: u32,
}

impl Caller {
    /// Connects and sends the connection preface.
    ///
    /// # Errors
    /// Returns an error if no server listens at the address.
    pub fn connect(at: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut greeting = PREFACE.to_vec();
        frame::write_settings(&mut greeting, &[]);
        stream.write_all(&greeting)?;
        Ok(Self { stream, next: 1, received: Vec::new(), taken: 0 })
    }

    /// Requests a decision on one descriptor with one entry, and waits for any response.
    ///
    /// # Errors
    /// Returns an error if the connection ends first, or the stream is reset.
    pub fn check(&mut self, domain: &str, key: &str, value: &str) -> io::Result<()> {
        let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8][..], bytes].concat();
        let entry = [field(0x0a, key.as_bytes()), field(0x12, value.as_bytes())].concat();
        let request = [field(0x0a, domain.as_bytes()), field(0x12, &field(0x0a, &entry))].concat();
        let (body, block, stream) = (message(&request), head(CHECK), self.next);
        self.next += 2;
        let mut bytes = Vec::with_capacity(256);
        if self.taken > 16 << 10 {
            frame::write_window_update(&mut bytes, 0, std::mem::take(&mut self.taken));
        }
        frame::write_header(&mut bytes, block.len(), kind::HEADERS, flag::END_HEADERS, stream);
        bytes.extend(block);
        frame::write_header(&mut bytes, body.len(), kind::DATA, flag::END_STREAM, stream);
        bytes.extend(body);
        self.stream.write_all(&bytes)?;
        while !self.take_frames(stream)? {
            let mut buffer = [0; 4096];
            let read = self.stream.read(&mut buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&buffer[..read]);
        }
        Ok(())
    }

    /// Processes the received frames. Returns whether one of them ends the response on this stream.
    fn take_frames(&mut self, stream: u32) -> io::Result<bool> {
        let broken = |what: &str| io::Error::other(format!("the service sent {what}"));
        let (mut at, mut has_ended) = (0, false);
        while let Some(found) =
            Frame::parse(&self.received[at..]).map_err(|_| broken("a frame that is too long"))?
        {
            at += HEADER_BYTES + found.payload.len();
            if found.kind == kind::GOAWAY || (found.kind == kind::RST_STREAM && found.stream == stream) {
                return Err(broken("no answer but a reset or a farewell"));
            }
            if found.kind == kind::DATA {
                self.taken += found.payload.len() as u32;
            }
            has_ended |= found.stream == stream && found.has(flag::END_STREAM);
        }
        self.received.drain(..at);
        Ok(has_ended)
    }
}
