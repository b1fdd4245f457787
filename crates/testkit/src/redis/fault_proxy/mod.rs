//! A proxy on 127.0.0.1 in front of a server that injects network faults.

mod connection;
mod listener;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc as acknowledge;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::ports;

/// What happens to connections through a [`FaultProxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault: everything is forwarded at once.
    None,
    /// Every reply arrives this much later, in order. Many replies may be in transit, as over a long line.
    Delay(Duration),
    /// Nothing is forwarded until the fault ends; then everything that was sent arrives, as TCP does after a
    /// short partition. Connections stay open. New ones are accepted, as the kernel would, and hang.
    Partition,
    /// Everything that is sent is lost. Connections stay open; new ones are accepted and hang. When the fault
    /// ends, the connections that lost something are reset, as by a firewall that has forgotten them.
    BlackHole,
    /// Connections are closed and new ones refused, as if the server had ended.
    Refuse,
    /// Connections are reset, new ones as soon as they are accepted.
    Reset,
    /// Requests are forwarded. After a request that contains a text, the connection is closed instead of
    /// sending the next reply, as by a server that fails after it has done the work.
    CutAnswer {
        /// The text to look for in requests, such as a command.
        to: &'static str,
    },
}

/// A proxy in front of a server, whose fault can be changed while it runs.
///
/// ```no_run
/// use std::time::Duration;
/// use tidegate_testkit::redis::{Fault, FaultProxy, RedisServer};
///
/// let server = RedisServer::start();
/// let proxy = FaultProxy::before(server.address());
/// println!("clients use {}", proxy.url());
/// proxy.set(Fault::Delay(Duration::from_millis(50)));
/// proxy.set(Fault::Partition);
/// proxy.heal();
/// ```
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    /// Dropping the sender stops the proxy; `None` once that has happened.
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// A fault to switch to, and a channel that confirms it.
#[derive(Debug)]
struct Order {
    fault: Fault,
    done: acknowledge::Sender<()>,
}

impl FaultProxy {
    /// Starts a proxy in front of `server` on a free port, without a fault.
    ///
    /// # Panics
    ///
    /// Panics if the system has no thread or port left.
    pub fn before(server: SocketAddr) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let (orders, receive) = mpsc::channel(1);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let thread = thread::spawn(move || runtime.block_on(listener::run(address, server, receive)));
        let proxy = Self { address, orders: Some(orders), thread: Some(thread) };
        // The proxy listens once the first order is done.
        proxy.heal();
        proxy
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the `redis://` URL of the proxy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Replaces the fault for all connections. The new one is in force when this returns.
    ///
    /// # Panics
    ///
    /// Panics if the proxy has ended, which happens only if its port was taken.
    pub fn set(&self, fault: Fault) {
        let (done, is_done) = acknowledge::channel();
        let orders = self.orders.as_ref().expect("it is taken only at the end");
        let mut order = Order { fault, done };
        // Not `blocking_send`, which asynchronous tests may not call.
        while let Err(refused) = orders.try_send(order) {
            match refused {
                mpsc::error::TrySendError::Full(back) => order = back,
                mpsc::error::TrySendError::Closed(_) => panic!("the proxy at {} has ended", self.address),
            }
            thread::yield_now();
        }
        is_done.recv().expect("the proxy ended: was its port taken?");
    }

    /// Ends the fault: sets [`Fault::None`].
    ///
    /// # Panics
    ///
    /// Panics if the proxy has ended, which happens only if its port was taken.
    pub fn heal(&self) {
        self.set(Fault::None);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, `set` has panicked too.
            let _ = thread.join();
        }
    }
}
