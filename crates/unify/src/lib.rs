//! For tests only: contains no code, and makes `cargo test -p CRATE` reuse what `cargo test --workspace` has built.
//!
//! Cargo builds a dependency with the features that the selected packages require. Without this crate, `-p CRATE`
//! requires fewer features than the workspace, and dozens of dependencies are compiled a second time. This crate lists
//! those dependencies with all features that the workspace requires, and every crate has it as a dev-dependency. The
//! released programs and libraries do not depend on it.
//!
//! Its test fails if a dependency is missing here. `TIDEGATE_BLESS=1 cargo test -p tidegate-unify` updates the list;
//! run it until nothing changes.
