//! The connections of a run.

use std::io;
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Poll, Token};
use slab::Slab;

use crate::clock::{RunClock, seconds};
use crate::conn::Conn;
use crate::dispatcher::Dispatcher;
use crate::error::{Fault, LoadError};
use crate::lane::Lane;
use crate::payload::Speaks;
use crate::plan::Plan;
use crate::socket::Socket;
use crate::timer::Timer;
use crate::wire::Wire;

const TIMER: Token = Token(0);

/// All connections: one per lane that takes new calls, and old ones that only finish their calls.
pub(super) struct Pool<'a> {
    plan: &'a Plan,
    speaks: Speaks,
    poll: Poll,
    timer: Timer,
    timer_due_ns: u64,
    pub(super) clock: RunClock,
    pub(super) dispatcher: Dispatcher<'a>,
    conns: Slab<Conn>,
    lanes: Vec<Lane>,
    /// The number of lanes whose connection is ready.
    ready: usize,
    /// The lane that gets the next call.
    turn: usize,
    /// Connections with output that is not flushed.
    touched: Vec<usize>,
    /// Whether calls may be sent.
    pub(super) is_started: bool,
    pub(super) reconnects: u64,
}

impl<'a> Pool<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        speaks: Speaks,
        clock: RunClock,
        dispatcher: Dispatcher<'a>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        Ok(Self {
            plan,
            speaks,
            poll,
            timer,
            timer_due_ns: 0,
            clock,
            dispatcher,
            conns: Slab::new(),
            lanes: (0..plan.connections).map(|_| Lane::default()).collect(),
            ready: 0,
            turn: 0,
            touched: Vec::new(),
            is_started: false,
            reconnects: 0,
        })
    }

    /// Opens the initial connections and waits until all are ready.
    pub(super) fn open_all(&mut self, events: &mut Events) -> Result<(), LoadError> {
        while !self.is_complete() {
            self.look_after(self.clock.now_ns())?;
            self.poll(events, Duration::from_millis(10))?;
            for event in events.iter() {
                self.attend(event)?;
            }
        }
        Ok(())
    }

    /// Returns whether every lane has a ready connection.
    pub(super) fn is_complete(&self) -> bool {
        self.ready == self.lanes.len()
    }

    pub(super) fn poll(&mut self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            result => result,
        }
    }

    /// Sets the timer to wake the poll when a call is due.
    pub(super) fn wake_at(&mut self, due_ns: u64, wait_ns: u64) -> io::Result<()> {
        if self.timer_due_ns != due_ns {
            self.timer_due_ns = due_ns;
            self.timer.wake_in_ns(wait_ns)?;
        }
        Ok(())
    }

    /// Sends the calls that are due, unless this is a closed loop, in which each response sends the next
    /// call.
    pub(super) fn dispatch_due(&mut self) -> Result<(), LoadError> {
        if self.dispatcher.traffic.is_open_loop() || self.dispatcher.has_refused() {
            self.dispatch()?;
        }
        Ok(())
    }

    /// Sends the calls that are due, over all connections in rotation.
    pub(super) fn dispatch(&mut self) -> Result<(), LoadError> {
        self.dispatcher.now_ns = self.clock.now_ns();
        let mut without_room = 0;
        while without_room < self.lanes.len() && self.dispatcher.has_due() {
            let lane = &self.lanes[self.turn];
            self.turn = (self.turn + 1) % self.lanes.len();
            match lane.conn {
                Some(index) if self.conns[index].has_room() => {
                    self.conns[index].fill_one(&mut self.dispatcher);
                    self.touched.push(index);
                    without_room = 0;
                }
                _ => without_room += 1,
            }
        }
        while let Some(index) = self.touched.pop() {
            if let Some(conn) = self.conns.get_mut(index)
                && let Err(fault) = conn.flush(&mut self.dispatcher, || self.clock.now_ns())
            {
                self.lose(index, fault)?;
            }
        }
        Ok(())
    }

    /// Handles an event of a connection: reads what was received, and sends the calls that are due there.
    pub(super) fn attend(&mut self, event: &Event) -> Result<(), LoadError> {
        let Token(token) = event.token();
        if event.token() == TIMER {
            // The timer may fire slightly early by our clock, and then has to be set again.
            self.timer_due_ns = 0;
        }
        // The connection may have been lost since the event was polled.
        let Some(index) = token.checked_sub(1).filter(|&index| self.conns.contains(index)) else {
            return Ok(());
        };
        let (conn, dispatcher) = (&mut self.conns[index], &mut self.dispatcher);
        let now = || self.clock.now_ns();
        let mut attended = conn.attend(event, dispatcher, now);
        if attended.is_ok() {
            if self.is_started {
                dispatcher.now_ns = now();
                conn.fill(dispatcher);
            }
            attended = conn.flush(dispatcher, now);
        }
        match attended {
            Ok(()) => self.follow(index),
            Err(fault) => self.lose(index, fault),
        }
    }

    /// Updates the lane after a connection has received something: it may have become ready, or be retired.
    fn follow(&mut self, index: usize) -> Result<(), LoadError> {
        let conn = &mut self.conns[index];
        if !conn.is_announced && conn.is_ready() {
            conn.is_announced = true;
            self.lanes[conn.lane].up(self.clock.now_ns());
            self.ready += 1;
        }
        if !self.conns[index].is_retired() {
            return Ok(());
        }
        // Another connection takes over the lane at once. This one stays until its calls are finished.
        let conn = &self.conns[index];
        let (lane, goodbye, is_done) = (conn.lane, conn.goodbye(), conn.open_calls() == 0);
        if self.lanes[lane].conn == Some(index) {
            self.detach(index, goodbye)?;
        }
        if is_done {
            self.conns.remove(index);
        }
        Ok(())
    }

    /// Removes a connection that has ended, and fails its open calls.
    fn lose(&mut self, index: usize, fault: Fault) -> Result<(), LoadError> {
        let conn = &mut self.conns[index];
        let is_routine = self.is_started && conn.is_ready() && conn.may_end();
        conn.lose(&fault, &mut self.dispatcher);
        // The reason that the server gave, if any, says more than the error.
        let fault = conn.goodbye().or_else(|| (!is_routine).then_some(fault));
        if self.lanes[conn.lane].conn == Some(index) {
            self.detach(index, fault)?;
        }
        self.conns.remove(index);
        Ok(())
    }

    /// Removes a connection from its lane, and opens another unless the lane has to wait after a failure. A
    /// `fault` of `None` means that the end of the connection is routine.
    fn detach(&mut self, index: usize, fault: Option<Fault>) -> Result<(), LoadError> {
        let conn = &self.conns[index];
        let endpoint = || self.plan.endpoint.clone();
        if conn.is_announced {
            self.ready -= 1;
        }
        match fault {
            Some(fault) if !self.is_started => Err(LoadError::Connect { endpoint: endpoint(), fault }),
            Some(fault) if !self.plan.reconnect => {
                let requests = self.dispatcher.tally.requests();
                Err(LoadError::Lost { endpoint: endpoint(), requests, fault })
            }
            fault => {
                let (lane, now_ns) = (conn.lane, self.clock.now_ns());
                self.lanes[lane].down(now_ns, fault);
                if self.lanes[lane].wants_conn(now_ns) { self.open(lane) } else { Ok(()) }
            }
        }
    }

    /// Begins to open a connection for a lane.
    fn open(&mut self, lane: usize) -> Result<(), LoadError> {
        let now_ns = self.clock.now_ns();
        let mut socket = match Socket::connect(&self.plan.endpoint) {
            Ok(socket) => socket,
            // Connecting to a Unix socket whose queue is full fails at once, and may succeed a little later.
            Err(error) if self.is_started || error.kind() == io::ErrorKind::WouldBlock => {
                self.lanes[lane].down(now_ns, Some(error.into()));
                return Ok(());
            }
            Err(error) => {
                let endpoint = self.plan.endpoint.clone();
                return Err(LoadError::Connect { endpoint, fault: error.into() });
            }
        };
        let entry = self.conns.vacant_entry();
        let index = entry.key();
        socket.register(self.poll.registry(), Token(index + 1))?;
        entry.insert(Conn::new(socket, Wire::new(&self.speaks, self.plan), lane, now_ns));
        self.lanes[lane].conn = Some(index);
        self.reconnects += u64::from(self.is_started);
        Ok(())
    }

    /// Fails calls that have timed out, and reopens lost connections.
    pub(super) fn look_after(&mut self, now_ns: u64) -> Result<(), LoadError> {
        self.dispatcher.now_ns = now_ns;
        let connect_ns = self.plan.connect_timeout.as_nanos() as u64;
        let sent_before_ns = now_ns.saturating_sub(self.plan.call_timeout.as_nanos() as u64);
        let indices: Vec<usize> = self.conns.iter().map(|(index, _)| index).collect();
        for index in indices {
            let conn = &mut self.conns[index];
            if !conn.is_ready() && now_ns.saturating_sub(conn.opened_ns) > connect_ns {
                self.lose(index, Fault::Slow(seconds(connect_ns)))?;
            } else if !conn.expire(sent_before_ns, &mut self.dispatcher) {
                self.detach(index, None)?;
                self.conns.remove(index);
            } else if let Err(fault) = conn.flush(&mut self.dispatcher, || self.clock.now_ns()) {
                self.lose(index, fault)?;
            } else {
                self.follow(index)?;
            }
        }
        for lane in 0..self.lanes.len() {
            if let Some((away_ns, fault)) = self.lanes[lane].take_away(now_ns, connect_ns) {
                let endpoint = self.plan.endpoint.clone();
                return Err(LoadError::Away { endpoint, away_s: seconds(away_ns), fault });
            }
            if self.lanes[lane].wants_conn(now_ns) {
                self.open(lane)?;
            }
        }
        Ok(())
    }
}
