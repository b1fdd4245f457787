//! Connection-level frames: SETTINGS, `WINDOW_UPDATE`, PING, GOAWAY.

use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;

use super::{Connection, Fault, Greeting, STREAMS_PER_WORK};
use crate::Reason;
use crate::calm::{NOISE, ODD};
use crate::frame::{self, Frame, MAX_NUMBER, MAX_PAYLOAD_BYTES, flag, kind, setting};
use crate::hpack::DEFAULT_TABLE_BYTES;
use crate::service::Service;
use crate::windows::grant;

/// The values a client may send for `SETTINGS_MAX_FRAME_SIZE`.
const FRAME_BYTES: RangeInclusive<u32> = MAX_PAYLOAD_BYTES as u32..=(1 << 24) - 1;
const KEEP_ALIVE_PING: &[u8; 8] = b"tg-alive";
const LEAVING_PING: &[u8; 8] = b"tg-leave";

/// The state of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// A first GOAWAY was sent. Requests already on their way are still accepted.
    Announced,
    /// The final GOAWAY was sent. Only requests up to this stream ID are handled.
    After(u32),
}

/// Detects clients that are gone by sending PINGs.
#[derive(Debug)]
pub(super) struct KeepAlive {
    patience: Option<(Duration, Duration)>,
    heard: Instant,
    pinged: Option<Instant>,
}

impl KeepAlive {
    pub(super) fn new(patience: Option<(Duration, Duration)>, now: Instant) -> Self {
        Self { patience, heard: now, pinged: None }
    }

    /// Records that the client sent something.
    #[inline]
    pub(super) fn heard(&mut self, now: Instant) {
        (self.heard, self.pinged) = (now, None);
    }

    /// Returns when to send a PING, or to close the connection if one is unanswered.
    pub(super) fn due(&self) -> Option<Instant> {
        let (interval, timeout) = self.patience?;
        Some(self.pinged.map_or(self.heard + interval, |pinged| pinged + timeout))
    }
}

