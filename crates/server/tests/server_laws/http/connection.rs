//! What goes over one connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::Service;

fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// All that is answers until the service closes, as the last request asks it to.
async fn talk(service: &Service, said: &str) -> String {
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(said.as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    answers
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_over_one_connection() {
    let mut service = Service::start().await;
    let order = post(r#"{"domain":"api","descriptor":{"order":"1"}}"#);
    let bad = post("{");
    let user = post(r#"{"domain":"api","descriptor":{"user":"ann"}}"#);
    let last = user.replace("host: localhost", "host: localhost\r\nconnection: close");
    let answers = talk(&service, &[order.clone(), order, bad, last].concat()).await;
    let statuses: Vec<_> =
        answers.split("HTTP/1.1 ").skip(1).map(|answer| answer.split(' ').next().unwrap()).collect();
    assert_eq!(statuses, ["200", "429", "400", "200"], "{answers}");
    assert_eq!(service.left("user", "ann").await, Some(4));
}

#[tokio::test]
async fn a_body_in_pieces_is_one_body() {
    let mut service = Service::start().await;
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let pieces = [r#"{"domain":"api","#, r#""descriptor":{"us"#, r#"er":"ann"}}"#];
    let chunks = pieces.map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).concat();
    let answers = talk(&service, &format!("{head}{chunks}0\r\n\r\n")).await;
    assert!(answers.starts_with("HTTP/1.1 200"), "{answers}");
    assert_eq!(service.left("user", "ann").await, Some(4));
}

#[tokio::test]
async fn a_body_of_unknown_length_is_413_once_it_is_too_long() {
    let service = Service::start().await;
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // It may close before all of it is sent.
    for _ in 0..20 {
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answers = [0; 12];
    stream.read_exact(&mut answers).await.unwrap();
    assert_eq!(&answers, b"HTTP/1.1 413");
}

#[tokio::test]
async fn a_body_that_breaks_off_charges_nothing() {
    let mut service = Service::start().await;
    let whole = post(r#"{"domain":"api","descriptor":{"user":"ann"}}"#);
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(&whole.as_bytes()[..whole.len() - 1]).await.unwrap();
    stream.shutdown().await.unwrap();
    stream.read_to_string(&mut String::new()).await.unwrap();
    assert_eq!(service.left("user", "ann").await, Some(5));
}
