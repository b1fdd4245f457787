//! The copy that a node keeps is whole whenever its process dies.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use tidegate_catalog::{Catalog, Changes, Precondition};

use crate::picture::Picture;
use crate::world::{World, ann, requests, with};

const VARIABLE: &str = "TIDEGATE_TEST_COPY";
const TENANTS: usize = 60;
const KILLS: usize = 8;

/// All tenants with that limit.
async fn state(limit: i64) -> Changes {
    let world = World::sqlite().await;
    for index in 0..TENANTS {
        let draft = with(vec![requests(limit)]);
        world.catalog.put_tenant(&format!("{index}"), &draft, Precondition::Any, &ann()).await.unwrap();
    }
    let everything = world.catalog.everything().await.unwrap();
    // Two states of one catalog have two versions.
    Changes { version: everything.version + limit.unsigned_abs(), ..everything }
}

/// Not a law: what the process does that is killed. It writes one state, then the other, and so on.
#[tokio::test]
async fn child_that_copies() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let copy = Catalog::sqlite(&path).await.unwrap();
    let states = [state(1).await, state(2).await];
    for round in 0..100_000 {
        copy.apply(&states[round % 2]).await.unwrap();
        println!("\nround {round}");
    }
}

#[tokio::test]
async fn a_copy_that_is_killed_while_it_follows_is_at_one_version_or_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.db");
    let states = [state(1).await, state(2).await];
    let mut rounds = Vec::new();
    for kill in 0..KILLS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "copies::child_that_copies", "--nocapture"]).env(VARIABLE, &path);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = lines.map_while(Result::ok).filter(|line| line.starts_with("round "));
        // Somewhere in the round after these.
        let last = told.nth(kill % 3).expect("it copies");
        child.kill().unwrap();
        child.wait().unwrap();
        rounds.push(last);
        let copy = Catalog::sqlite(&path).await.unwrap();
        let found = copy.everything().await.unwrap();
        let state = states.iter().find(|state| state.version == found.version).expect("one of the two");
        assert_eq!(Picture::of(&found).tenants.len(), TENANTS);
        assert_eq!(tenants(&found), tenants(state));
    }
    assert_eq!(rounds.len(), KILLS);
}

/// But for when they were put, which each process knows best.
fn tenants(changes: &Changes) -> Vec<(String, String)> {
    let tenants = Picture::of(changes).tenants.into_values();
    tenants.map(|tenant| (tenant.name, format!("{:?}", tenant.overrides))).collect()
}
