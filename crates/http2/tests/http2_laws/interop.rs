//! On a pipe: beside a client that we did not write, and one that does not read.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use tidegate_http2::frame::PREFACE;
use tidegate_http2::{Error, Server, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::timeout;

use crate::support::{Echo, SETTINGS, call, message, settings, window_update};

type Sender = h2::client::SendRequest<Bytes>;

/// Runs a client against a server over a pipe; the server's end is awaited with it.
async fn with_client<T>(
    settings: Settings,
    builder: h2::client::Builder,
    run: impl AsyncFnOnce(Sender, &mut Drain) -> T,
) -> T {
    let (ours, theirs) = tokio::io::duplex(4_096);
    let mut server = Box::pin(Server::new(ours, Echo, settings));
    let (client, connection) = {
        let handshake = builder.handshake::<DuplexStream, Bytes>(theirs);
        timeout(PATIENCE, handshake).await.expect("it answers").expect("HTTP/2")
    };
    let connection = tokio::spawn(connection);
    let (drain, mut drained) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        tokio::select! {
            ended = server.as_mut() => return ended,
            _ = &mut drained => server.graceful_shutdown(),
        }
        server.await
    });
    let mut drain = Some(drain);
    let done = timeout(PATIENCE, run(client, &mut drain)).await.expect("it ends");
    timeout(PATIENCE, connection).await.expect("it closes").expect("no panic").expect("no fault");
    timeout(PATIENCE, serving).await.expect("it closes").expect("no panic").expect("no fault");
    done
}

type Drain = Option<tokio::sync::oneshot::Sender<()>>;

const PATIENCE: Duration = Duration::from_secs(30);

async fn ask(
    sender: &Sender,
    path: &str,
    body: Bytes,
) -> (http::Response<()>, Vec<u8>, Option<http::HeaderMap>) {
    let mut sender = sender.clone().ready().await.expect("room for a stream");
    let request = Request::post(format!("http://t{path}"))
        .header("content-type", "application/grpc")
        .body(())
        .expect("a request");
    let (answer, mut out) = sender.send_request(request, false).expect("it is sent");
    out.send_data(body, true).expect("it is sent");
    let (head, mut body) = answer.await.expect("an answer").into_parts();
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.expect("a piece");
        body.flow_control().release_capacity(piece.len()).expect("it was taken");
        bytes.extend_from_slice(&piece);
    }
    let trailers = body.trailers().await.expect("an end");
    (http::Response::from_parts(head, ()), bytes, trailers)
}

