//! What the documents tell people to do works, and what lies in `deploy/` can be used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate::rules::yaml;

use crate::support::document::{Document, file_of};
use crate::support::envoy::workspace;

#[test]
fn the_commands_of_envoy_md_work() {
    Document::read("docs/envoy.md").run();
}

#[test]
fn the_commands_of_migrating_from_envoy_ratelimit_md_work() {
    Document::read("docs/migrating-from-envoy-ratelimit.md").run();
}

#[test]
fn the_commands_of_http_md_work() {
    Document::read("docs/http.md").run();
}

#[test]
fn the_commands_of_operations_md_work() {
    Document::read("docs/operations.md").run();
}

#[test]
fn every_yaml_block_of_the_documents_is_yaml() {
    for name in ["docs/envoy.md", "docs/migrating-from-envoy-ratelimit.md", "docs/http.md", "docs/operations.md"] {
        for block in Document::read(name).blocks.iter().filter(|block| block.kind == "yaml") {
            let parsed = yaml::parse(&block.text);
            assert!(matches!(parsed, Ok(Some(_))), "{name}:{}: {parsed:?}", block.line);
        }
    }
}
