//! From socket to worker, within the bound on connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::connection::Serve;
use super::socket::Socket;
use super::worker::Worker;

/// How long to wait when the system has nothing left to accept with.
const BREATH: Duration = Duration::from_millis(50);

/// Accepts until told to stop, and hands each connection to the worker with the fewest.
pub async fn accept(
    socket: Socket,
    workers: Arc<[Worker]>,
    how: Arc<Serve>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok(stream) => {
                how.guests.settled().await;
                let Some(guest) = how.admit() else { continue };
                if let Some(worker) = workers.iter().min_by_key(|worker| worker.load()) {
                    worker.hand(stream, guest, &how);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}
