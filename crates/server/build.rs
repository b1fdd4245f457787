//! Compiles the protocols in `proto/`, without `protoc`, lists the files of the dashboard, and finds out which commit
//! this is.

#[path = "build/commit.rs"]
mod commit;
#[path = "build/dashboard.rs"]
mod dashboard;

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use prost::Message as _;
use prost_types::FileDescriptorSet;
use prost_types::field_descriptor_proto::Type;

const FILES: [&str; 3] =
    ["envoy/service/ratelimit/v3/rls.proto", "tidegate/v1/permits.proto", "tidegate/v1/reservations.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    name_commit();
    dashboard::list(Path::new("../../dashboard/dist"))?;
    let files = protox::compile(FILES, ["../../proto"])?;
    // Reflection and protojson read the descriptors at run time.
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("protocols.bin"), files.encode_to_vec())?;
    // Tests speak every protocol as a client.
    let clients = Path::new(&out).join("clients");
    fs::create_dir_all(&clients)?;
    tonic_prost_build::configure().build_server(false).out_dir(&clients).compile_fds(files.clone())?;
    let ours = files.file.into_iter().filter(|file| !file.name().starts_with("envoy/"));
    let mut ours = FileDescriptorSet { file: ours.collect() };
    read_entries_as_bytes(&mut ours);
    tonic_prost_build::configure().build_client(false).build_server(false).compile_fds(ours)?;
    Ok(())
}

/// Names the commit for `--version` and the metrics: the variable `SOURCE_COMMIT`, where sources come without their
/// history, else git's. Debug builds do without git, or every commit would have the whole crate compiled again.
fn name_commit() {
    println!("cargo:rerun-if-env-changed=SOURCE_COMMIT");
    println!("cargo:rerun-if-changed=build");
    let given = env::var("SOURCE_COMMIT").ok().and_then(|hash| commit::shortened(&hash));
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let found = match given {
        None if is_release => commit::checkout(Path::new(env!("CARGO_MANIFEST_DIR")), "Cargo.toml"),
        commit => commit::Checkout { commit, ..commit::Checkout::default() },
    };
    for path in found.watched {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    println!("cargo:rustc-env=TIDEGATE_BUILD_COMMIT={}", found.commit.as_deref().unwrap_or("unknown"));
}

/// Makes the key and the value of an entry `bytes` for the server, which is the same on the wire: values come from
/// clients of clients, and one that is not UTF-8 must not make the call fail.
fn read_entries_as_bytes(files: &mut FileDescriptorSet) {
    let messages = files.file.iter_mut().filter(|file| file.package() == "tidegate.v1");
    let entries =
        messages.flat_map(|file| &mut file.message_type).filter(|message| message.name() == "Entry");
    for field in entries.flat_map(|entry| &mut entry.field) {
        field.set_type(Type::Bytes);
    }
}
