//! One connection: a socket, its buffers, and the protocol spoken on it.

use std::io;

use mio::event::Event;

use crate::desk::Desk;
use crate::error::Fault;
use crate::socket::Socket;
use crate::wire::{MAX_ANSWER_BYTES, Wire};

/// Room for the answers to hundreds of calls.
const INPUT_BYTES: usize = 64 << 10;
/// Where less room than this is left, the input is moved to the front.
const LEAST_ROOM_BYTES: usize = 20 << 10;
/// Where the server does not read, nothing more is written than this.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// One connection.
pub(crate) struct Conn {
    socket: Socket,
    wire: Wire,
    /// The lane it serves.
    pub(crate) lane: usize,
    pub(crate) opened_ns: u64,
    is_connected: bool,
    /// Whether its lane has been told that it is ready.
    pub(crate) is_announced: bool,
    input: Vec<u8>,
    /// What was received and not taken yet lies between these.
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

    /// What the server said to retire the connection, unless that was a matter of routine.
    pub(crate) fn goodbye(&self) -> Option<Fault> {
        self.wire.goodbye()
    }

    pub(crate) fn may_end(&self) -> bool {
        self.wire.may_end()
    }

    pub(crate) fn open_calls(&self) -> usize {
        self.wire.open_calls()
    }

    pub(crate) fn expire(&mut self, sent_before_ns: u64, desk: &mut Desk<'_>) -> bool {
        self.wire.expire(sent_before_ns, desk, &mut self.output)
    }

    pub(crate) fn lose(&mut self, fault: &Fault, desk: &mut Desk<'_>) {
        self.wire.lose(fault, desk);
    }

    /// Reads and takes all that has come. `now` reads the clock, once per read.
    pub(crate) fn attend(
        &mut self,
        event: &Event,
        desk: &mut Desk<'_>,
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
        self.read(event.is_read_closed(), desk, now)
    }

    /// Reads until the socket is empty, or to its end where there is one.
    fn read(&mut self, to_end: bool, desk: &mut Desk<'_>, now: impl Fn() -> u64) -> Result<(), Fault> {
        loop {
            let room = self.input.len() - self.input_end;
            let bytes = match self.socket.read(&mut self.input[self.input_end..]) {
                Ok(0) => return Err(Fault::Closed),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            desk.now_ns = now();
            self.input_end += bytes;
            let input = &self.input[self.input_start..self.input_end];
            self.input_start += self.wire.receive(input, desk, &mut self.output)?;
            self.make_room();
            // A short read has emptied the socket; an end that came with it is still to be seen.
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
                // The protocol refuses an answer above the most before it fills this.
                self.input.resize((self.input.len() * 2).min(2 * MAX_ANSWER_BYTES), 0);
            }
        }
    }

    /// Starts the calls that are due, as many as there is room for.
    pub(crate) fn fill(&mut self, desk: &mut Desk<'_>) {
        while self.has_room()
            && let Some(call) = desk.next()
        {
            self.wire.start(call, desk, &mut self.output);
        }
    }

    /// Starts one call that is due.
    pub(crate) fn fill_one(&mut self, desk: &mut Desk<'_>) {
        if let Some(call) = desk.next() {
            self.wire.start(call, desk, &mut self.output);
        }
    }

    /// Writes what is to be written, as far as the socket takes it.
    pub(crate) fn flush(&mut self, desk: &mut Desk<'_>, now: impl Fn() -> u64) -> Result<(), Fault> {
        if !self.is_connected {
            return Ok(());
        }
        let written = self.write();
        if written.is_err() {
            // What the server said before it closed may still be there to be read.
            self.read(true, desk, now)?;
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
