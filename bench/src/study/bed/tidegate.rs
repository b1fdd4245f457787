//! A Tidegate process that is ready.

use std::fs;
use std::net::SocketAddr;

use serde_json::Value;
use tidegate_load::payload::{Check, EnvoyRateLimit, THREE_DESCRIPTORS};

use super::child::{self, Child, free_addr, new_folder};
use super::launcher::Launcher;
use super::server::Server;
use crate::error::Error;

/// The name of the rule file in the folder of a Tidegate process.
pub(crate) const RULES: &str = "rules.yaml";

/// The name in reports of a Tidegate that gets requests with [`THREE_DESCRIPTORS`].
pub(crate) const WITH_THREE: &str = "Tidegate, 3 descriptors";

pub(crate) struct Tidegate {
    pub(crate) child: Child,
    grpc: SocketAddr,
    http: SocketAddr,
    admin: SocketAddr,
    /// Seconds from starting the process until it reported that it is ready.
    pub(crate) ready_after_s: f64,
}

impl Tidegate {
    pub(crate) fn start(launcher: &Launcher, rules: &str, settings: &[(&str, &str)]) -> Result<Self, Error> {
        let folder = new_folder()?;
        let path = folder.path().join(RULES);
        fs::write(&path, rules).map_err(Error::io(&path))?;
        let (grpc, http, admin) = (free_addr()?, free_addr()?, free_addr()?);
        let [grpc_text, http_text, admin_text] = [grpc, http, admin].map(|addr| addr.to_string());
        let command = [launcher.tidegate.as_os_str()].into_iter().chain(
            ["serve", "--rules", RULES, "--data", "data", "--grpc", &grpc_text, "--http", &http_text]
                .into_iter()
                .chain(["--admin", &admin_text])
                .map(AsRef::as_ref),
        );
        let command: Vec<_> = command.collect();
        let mut child = Child::start(launcher, "Tidegate", &command, settings, folder)?;
        child.wait(|| child::get(admin, "/readyz"))?;
        let ready_after_s = child.started.elapsed().as_secs_f64();
        Ok(Self { child, grpc, http, admin, ready_after_s })
    }

    /// Returns a number from the response of `/readyz`, by its JSON pointer.
    pub(crate) fn says(&self, pointer: &str) -> Result<u64, Error> {
        let body = child::get(self.admin, "/readyz").unwrap_or_default();
        let value: Value = serde_json::from_str(&body)?;
        let found = value.pointer(pointer).and_then(Value::as_u64);
        found.ok_or_else(|| Error::Wrong(format!("/readyz of Tidegate has no number at {pointer}: {body}")))
    }

    pub(crate) fn over_grpc(self) -> Server {
        let payload = Box::new(EnvoyRateLimit::new("api", "user"));
        Server { child: self.child, addr: self.grpc, payload }
    }

    pub(crate) fn over_http(self) -> Server {
        let payload = Box::new(Check::new("localhost", "api", "user"));
        Server { child: self.child, addr: self.http, payload }
    }

    /// Returns the server for gRPC requests with [`THREE_DESCRIPTORS`].
    pub(crate) fn with_three_over_grpc(mut self) -> Server {
        self.child.name = WITH_THREE;
        let payload = Box::new(EnvoyRateLimit::with_descriptors("api", THREE_DESCRIPTORS));
        Server { child: self.child, addr: self.grpc, payload }
    }

    /// Returns the server for HTTP requests with [`THREE_DESCRIPTORS`].
    pub(crate) fn with_three_over_http(mut self) -> Server {
        self.child.name = WITH_THREE;
        let payload = Box::new(Check::with_descriptors("localhost", "api", THREE_DESCRIPTORS));
        Server { child: self.child, addr: self.http, payload }
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns the token that the service generated for itself.
    pub(crate) fn token(&self) -> Result<String, Error> {
        let path = self.child.folder.path().join("data/admin-token");
        let text = fs::read_to_string(&path).map_err(Error::io(&path))?;
        Ok(text.trim().to_owned())
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.http
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.grpc
    }
}
