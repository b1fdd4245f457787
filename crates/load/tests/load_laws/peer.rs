//! A server that speaks raw HTTP/2 frames, so that it can do what no library would.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_load::Endpoint;

/// Runs a server on a free port; joining the thread shows whether its own assertions held.
pub(crate) fn listen(serve: impl FnOnce(TcpListener) + Send + 'static) -> (Endpoint, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
    (endpoint, std::thread::spawn(move || serve(listener)))
}

/// The server's side of one connection.
pub(crate) struct Peer {
    stream: TcpStream,
}

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Peer {
    /// Accepts a connection with no settings of its own.
    pub(crate) fn accept(listener: &TcpListener) -> Self {
        Self::accept_with(listener, &[])
    }

    pub(crate) fn accept_with(listener: &TcpListener, settings: &[(u16, u32)]) -> Self {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut peer = Self { stream };
        peer.settings(settings);
        peer
    }

    pub(crate) fn settings(&mut self, settings: &[(u16, u32)]) {
        let entry = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
        self.write(4, 0, 0, &settings.iter().flat_map(entry).collect::<Vec<u8>>());
    }

    pub(crate) fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.stream.write_all(&frame).unwrap();
    }

    /// Returns the next frame, or `None` at the end of the connection.
    pub(crate) fn read(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.stream.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).unwrap();
        let stream = u32::from_be_bytes(*header.last_chunk().unwrap());
        Some(Frame { kind: header[3], flags: header[4], stream, payload })
    }

    /// Returns the next frame of this kind, skipping others.
    pub(crate) fn read_kind(&mut self, kind: u8) -> Frame {
        std::iter::from_fn(|| self.read()).find(|frame| frame.kind == kind).unwrap()
    }

    /// Returns the stream and the message of the next call whose message arrives in one frame.
    pub(crate) fn call(&mut self) -> (u32, Vec<u8>) {
        let data = self.read_kind(0);
        assert_eq!(data.flags, 1, "{data:?}");
        (data.stream, data.payload[5..].to_vec())
    }

    /// Responds to a call that it is allowed.
    pub(crate) fn answer(&mut self, stream: u32) {
        self.write(1, 4, stream, b"\x88");
        self.write(0, 0, stream, b"\0\0\0\0\x02\x08\x01");
        self.write(1, 5, stream, b"\0\x0bgrpc-status\x010");
    }

    pub(crate) fn go_away(&mut self, last: u32) {
        self.write(7, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    }

    /// Reads until the generator closes, so that what was written is not lost by closing first.
    pub(crate) fn wait_for_end(&mut self) {
        while self.read().is_some() {}
    }
}
