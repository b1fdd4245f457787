//! Where connections come from.

use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Type};
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};

use super::stream::Stream;
use crate::config::Listen;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A bound socket.
pub enum Socket {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket, and its file, which goes when the socket does.
    Unix(UnixListener, UnixFile),
}

/// Why a listener could not start.
#[derive(Debug, Error)]
#[error("cannot listen on {listen} ({setting}): {reason}")]
pub struct BindError {
    /// The setting that names the address.
    pub setting: &'static str,
    /// The address.
    pub listen: String,
    /// What is wrong, and what to do about it.
    pub reason: String,
}

/// Removes the file of a Unix socket in the end.
pub struct UnixFile(PathBuf);

impl Socket {
    /// Binds, exclusively; a Unix socket with this mode. Needs a runtime.
    ///
    /// # Errors
    /// If the address is taken, not ours or not to be had.
    pub fn bind(listen: &Listen, setting: &'static str, socket_mode: u32) -> Result<Self, BindError> {
        let bound = match listen {
            Listen::Tcp { host, port } => bind_tcp(host, *port),
            Listen::Unix(path) => bind_unix(path, socket_mode),
            Listen::Off => Err(io::Error::other("it is off")),
        };
        bound.map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => "; stop the other process, or choose another address",
                io::ErrorKind::PermissionDenied => "; choose a port above 1023, or a folder that is writable",
                io::ErrorKind::AddrNotAvailable => "; no network interface has this address",
                _ => "",
            };
            BindError { setting, listen: listen.to_string(), reason: format!("{error}{remedy}") }
        })
    }

    /// The next connection.
    ///
    /// # Errors
    /// If there are no more descriptors, say; the socket goes on.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream.into_std()?))
            }
            Self::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0.into_std()?)),
        }
    }

    /// Where it listens, as an address or a path; the port is the one the system chose.
    pub fn place(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string())
            }
            Self::Unix(_, file) => format!("unix:{}", file.0.display()),
        }
    }

    /// Whether other machines may reach it.
    pub fn is_exposed(&self) -> bool {
        self.address().is_some_and(|at| !at.ip().is_loopback())
    }

    /// The address, if it is one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }
}

fn bind_tcp(host: &str, port: u16) -> io::Result<Socket> {
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match bind_address(address) {
            Ok(listener) => return Ok(Socket::Tcp(listener)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_address(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart may bind again at once; two processes at the same time may not.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A socket left behind by a process that is gone is taken over; one that somebody listens on is not.
fn bind_unix(path: &Path, mode: u32) -> io::Result<Socket> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens on it"));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // From here on the file goes if anything is wrong.
    let file = UnixFile(path.to_owned());
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(Socket::Unix(listener, file))
}

impl Drop for UnixFile {
    fn drop(&mut self) {
        // It may have been removed already, and then there is nothing to do.
        let _ = fs::remove_file(&self.0);
    }
}
