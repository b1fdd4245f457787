//! Accepts connections and hands them to workers, within the limit on connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::listener::OpenListener;
use super::socket::Socket;
use super::worker::Worker;

/// How long to wait before accepting again when the system is out of resources.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stop` becomes true, and hands each one to the worker with the fewest connections.
pub async fn accept(
    socket: Socket,
    workers: Arc<[Worker]>,
    listener: Arc<OpenListener>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok(stream) => {
                listener.connections.settled().await;
                let Some(entry) = listener.admit() else { continue };
                if let Some(worker) = workers.iter().min_by_key(|worker| worker.load()) {
                    worker.hand(stream, entry, &listener);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
