//! A server that is ready, and the requests to send it.

use std::net::SocketAddr;

use tidegate_load::payload::Payload;

use super::child::{Child, listens};
use crate::error::Error;

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) addr: SocketAddr,
    pub(crate) payload: Box<dyn Payload>,
}

impl Server {
    /// Returns the server once it listens.
    pub(crate) fn listening(
        mut child: Child,
        addr: SocketAddr,
        payload: Box<dyn Payload>,
    ) -> Result<Self, Error> {
        child.wait(|| listens(addr))?;
        Ok(Self { child, addr, payload })
    }
}
