//! The socket that a listener accepts connections from.

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

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// A bound socket.
pub enum Socket {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket, and its file, which is removed when this is dropped.
    Unix(UnixListener, UnixFile),
}

/// The error of a listener that cannot bind its address.
#[derive(Debug, Error)]
#[error("cannot listen on {listen} ({listener}.listen): {reason}")]
pub struct BindError {
    /// The name of the listener.
    pub listener: &'static str,
    /// The address that cannot be bound.
    pub listen: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Removes the file of a Unix socket when it is dropped.
pub struct UnixFile(PathBuf);

impl Socket {
    /// Binds an address exclusively. The file of a Unix socket gets the mode `socket_mode`. Must be called in a tokio
    /// runtime.
    ///
    /// # Errors
    /// If the address is in use, not local or not permitted.
    pub fn bind(listen: &Listen, listener: &'static str, socket_mode: u32) -> Result<Self, BindError> {
        let bound = match listen {
            Listen::Tcp { host, port } => bind_tcp(host, *port),
            Listen::Unix(path) => bind_unix(path, socket_mode),
            Listen::Off => Err(io::Error::other("the listener is off")),
        };
        bound.map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => "; stop the other process, or choose another address",
                io::ErrorKind::PermissionDenied => "; choose a port above 1023, or a folder that is writable",
                io::ErrorKind::AddrNotAvailable => "; no network interface has this address",
                _ => "",
            };
            BindError { listener, listen: listen.to_string(), reason: format!("{error}{remedy}") }
        })
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// Returns an error if, for example, the system has no file descriptors left. The socket stays usable.
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

    /// Returns the bound address, with the port that the system chose, or the path of the Unix socket.
    pub fn place(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string())
            }
            Self::Unix(_, file) => format!("unix:{}", file.0.display()),
        }
    }

    /// Returns whether other machines can reach the socket.
    pub fn is_exposed(&self) -> bool {
        self.address().is_some_and(|at| !at.ip().is_loopback())
    }

    /// Returns the TCP address; `None` for a Unix socket.
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
    // Lets a restarted process bind at once; two processes still cannot listen at the same time.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Binds a Unix socket. Replaces the file of a process that has ended, but not one that a process listens on.
fn bind_unix(path: &Path, mode: u32) -> io::Result<Socket> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it"));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // From here on the file is removed if anything fails.
    let file = UnixFile(path.to_owned());
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(Socket::Unix(listener, file))
}

impl Drop for UnixFile {
    fn drop(&mut self) {
        // The file may have been removed already.
        let _ = fs::remove_file(&self.0);
    }
}
