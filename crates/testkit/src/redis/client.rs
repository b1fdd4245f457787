//! A client of the Redis protocol for tests: one command, one reply.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A connection to a server that sends one command at a time.
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// The reply of a server to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// There is no such value.
    Nil,
    /// A status such as `OK`.
    Status(String),
    /// The server rejected the command with this message.
    Error(String),
    /// A number.
    Integer(i64),
    /// A byte string.
    Bulk(Vec<u8>),
    /// Several replies.
    Array(Vec<Reply>),
}

impl Client {
    /// Connects. `timeout` applies to connecting and to every later read and write.
    ///
    /// # Errors
    ///
    /// Returns an error if no server listens at the address, or connecting takes too long.
    pub fn connect(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    pub(super) fn connect_local(socket: &Path, timeout: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    /// Sends a command and waits for its reply. After an error the connection must not be used again.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection breaks or times out. A command that the server rejects is
    /// `Ok` with [`Reply::Error`].
    pub fn ask<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<Reply> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for argument in command {
            let argument = argument.as_ref();
            bytes.extend(format!("${}\r\n", argument.len()).as_bytes());
            bytes.extend(argument);
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let Some((kind, rest)) = line.split_at_checked(1) else { return Err(invalid_reply(&line)) };
        match kind {
            "+" => Ok(Reply::Status(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => rest.parse().map(Reply::Integer).map_err(|_| invalid_reply(&line)),
            "$" | "*" if rest == "-1" => Ok(Reply::Nil),
            "$" => {
                let count: usize = rest.parse().map_err(|_| invalid_reply(&line))?;
                let mut bytes = vec![0; count + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(count);
                Ok(Reply::Bulk(bytes))
            }
            "*" => {
                let count: usize = rest.parse().map_err(|_| invalid_reply(&line))?;
                (0..count).map(|_| self.read()).collect::<io::Result<_>>().map(Reply::Array)
            }
            _ => Err(invalid_reply(&line)),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        let shorter = line.trim_end_matches(['\r', '\n']).len();
        line.truncate(shorter);
        Ok(line)
    }
}

fn invalid_reply(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a valid Redis reply: {line:?}"))
}

impl Reply {
    /// Returns whether the reply is [`Reply::Nil`].
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Returns the message, if the reply is an error.
    pub fn error(&self) -> Option<&str> {
        if let Self::Error(text) = self { Some(text) } else { None }
    }

    /// Returns a status, string or number as text.
    ///
    /// # Panics
    ///
    /// Panics if the reply is anything else.
    pub fn text(&self) -> String {
        match self {
            Self::Status(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Integer(number) => number.to_string(),
            other => panic!("{other:?} is not text"),
        }
    }

    /// Returns a number, including one that is sent as a string.
    ///
    /// # Panics
    ///
    /// Panics if the reply is anything else.
    pub fn integer(&self) -> i64 {
        self.text().parse().unwrap_or_else(|_| panic!("{self:?} is not a number"))
    }

    /// Returns the replies of an array.
    ///
    /// # Panics
    ///
    /// Panics if the reply is anything else.
    pub fn items(&self) -> &[Reply] {
        if let Self::Array(items) = self { items } else { panic!("{self:?} is not an array") }
    }
}
