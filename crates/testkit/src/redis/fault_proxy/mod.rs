//! A network that fails on command: a proxy on 127.0.0.1 before a server.

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
    /// Nothing: what comes goes on at once.
    None,
    /// Every reply arrives so much later, in order, as over a long line: many may be on their way.
    Delay(Duration),
    /// Nothing goes through, and what was sent arrives when this ends, as TCP does it after a short
    /// partition. Connections stay; new ones are accepted, because the kernel does that, and hang.
    Partition,
    /// What is sent is lost, connections stay, new ones are accepted and hang. When this ends, those that
    /// lost something are reset, as by a firewall that has forgotten them.
    BlackHole,
    /// Connections are closed and new ones refused, as if the server had ended.
    Refuse,
    /// Connections are reset, new ones as soon as they are accepted.
    Reset,
    /// Requests go through; a connection over which one with this text has gone is closed instead of the next
    /// answer, as by a server that ends when the work is done.
    CutAnswer {
        /// Part of the request, such as a command.
        to: &'static str,
    },
}

/// A proxy before a server, whose faults are switched while it runs.
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
    /// Taken when it stops: the end of the orders is the end of the proxy.
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// A fault, and whom to tell that it is in force.
#[derive(Debug)]
struct Order {
    fault: Fault,
    done: acknowledge::Sender<()>,
}

impl FaultProxy {
    /// Starts one, without a fault, on a free port.
    ///
    /// # Panics
    ///
    /// If the system has no thread or port left.
    pub fn before(server: SocketAddr) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let (orders, receive) = mpsc::channel(1);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let thread = thread::spawn(move || runtime.block_on(listener::run(address, server, receive)));
        let proxy = Self { address, orders: Some(orders), thread: Some(thread) };
        // It listens as soon as the first order is done.
        proxy.heal();
        proxy
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `redis://` with the proxy's address.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Puts a fault in the place of the one before, for all connections, at once.
    ///
    /// # Panics
    ///
    /// If the proxy has ended, which it does only if its port was taken.
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

    /// Ends the fault.
    ///
    /// # Panics
    ///
    /// As [`set`](Self::set).
    pub fn heal(&self) {
        self.set(Fault::None);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, `set` has said so.
            let _ = thread.join();
        }
    }
}
