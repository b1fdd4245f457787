//! Connections of one thread: those that have more to do than there is time for do not keep the others waiting.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use http::{Request, Response};
use tidegate_http2::frame::{PREFACE, kind};
use tidegate_http2::{Answer, Inbox, Server, Service, Whole};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::support::{Call, Echo, SETTINGS, call, frame};

/// Counts what is answered.
struct Counted(Arc<AtomicUsize>);

impl Service for Counted {
    type Call = Call;
    type Body = <Echo as Service>::Body;

    fn route(&self, head: &Request<()>) -> Option<Call> {
        Echo.route(head)
    }

    fn answer(&self, call: &Call, body: Whole<'_>, out: &mut Vec<u8>) -> Answer {
        self.0.fetch_add(1, Relaxed);
        Echo.answer(call, body, out)
    }

    fn call(&self, request: Request<Inbox>) -> impl Future<Output = Response<Self::Body>> + Send + 'static {
        Echo.call(request)
    }
}

/// Serves a connection; what it answers is counted.
fn serve(answered: &Arc<AtomicUsize>) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(Server::new(ours, Counted(Arc::clone(answered)), SETTINGS));
    theirs
}

fn greeting() -> Vec<u8> {
    [&PREFACE[..], &frame(kind::SETTINGS, 0, 0, &[])].concat()
}

/// Calls without an end, and reads the answers.
async fn flood(client: DuplexStream) {
    let (mut answers, mut calls) = tokio::io::split(client);
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        while answers.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    });
    let _ = calls.write_all(&greeting()).await;
    let mut stream = 1;
    loop {
        let bytes: Vec<u8> = (0..100).flat_map(|number| call(stream + 2 * number, "/echo", b"")).collect();
        stream += 200;
        if calls.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_request_that_comes_alone_waits_for_a_few_turns_however_many_connections_flood() {
    let (flooded, good) = (Arc::default(), Arc::default());
    let floods: Vec<_> = (0..32).map(|_| tokio::spawn(flood(serve(&flooded)))).collect();
    let mut client = serve(&good);
    client.write_all(&greeting()).await.expect("it reads");
    let mut buffer = vec![0; 64 << 10];
    while flooded.load(Relaxed) < 10_000 {
        tokio::task::yield_now().await;
    }
    for number in 1..50 {
        let before = flooded.load(Relaxed);
        client.write_all(&call(2 * number + 1, "/echo", b"")).await.expect("it reads");
        while good.load(Relaxed) < number as usize {
            assert_ne!(client.read(&mut buffer).await.expect("an answer"), 0);
        }
        let meanwhile = flooded.load(Relaxed) - before;
        // A turn is about 80 of them, and a turn of each connection about 2,700.
        assert!(meanwhile < 600, "{meanwhile} others were answered first");
    }
    assert!(floods.iter().all(|flood| !flood.is_finished()), "they go on");
}
