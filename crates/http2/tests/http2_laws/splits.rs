//! However the bytes of a client are cut into reads, the same comes back.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_http2::frame::{PREFACE, flag, kind, setting};

use crate::support::{
    Client, SETTINGS, Seen, call, data, frame, message, open, reset, settings, window_update,
};

#[derive(Clone, Debug)]
enum Action {
    Call(&'static str, Vec<u8>),
    Open(&'static str),
    Data(u32, Vec<u8>, bool),
    Reset(u32),
    Window(u32, u32),
    Initial(u32),
    Raw(u8, u8, u32, Vec<u8>),
}

fn action() -> impl Strategy<Value = Action> {
    let path = prop_oneof![Just("/echo"), Just("/refuse"), Just("/size/40"), Just("/size/20000")];
    let bytes = vec(any::<u8>(), 0..60);
    // Streams that have been opened, most of the time.
    let stream = (0_u32..12).prop_map(|number| 2 * number + 1);
    prop_oneof![
        6 => (path.clone(), bytes.clone()).prop_map(|(path, bytes)| Action::Call(path, bytes)),
        3 => path.prop_map(Action::Open),
        3 => (stream.clone(), bytes.clone(), any::<bool>()).prop_map(|(stream, bytes, ends)| Action::Data(stream, bytes, ends)),
        1 => stream.clone().prop_map(Action::Reset),
        1 => (prop_oneof![Just(0), stream.clone()], 1_u32..50_000).prop_map(|(stream, more)| Action::Window(stream, more)),
        1 => prop_oneof![Just(0), Just(10), Just(65_535)].prop_map(Action::Initial),
        1 => (0_u8..12, any::<u8>(), stream, bytes).prop_map(|(kind, flags, stream, bytes)| Action::Raw(kind, flags, stream, bytes)),
    ]
}

fn bytes_of(actions: &[Action]) -> Vec<u8> {
    let mut bytes = [&PREFACE[..], &settings(&[])].concat();
    let mut next = 1;
    let mut new = || {
        next += 2;
        next - 2
    };
    for action in actions {
        bytes.extend(match action {
            Action::Call(path, bytes) => call(new(), path, bytes),
            Action::Open(path) => open(new(), path),
            Action::Data(stream, bytes, ends) => data(*stream, &message(bytes), *ends),
            Action::Reset(stream) => reset(*stream),
            Action::Window(stream, more) => window_update(*stream, *more),
            Action::Initial(bytes) => settings(&[(setting::INITIAL_WINDOW_SIZE, *bytes)]),
            Action::Raw(kind, flags, stream, bytes) => frame(*kind, *flags, *stream, bytes),
        });
    }
    bytes
}

fn said(bytes: &[u8], cuts: &[usize]) -> (Vec<Seen>, usize, bool) {
    let mut client = Client::silent(SETTINGS);
    let mut seen = Vec::new();
    let mut rest = bytes;
    for cut in cuts {
        let (piece, further) = rest.split_at((*cut).min(rest.len()));
        seen.extend(client.send(piece));
        rest = further;
    }
    seen.extend(client.send(rest));
    (seen, client.connection.open_streams(), client.connection.is_over())
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn any_cut_gives_the_same(actions in vec(action(), 0..20), cuts in vec(1_usize..80, 0..60)) {
        let bytes = bytes_of(&actions);
        prop_assert_eq!(said(&bytes, &[]), said(&bytes, &cuts));
    }

    #[test]
    fn bytes_that_mean_nothing_are_taken_without_a_panic(bytes in vec(any::<u8>(), 0..400), cuts in vec(1_usize..80, 0..10)) {
        let greeted = [&PREFACE[..], &frame(kind::SETTINGS, 0, 0, &[]), &bytes].concat();
        prop_assert_eq!(said(&greeted, &[]), said(&greeted, &cuts));
        prop_assert_eq!(said(&bytes, &[]), said(&bytes, &cuts));
        // Header blocks of any content.
        let block = frame(kind::HEADERS, flag::END_HEADERS, 1, &bytes);
        let headers = [&PREFACE[..], &frame(kind::SETTINGS, 0, 0, &[]), &block].concat();
        prop_assert_eq!(said(&headers, &[]), said(&headers, &cuts));
    }
}
