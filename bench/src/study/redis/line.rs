//! A connection to Redis over which scripts are called.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use quanta::Instant;

/// The number of lines in a reply of three numbers.
const ANSWER_LINES: usize = 4;
/// Timeout of a reply.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection over which each script call returns three numbers.
pub(super) struct Line {
    pub(super) stream: TcpStream,
    /// Lines received of an incomplete reply.
    lines: usize,
    /// Whether the next byte is the first of a line.
    starts: bool,
    buffer: Vec<u8>,
    pub(super) out: Vec<u8>,
    /// The due times of the calls without a reply.
    pub(super) due: VecDeque<Instant>,
}

impl Line {
    pub(super) fn connect(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            lines: 0,
            starts: true,
            buffer: vec![0; 1 << 16],
            out: Vec::new(),
            due: VecDeque::new(),
        })
    }

    /// Waits for some bytes, and returns how many replies they complete.
    pub(super) fn read(&mut self) -> io::Result<usize> {
        let count = self.stream.read(&mut self.buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for byte in &self.buffer[..count] {
            if self.starts && *byte == b'-' {
                let text = String::from_utf8_lossy(&self.buffer[..count]).into_owned();
                return Err(io::Error::other(text));
            }
            self.starts = *byte == b'\n';
            self.lines += usize::from(self.starts);
        }
        let answers = self.lines / ANSWER_LINES;
        self.lines %= ANSWER_LINES;
        Ok(answers)
    }

    /// Reads without waiting, and returns how many replies are complete.
    pub(super) fn read_some(&mut self) -> io::Result<usize> {
        match self.read() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    pub(super) fn write_some(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