impl<S: Service> Connection<S> {
    pub(super) fn take_settings(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Fault> {
        if frame.stream != 0 {
            return Err(Fault::protocol("SETTINGS of a stream"));
        }
        if frame.has(flag::ACK) {
            return if frame.payload.is_empty() {
                self.spend(NOISE, now)
            } else {
                Err(Fault::size("an acknowledgement of settings has none"))
            };
        }
        if !frame.payload.len().is_multiple_of(6) {
            return Err(Fault::size("SETTINGS must have 6 bytes each"));
        }
        self.spend(ODD, now)?;
        let mut initial = None;
        for (name, value) in frame.settings() {
            match name {
                // Our encoder uses no dynamic table, but a reduced table size must still be acknowledged.
                setting::HEADER_TABLE_SIZE => self.drops_table |= (value as usize) < DEFAULT_TABLE_BYTES,
                setting::ENABLE_PUSH if value > 1 => {
                    return Err(Fault::protocol("ENABLE_PUSH must be 0 or 1"));
                }
                setting::INITIAL_WINDOW_SIZE if value > MAX_NUMBER => {
                    return Err(Fault::new(Reason::FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large"));
                }
                setting::INITIAL_WINDOW_SIZE => initial = Some(i64::from(value)),
                setting::MAX_FRAME_SIZE if !FRAME_BYTES.contains(&value) => {
                    return Err(Fault::protocol("MAX_FRAME_SIZE is out of range"));
                }
                _ => {}
            }
        }
        frame::write_header(&mut self.out, 0, kind::SETTINGS, flag::ACK, 0);
        if let Some(initial) = initial {
            self.charge(0, self.streams.len() / STREAMS_PER_WORK);
            // Applied once to all streams, even if the frame sets it several times.
            let more = initial - std::mem::replace(&mut self.sending.initial, initial);
            for at in 0..self.streams.len() {
                if !grant(&mut self.streams.at(at).window, more) {
                    return Err(Fault::new(
                        Reason::FLOW_CONTROL_ERROR,
                        "the window of a stream is too large",
                    ));
                }
                self.streams.queue(at);
            }
            self.send_ready();
        }
        Ok(())
    }

    pub(super) fn take_window_update(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Fault> {
        if frame.payload.len() != 4 {
            return Err(Fault::size("a WINDOW_UPDATE must have 4 bytes"));
        }
        let more = i64::from(frame.number_at(0).unwrap_or(0) & MAX_NUMBER);
        if frame.stream == 0 {
            if more == 0 {
                return Err(Fault::protocol("a WINDOW_UPDATE must not be 0"));
            }
            if !grant(&mut self.sending.window, more) {
                return Err(Fault::new(Reason::FLOW_CONTROL_ERROR, "the connection's window is too large"));
            }
        } else if let Some(at) = self.streams.find(frame.stream) {
            if more == 0 {
                return self.refuse_frame(frame.stream, now);
            }
            if !grant(&mut self.streams.at(at).window, more) {
                self.reset(frame.stream, Reason::FLOW_CONTROL_ERROR);
                return self.spend(ODD, now);
            }
            self.streams.queue(at);
        } else {
            self.check_opened(frame.stream)?;
        }
        self.send_ready();
        self.spend(NOISE, now)
    }

    pub(super) fn take_ping(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Fault> {
        if frame.stream != 0 {
            return Err(Fault::protocol("a PING of a stream"));
        }
        let payload = frame.payload.try_into().map_err(|_| Fault::size("a PING must have 8 bytes"))?;
        if !frame.has(flag::ACK) {
            frame::write_ping(&mut self.out, flag::ACK, payload);
        } else if payload == LEAVING_PING && self.leaving == Leaving::Announced {
            // Everything the client sent before it read the first GOAWAY has arrived by now.
            self.leave();
        }
        self.spend(NOISE, now)
    }

    /// Starts a graceful shutdown: asks the client to open no more streams, and still handles those already on their
    /// way.
    pub fn graceful_shutdown(&mut self) {
        if self.leaving != Leaving::No || self.fault.is_some() {
            return;
        }
        if self.greeting != Greeting::Settings {
            self.leaving = Leaving::After(0);
            return;
        }
        frame::write_goaway(&mut self.out, MAX_NUMBER, Reason::NO_ERROR, "");
        frame::write_ping(&mut self.out, 0, LEAVING_PING);
        self.leaving = Leaving::Announced;
    }

    fn leave(&mut self) {
        frame::write_goaway(&mut self.out, self.last_id, Reason::NO_ERROR, "");
        self.leaving = Leaving::After(self.last_id);
    }

    /// Returns whether the connection can be closed once its output is written.
    pub fn is_over(&self) -> bool {
        self.fault.is_some() || (matches!(self.leaving, Leaving::After(_)) && self.streams.len() == 0)
    }

    /// Returns when [`Connection::on_time`] must be called next.
    pub fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }

    /// Runs the timers that are due: pings a silent client, closes the connection if it does not respond, and ends
    /// streams that are late.
    pub fn on_time(&mut self, now: Instant) {
        if self.keep_alive.due().is_some_and(|due| due <= now) {
            if self.keep_alive.pinged.is_some() {
                self.fail(Fault::new(Reason::NO_ERROR, "the client did not answer a ping"));
            } else if self.greeting == Greeting::Settings {
                frame::write_ping(&mut self.out, 0, KEEP_ALIVE_PING);
                self.keep_alive.pinged = Some(now);
            } else {
                // A handshake timeout, if any, is enforced by the caller.
                self.keep_alive.heard(now);
            }
        }
        // The connection is ending; no timer is needed.
        if self.is_over() {
            self.wake_at = None;
            return;
        }
        let next = [self.keep_alive.due(), self.give_up_late(now)];
        self.wake_at = next.into_iter().flatten().min();
    }
}
