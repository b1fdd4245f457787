//! Accepts the connections of the proxy, and switches its faults.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};

use super::{Fault, Order, connection};

/// The most connections at a time. Further ones are closed at once.
const MOST_CONNECTIONS: usize = 1_024;

/// Runs until the sender of `orders` is dropped.
pub(super) async fn run(address: SocketAddr, server: SocketAddr, mut orders: mpsc::Receiver<Order>) {
    let (fault, _) = watch::channel(Fault::None);
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut listener = None;
    loop {
        tokio::select! {
            // Orders first: a fault applies to every connection made after it was set.
            biased;
            order = orders.recv() => {
                let Some(Order { fault: next, done }) = order else { return };
                fault.send_replace(next);
                listener = match (next, listener) {
                    (Fault::Refuse, _) => None,
                    (_, Some(open)) => Some(open),
                    (_, None) => Some(TcpListener::bind(address).await.expect("the port stays free")),
                };
                // Lets every connection see the fault before the next order can replace it.
                tokio::task::yield_now().await;
                // The caller may be gone.
                let _ = done.send(());
            }
            client = accept(listener.as_ref()) => {
                let Ok(permit) = room.clone().try_acquire_owned() else { continue };
                let watched = fault.subscribe();
                tokio::spawn(async move {
                    connection::run(client, server, watched).await;
                    drop(permit);
                });
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        // An error means that the connection was closed before it was accepted.
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
    }
}
