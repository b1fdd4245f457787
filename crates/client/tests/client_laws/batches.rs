//! Checks that are made at the same time go in one HTTP request.

use std::sync::Arc;

use futures_util::future::join_all;
use tidegate::Request;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::client_of;
use super::stub::{Mode, Stub};

#[tokio::test]
async fn checks_of_one_moment_are_one_list_and_each_has_its_own_answer() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let users: Vec<String> = (0..20).map(|number| format!("user-{}", number % 5)).collect();
    let entries: Vec<_> = users.iter().map(|user| [("user", user.as_str())]).collect();
    let requests: Vec<_> = entries.iter().map(|entries| Request::new("shop", entries)).collect();
    let decisions = join_all(requests.iter().map(|request| client.check(request))).await;

    let asked = stub.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1.as_array().unwrap().len(), 20);
    assert_eq!(client.health().batches, 1);
    // Four by each user, of whom three pass.
    assert_eq!(decisions.iter().filter(|decision| decision.allowed()).count(), 15);
    let whole = &stub.answered()[0];
    for decision in &decisions {
        let rendered = decision.rendered().unwrap();
        assert!(whole.contains(&rendered.body), "the bytes are the service's");
        let (status, content_type) =
            if decision.allowed() { (200, "application/json") } else { (429, "application/problem+json") };
        assert_eq!((rendered.status, rendered.content_type.as_str()), (status, content_type));
        assert_eq!(rendered.header("retry-after").is_some(), !decision.allowed());
        assert!(rendered.header("ratelimit").is_some());
    }
}

#[tokio::test]
async fn while_two_exchanges_are_under_way_checks_gather_for_the_next() {
    let stub = Stub::start().await;
    let gate = Arc::new(Semaphore::new(0));
    stub.mode(Mode::Gated(Arc::clone(&gate)));
    let client = client_of(&stub);
    let ask = |user: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.check(&Request::new("shop", [("user", user)])).await })
    };
    let mut asking = Vec::new();
    for (user, exchanges) in [("a", 1), ("b", 2)] {
        asking.push(ask(user));
        while stub.asked().len() < exchanges {
            yield_now().await;
        }
    }
    asking.extend((0..10).map(|_| ask("c")));
    for _ in 0..100 {
        yield_now().await;
    }
    assert_eq!(stub.asked().len(), 2, "no third exchange begins");
    gate.add_permits(3);
    for task in asking {
        assert!(task.await.unwrap().rendered().is_some());
    }
    let asked = stub.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].1.is_object() && asked[1].1.is_object(), "one alone is no list");
    assert_eq!(asked[2].1.as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn whoever_gathers_for_a_service_that_fails_is_told_at_once() {
    let stub = Stub::start().await;
    stub.mode(Mode::Hanging);
    let deadline = std::time::Duration::from_secs(2);
    let client = super::built(tidegate_client::Client::builder(stub.url()).deadline(deadline));
    let ask = || {
        let client = client.clone();
        tokio::spawn(async move { client.check(&Request::new("shop", [("user", "ann")])).await })
    };
    let mut asking = Vec::new();
    for exchanges in [1, 2] {
        asking.push(ask());
        while stub.asked().len() < exchanges {
            yield_now().await;
        }
    }
    // Half of the deadline later others come, who wait for as long as the first two.
    tokio::time::sleep(deadline / 2).await;
    asking.extend((0..10).map(|_| ask()));
    for task in asking {
        assert!(task.await.unwrap().rendered().is_none());
    }
    assert_eq!(stub.asked().len(), 2, "nobody asks once it has failed");
    assert_eq!(client.health().skipped, 10);
}

#[tokio::test]
async fn who_gives_up_is_not_asked_for() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let (gone, stays) = (Request::new("shop", [("user", "gone")]), Request::new("shop", [("user", "stays")]));
    {
        let mut check = Box::pin(client.check(&gone));
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(check.as_mut().poll(context).is_pending()));
        assert!(polled.await);
    }
    assert!(client.check(&stays).await.allowed());
    let asked = stub.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1["descriptors"][0]["entries"][0]["value"], "stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_on_many_threads_are_all_answered() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let user = (number % 50).to_string();
                client.check(&Request::new("shop", [("user", user.as_str())])).await
            })
        })
        .collect();
    let mut allowed = 0;
    for task in tasks {
        let decision = task.await.unwrap();
        assert!(decision.rendered().is_some());
        allowed += usize::from(decision.allowed());
    }
    assert_eq!(allowed, 150, "three of four each");
    let health = client.health();
    assert_eq!((health.answered, health.failed), (200, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_check_is_forgotten_however_exchanges_begin_and_end() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    for _ in 0..300 {
        let tasks = (0..3).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.check(&Request::new("shop", [("page", "1")])).await })
        });
        for decision in join_all(tasks).await {
            assert!(decision.unwrap().rendered().is_some(), "it waited until the deadline");
        }
    }
}
