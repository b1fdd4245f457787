//! For tests only: holds no code, and makes `cargo test -p CRATE` reuse what `cargo test --workspace` has built.
//!
//! Cargo builds a dependency with the features that the packages named on the command line ask for. Without this
//! crate, `-p CRATE` asks for fewer than the workspace, and dozens of dependencies are compiled a second time. It
//! names those dependencies with all the features that anybody in the workspace needs, and every crate has it as a
//! dev-dependency. The programs that people run and the libraries that they use do not depend on it.
//!
//! Its test finds out whether a dependency is missing here. `TIDEGATE_BLESS=1 cargo test -p tidegate-unify` writes
//! the list anew; run it until it has nothing left to write.
