//! envoyproxy/ratelimit on the same Redis, if it is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_load::{Endpoint, Plan};

use super::world::{World, process_id};
use crate::error::Error;
use crate::study::bed::{Child, Launcher, Server, free_addr, installed, new_folder};

/// The name that `make bench-tools` gives the program; `go install` calls it `service_cmd`.
const PROGRAM: &str = "envoyproxy-ratelimit";

/// The rules for the requests, with limits that are never reached. It supports fixed windows only.
const RULES: &str = "\
domain: api
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 4000000000 }
  - key: api_key
    descriptors:
      - key: endpoint
        rate_limit: { unit: hour, requests_per_unit: 4000000000 }
  - key: remote_address
    rate_limit: { unit: hour, requests_per_unit: 4000000000 }
  - key: global
    rate_limit: { unit: hour, requests_per_unit: 4000000000 }
";

/// Returns the path of the program, if it is installed; otherwise prints why it is left out.
pub(super) fn find() -> Option<PathBuf> {
    let found = installed(PROGRAM, "it needs Go; `make bench-tools` installs it where Go is");
    found.inspect_err(|error| eprintln!("redis: envoyproxy/ratelimit is not measured: {error}")).ok()
}

/// Returns the version of the module that the program was built from.
pub(super) fn version(program: &Path) -> String {
    let said = Command::new("go").args(["version", "-m"]).arg(program).output();
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let module =
        text.lines().find_map(|line| line.trim().strip_prefix("mod\tgithub.com/envoyproxy/ratelimit\t"));
    module.and_then(|rest| rest.split('\t').next()).unwrap_or("unknown").to_owned()
}

/// Starts it on the server core, with the store of the service and its default settings.
pub(super) fn start(program: &Path, launcher: &Launcher, world: &World) -> Result<Server, Error> {
    let folder = new_folder()?;
    let config = folder.path().join("config");
    fs::create_dir(&config).map_err(Error::io(&config))?;
    let path = config.join("api.yaml");
    fs::write(&path, RULES).map_err(Error::io(&path))?;
    let (grpc, http, debug) = (free_addr()?, free_addr()?, free_addr()?);
    let [grpc_port, http_port, debug_port] = [grpc, http, debug].map(|addr| addr.port().to_string());
    let (store, root) = (world.store.address().to_string(), folder.path().display().to_string());
    let settings = [
        ("USE_STATSD", "false"),
        ("LOG_LEVEL", "error"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", &store),
        ("RUNTIME_ROOT", &root),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("HOST", "127.0.0.1"),
        ("GRPC_HOST", "127.0.0.1"),
        ("DEBUG_HOST", "127.0.0.1"),
        ("PORT", &http_port),
        ("GRPC_PORT", &grpc_port),
        ("DEBUG_PORT", &debug_port),
    ];
    let child = Child::start(launcher, "envoyproxy/ratelimit", &[program.as_os_str()], &settings, folder)?;
    // Each pass sets its own requests.
    Server::listening(child, grpc, Box::new(super::world::one_descriptor("user")))
}

/// Returns the plan of a pass of the service, changed for this server.
pub(super) fn plan(server: &Server, world: &World, plan: &Plan) -> Plan {
    let pids = vec![server.child.pid(), process_id(&world.store)];
    Plan { endpoint: Endpoint::Tcp(server.addr), pids, ..plan.clone() }
}
