//! Compiles the protocols in `proto/`, without `protoc`.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use prost::Message as _;
use prost_types::FileDescriptorSet;

const FILES: [&str; 3] =
    ["envoy/service/ratelimit/v3/rls.proto", "tidegate/v1/permits.proto", "tidegate/v1/reservations.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    let files = protox::compile(FILES, ["../../proto"])?;
    // Reflection and protojson read the descriptors at run time.
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("protocols.bin"), files.encode_to_vec())?;
    // Tests speak every protocol as a client.
    let clients = Path::new(&out).join("clients");
    fs::create_dir_all(&clients)?;
    tonic_prost_build::configure().build_server(false).out_dir(&clients).compile_fds(files.clone())?;
    let ours = files.file.into_iter().filter(|file| !file.name().starts_with("envoy/"));
    let ours = FileDescriptorSet { file: ours.collect() };
    tonic_prost_build::configure().build_client(false).compile_fds(ours)?;
    Ok(())
}