#[tokio::test(flavor = "current_thread")]
async fn calls_are_answered() {
    with_client(SETTINGS, h2::client::Builder::new(), async |sender, _: &mut Drain| {
        for number in 0..200 {
            let body = Bytes::from(message(format!("message {number}").as_bytes()));
            let (head, answer, trailers) =
                ask(&sender, if number % 3 == 0 { "/later" } else { "/echo" }, body.clone()).await;
            assert_eq!((head.status().as_u16(), &answer[..]), (200, &body[..]));
            assert_eq!(trailers.expect("trailers")["grpc-status"], "0");
        }
        let (head, answer, _) = ask(&sender, "/refuse", Bytes::new()).await;
        assert_eq!(
            (&head.headers()["grpc-message"], answer.len()),
            (&"as you wish".parse().expect("a value"), 0)
        );
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn long_bodies_stream_through_small_windows() {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(1_000).initial_connection_window_size(3_000).header_table_size(0);
    with_client(SETTINGS, builder, async |sender, _: &mut Drain| {
        let body = Bytes::from(vec![7; 3 << 20]);
        let (head, answer, trailers) = ask(&sender, "/other", body.clone()).await;
        assert_eq!(
            (&head.headers()["path"], answer.len()),
            (&"/other".parse().expect("a value"), body.len())
        );
        assert_eq!(trailers.expect("trailers")["etag"], "end");
        let (_, answer, _) = ask(&sender, "/size/100000", Bytes::new()).await;
        assert_eq!(answer.len(), 100_005);
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn many_calls_at_once_are_answered_within_the_bound() {
    with_client(SETTINGS, h2::client::Builder::new(), async |sender, _: &mut Drain| {
        let calls: Vec<_> = (0..100)
            .map(|number| {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let body = Bytes::from(message(&[number; 100]));
                    let path = ["/echo", "/later", "/other"][usize::from(number) % 3];
                    assert_eq!(ask(&sender, path, body.clone()).await.1, body);
                })
            })
            .collect();
        for call in calls {
            call.await.expect("an answer");
        }
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_drain_lets_calls_finish() {
    with_client(SETTINGS, h2::client::Builder::new(), async |sender, drain: &mut Drain| {
        let mut ready = sender.clone().ready().await.expect("room for a stream");
        let request = Request::post("http://t/other").body(()).expect("a request");
        let (answer, mut out) = ready.send_request(request, false).expect("it is sent");
        let mut body = answer.await.expect("a head").into_body();
        drain.take().expect("once").send(()).expect("it serves");
        out.send_data(Bytes::from_static(b"late"), true).expect("it is open");
        assert_eq!(body.data().await.expect("a piece").expect("a piece"), &b"late"[..]);
        assert!(body.trailers().await.expect("an end").is_some());
        // The client learns of it and takes no more calls.
        while sender.clone().ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_body_that_is_too_long_is_refused_while_it_is_sent() {
    with_client(SETTINGS, h2::client::Builder::new(), async |sender, _: &mut Drain| {
        let (head, _, _) = ask(&sender, "/echo", Bytes::from(vec![0; 1 << 20])).await;
        assert_eq!(&head.headers()["grpc-message"], "TooLong");
        let body = Bytes::from(message(b"and on"));
        assert_eq!(ask(&sender, "/echo", body.clone()).await.1, body);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_from_and_given_up_in_the_end() {
    let (ours, mut theirs) = tokio::io::duplex(4_096);
    let keep_alive = Some((Duration::from_secs(30), Duration::from_secs(20)));
    let serving = tokio::spawn(Server::new(ours, Echo, Settings { keep_alive, ..SETTINGS }));
    let greeting = [&PREFACE[..], &settings(&[]), &window_update(0, 1 << 30)].concat();
    theirs.write_all(&greeting).await.expect("it reads");
    let mut sent = 0;
    for stream in (1..).step_by(2) {
        let call = call(stream, "/echo", &[b'x'; 900]);
        // Time stands still while anybody does anything: what takes a second never comes.
        if timeout(Duration::from_secs(1), theirs.write_all(&call)).await.is_err() {
            break;
        }
        sent += call.len();
    }
    assert!(sent < 600_000, "{sent} bytes were read from it");
    let ended = serving.await.expect("no panic");
    assert!(matches!(ended, Err(Error::Fault(_))), "{ended:?}");
    let mut said = Vec::new();
    theirs.read_to_end(&mut said).await.expect("what was sent before");
}

/// One connection with much to do does not keep its thread from others: they have their turns in between.
#[tokio::test]
async fn a_connection_with_much_to_do_lets_others_have_their_turns() {
    const CALLS: u32 = 5_000;
    let (ours, mut theirs) = tokio::io::duplex(4 << 20);
    let mut bytes = [&PREFACE[..], &settings(&[]), &window_update(0, 1 << 30)].concat();
    for number in 0..CALLS {
        bytes.extend(call(2 * number + 1, "/echo", b""));
    }
    // All of it is there before the server is.
    theirs.write_all(&bytes).await.expect("there is room");
    theirs.shutdown().await.expect("it closes");
    let turns = std::rc::Rc::new(std::cell::Cell::new(0));
    let counted = std::rc::Rc::clone(&turns);
    let others = async move {
        loop {
            counted.set(counted.get() + 1);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = Server::new(ours, Echo, SETTINGS) => ended.expect("no fault"),
        () = others => {}
    }
    // A turn is some hundred frames, and a call is two.
    assert!(turns.get() >= CALLS / 500, "{} turns", turns.get());
    let mut answers = Vec::new();
    theirs.read_to_end(&mut answers).await.expect("answers");
    assert!(answers.len() > 50 * CALLS as usize, "all are answered");
}
