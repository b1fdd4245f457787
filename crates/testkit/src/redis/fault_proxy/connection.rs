//! One connection through the proxy.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::Fault;

const CHUNK_BYTES: usize = 16 * 1024;
/// The most chunks in transit in one direction. Beyond that the sender has to wait.
const CHUNKS_IN_TRANSIT: usize = 256;

/// How a connection ends.
enum End {
    Closed,
    Reset,
}

/// Bytes that were read, and when they are to arrive. Empty at the end of the stream.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// Relays a connection until it ends.
pub(super) async fn run(mut client: TcpStream, server: SocketAddr, fault: watch::Receiver<Fault>) {
    let lost = AtomicBool::new(false);
    let end = tokio::select! {
        // The fault first: a connection that it ends is not served any more.
        biased;
        end = ended_by(fault.clone(), &lost) => end,
        () = relay(&mut client, server, fault, &lost) => End::Closed,
    };
    if matches!(end, End::Reset) {
        // With a linger time of zero, closing the socket sends a reset.
        let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
    }
}

/// Waits for a fault that ends the connection.
async fn ended_by(mut fault: watch::Receiver<Fault>, lost: &AtomicBool) -> End {
    loop {
        match *fault.borrow_and_update() {
            Fault::Refuse => return End::Closed,
            Fault::Reset => return End::Reset,
            Fault::BlackHole => {}
            // Bytes are missing, so the stream cannot continue.
            _ if lost.load(Relaxed) => return End::Reset,
            _ => {}
        }
        if fault.changed().await.is_err() {
            return End::Closed;
        }
    }
}

async fn relay(
    client: &mut TcpStream,
    server: SocketAddr,
    mut fault: watch::Receiver<Fault>,
    lost: &AtomicBool,
) {
    if *fault.borrow() == Fault::BlackHole {
        lost.store(true, Relaxed);
    }
    if fault.wait_for(|fault| !matches!(fault, Fault::BlackHole | Fault::Partition)).await.is_err() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    // This fails only if the connection is closed already.
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let (client_reads, client_writes) = client.split();
    let (server_reads, server_writes) = server.split();
    let (requests, for_server) = mpsc::channel(CHUNKS_IN_TRANSIT);
    let (replies, for_client) = mpsc::channel(CHUNKS_IN_TRANSIT);
    let cut = AtomicBool::new(false);
    let request = |bytes: &[u8]| {
        if let Fault::CutAnswer { to } = *fault.borrow()
            && bytes.windows(to.len()).any(|part| part == to.as_bytes())
        {
            cut.store(true, Relaxed);
        }
        Ok(Duration::ZERO)
    };
    let reply = |_: &[u8]| match *fault.borrow() {
        Fault::Delay(delay) => Ok(delay),
        Fault::CutAnswer { .. } if cut.load(Relaxed) => Err(io::ErrorKind::ConnectionAborted.into()),
        _ => Ok(Duration::ZERO),
    };
    // An error of one direction ends both.
    let _ = tokio::try_join!(
        read(client_reads, requests, request),
        write(server_writes, for_server, fault.clone(), lost),
        read(server_reads, replies, reply),
        write(client_writes, for_client, fault.clone(), lost),
    );
}

async fn read(
    mut from: ReadHalf<'_>,
    to: mpsc::Sender<Chunk>,
    late: impl Fn(&[u8]) -> io::Result<Duration>,
) -> io::Result<()> {
    loop {
        let mut bytes = vec![0; CHUNK_BYTES];
        // A close and a reset by the peer both end the stream.
        let count = from.read(&mut bytes).await.unwrap_or(0);
        bytes.truncate(count);
        let chunk = Chunk { due: Instant::now() + late(&bytes)?, bytes };
        if to.send(chunk).await.is_err() || count == 0 {
            return Ok(());
        }
    }
}

async fn write(
    mut to: WriteHalf<'_>,
    mut from: mpsc::Receiver<Chunk>,
    mut fault: watch::Receiver<Fault>,
    lost: &AtomicBool,
) -> io::Result<()> {
    while let Some(Chunk { due, bytes }) = from.recv().await {
        sleep_until(due).await;
        let through = fault.wait_for(|fault| *fault != Fault::Partition).await;
        let is_lost = through.is_ok_and(|fault| *fault == Fault::BlackHole);
        if is_lost {
            lost.store(true, Relaxed);
        } else if bytes.is_empty() {
            return to.shutdown().await;
        } else {
            to.write_all(&bytes).await?;
        }
    }
    // The end of the stream was lost, so the peer must not see it.
    pending().await
}
