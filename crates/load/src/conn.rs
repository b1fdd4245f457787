//! A connection: a socket, its buffers, and its protocol.

use std::io;

use mio::event::Event;

use crate::dispatcher::Dispatcher;
use crate::error::Fault;
use crate::socket::Socket;
use crate::wire::{MAX_RESPONSE_BYTES, Wire};

/// The initial size of the input buffer, enough for the responses to hundreds of calls.
const INPUT_BYTES: usize = 64 << 10;
/// If less room than this is left, the input is moved to the front of the buffer.
const LEAST_ROOM_BYTES: usize = 20 << 10;
/// The most bytes that are buffered for a server that does not read.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// A connection.
pub(crate) struct Conn {
    socket: Socket,
    wire: Wire,
    /// The index of its lane.
    pub(crate) lane: usize,
    pub(crate) opened_ns: u64,
    is_connected: bool,
    /// Whether the lane has been informed that the connection is ready.
    pub(crate) is_announced: bool,
    input: Vec<u8>,
    /// The received bytes that are not processed yet are from `input_start` to `input_end`.
    input_start: usize,
    input_end: usize,
    output: Vec<u8>,
    output_start: usize,
}

impl Conn {
    pub(crate) fn new(socket: Socket, wire: Wire, lane: usize, opened_ns: u64) -> Self {
        Self {
            socket,
            wire,
            lane,
            opened_ns,
            is_connected: false,
            is_announced: false,
            input: vec![0; INPUT_BYTES],
            input_start: 0,
            input_end: 0,
            output: Vec::new(),
            output_start: 0,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_connected && self.wire.is_ready()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.is_connected && self.output.len() < MAX_OUTPUT_BYTES && self.wire.has_room()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.wire.is_retired()
    }

    /// Returns why the server retired the connection, unless that is routine.
    pub(crate) fn goodbye(&self) -> Option<Fault> {
        self.wire.goodbye()
    }

    pub(crate) fn may_end(&self) -> bool {
        self.wire.may_end()
    }

    pub(crate) fn open_calls(&self) -> usize {
        self.wire.open_calls()
    }

    pub(crate) fn expire(&mut self, sent_before_ns: u64, dispatcher: &mut Dispatcher<'_>) -> bool {
        self.wire.expire(sent_before_ns, dispatcher, &mut self.output)
    }

    pub(crate) fn lose(&mut self, fault: &Fault, dispatcher: &mut Dispatcher<'_>) {
        self.wire.lose(fault, dispatcher);
    }

    /// Reads and processes everything that was received. `now` reads the clock, once per read.
    pub(crate) fn attend(
        &mut self,
        event: &Event,
        dispatcher: &mut Dispatcher<'_>,
        now: impl Fn() -> u64,
    ) -> Result<(), Fault> {
        if !self.is_connected {
            if !self.socket.finish_connect()? {
                return Ok(());
            }
            self.is_connected = true;
            self.wire.greet(&mut self.output);
        }
        if !event.is_readable() && !event.is_read_closed() {
            return Ok(());
        }
        self.read(event.is_read_closed(), dispatcher, now)
    }

    /// Reads until the socket is empty, or with `to_end` until the end of the stream.
    fn read(
        &mut self,
        to_end: bool,
        dispatcher: &mut Dispatcher<'_>,
        now: impl Fn() -> u64,
    ) -> Result<(), Fault> {
        loop {
            let room = self.input.len() - self.input_end;
            let bytes = match self.socket.read(&mut self.input[self.input_end..]) {
                Ok(0) => return Err(Fault::Closed),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            dispatcher.now_ns = now();
            self.input_end += bytes;
            let input = &self.input[self.input_start..self.input_end];
            self.input_start += self.wire.receive(input, dispatcher, &mut self.output)?;
            self.make_room();
            // A short read has emptied the socket. If the stream has ended, the end is still to be read.
            if bytes < room && !to_end {
                return Ok(());
            }
        }
    }

    fn make_room(&mut self) {
        if self.input_start == self.input_end {
            (self.input_start, self.input_end) = (0, 0);
        } else if self.input.len() - self.input_end < LEAST_ROOM_BYTES {
            self.input.copy_within(self.input_start..self.input_end, 0);
            self.input_end -= self.input_start;
            self.input_start = 0;
            if self.input.len() - self.input_end < LEAST_ROOM_BYTES {
                // The protocol rejects a response that is too large before it fills this.
                self.input.resize((self.input.len() * 2).min(2 * MAX_RESPONSE_BYTES), 0);
            }
        }
    }

    /// Starts as many of the calls that are due as there is room for.
    pub(crate) fn fill(&mut self, dispatcher: &mut Dispatcher<'_>) {
        while self.has_room()
            && let Some(call) = dispatcher.next()
        {
            self.wire.start(call, dispatcher, &mut self.output);
        }
    }

    /// Starts one call that is due.
    pub(crate) fn fill_one(&mut self, dispatcher: &mut Dispatcher<'_>) {
        if let Some(call) = dispatcher.next() {
            self.wire.start(call, dispatcher, &mut self.output);
        }
    }

    /// Writes the buffered output, as far as the socket accepts it.
    pub(crate) fn flush(
        &mut self,
        dispatcher: &mut Dispatcher<'_>,
        now: impl Fn() -> u64,
    ) -> Result<(), Fault> {
        if !self.is_connected {
            return Ok(());
        }
        let written = self.write();
        if written.is_err() {
            // What the server sent before it closed the connection may still be unread.
            self.read(true, dispatcher, now)?;
        }
        written
    }

    fn write(&mut self) -> Result<(), Fault> {
        while self.output_start < self.output.len() {
            match self.socket.write(&self.output[self.output_start..]) {
                Ok(0) => return Err(Fault::Closed),
                Ok(bytes) => self.output_start += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.output_start = 0;
        Ok(())
    }
}
