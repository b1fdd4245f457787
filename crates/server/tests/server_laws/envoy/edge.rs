//! An Envoy with the rate limit filter.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::upstream;
use crate::support::envoy::program;
use crate::support::service::{Answer, send, until};

const TYPES: &str = "type.googleapis.com/envoy.extensions";

/// How to start one.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub(super) struct Setup {
    nodes: Vec<(SocketAddr, u32)>,
    rate_limits: Value,
    failure_mode_deny: bool,
    health_checks: bool,
    own_headers: bool,
    /// Names and values of `initial_metadata`.
    metadata: Vec<(String, String)>,
    traced: bool,
}

/// A running Envoy.
pub(super) struct Edge {
    folder: TempDir,
    address: SocketAddr,
    admin: SocketAddr,
    child: Child,
}

impl Setup {
    /// One that asks `nodes` of Tidegate about each request's `x-user`.
    pub(super) fn asking(nodes: &[SocketAddr]) -> Self {
        let user = json!({"request_headers": {"header_name": "x-user", "descriptor_key": "user"}});
        Self {
            nodes: nodes.iter().map(|node| (*node, 0)).collect(),
            rate_limits: json!([{"actions": [user]}]),
            failure_mode_deny: false,
            health_checks: false,
            own_headers: false,
            metadata: Vec::new(),
            traced: false,
        }
    }

    /// With other `rate_limits`.
    pub(super) fn rate_limits(self, rate_limits: Value) -> Self {
        Self { rate_limits, ..self }
    }

    /// A call of Tidegate that fails is a request that fails.
    pub(super) fn failure_mode_deny(self) -> Self {
        Self { failure_mode_deny: true, ..self }
    }

    /// Writes `x-ratelimit-*` itself.
    pub(super) fn own_headers(self) -> Self {
        Self { own_headers: true, ..self }
    }

    /// Sends a token with each call.
    pub(super) fn token(self, token: &str) -> Self {
        self.metadata("authorization", &format!("Bearer {token}"))
    }

    /// Sends a header with each call, whose value Envoy formats.
    pub(super) fn metadata(mut self, name: &str, value: &str) -> Self {
        self.metadata.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends each request's ID with the call.
    pub(super) fn request_ids(self) -> Self {
        self.metadata("x-request-id", "%REQ(x-request-id)%")
    }

    /// Continues the traces of its clients, and so passes their `tracestate` on. Nobody collects the spans.
    pub(super) fn traced(self) -> Self {
        Self { traced: true, ..self }
    }

    /// Asks the health of each node, and only nodes that are well.
    pub(super) fn health_checks(self) -> Self {
        Self { health_checks: true, ..self }
    }

    /// The second node is asked only while the first is not well.
    pub(super) fn standby(mut self) -> Self {
        for (priority, node) in (0..).zip(&mut self.nodes) {
            node.1 = priority;
        }
        self
    }

    /// Starts it and waits until it is ready.
    pub(super) fn start(&self) -> Edge {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("envoy.json");
        let log = folder.path().join("access.log").display().to_string();
        let text = self.config(upstream::start(), &log).to_string();
        fs::write(&config, text).expect("it is written");
        let output = File::create(folder.path().join("envoy.log")).expect("a log");
        let admin_file = folder.path().join("admin");
        let child = Command::new(program())
            .arg("-c")
            .arg(&config)
            .arg("--admin-address-path")
            .arg(&admin_file)
            .args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"])
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log"))
            .stderr(output)
            .spawn()
            .expect("Envoy starts");
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut edge = Edge { folder, address: nowhere, admin: nowhere, child };
        until("Envoy says where it is administered", || {
            edge.expect_running();
            let found = fs::read_to_string(&admin_file).ok().and_then(|text| text.trim().parse().ok());
            found.is_some_and(|found| {
                edge.admin = found;
                true
            })
        });
        until("Envoy is ready", || edge.ask_admin("/ready").body.trim() == "LIVE");
        let listeners = edge.ask_admin("/listeners?format=json").json();
        let place = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
        let port = place["port_value"].as_u64().expect("a port");
        edge.address.set_port(u16::try_from(port).expect("a port"));
        edge
    }

    fn config(&self, upstream: SocketAddr, log: &str) -> Value {
        let mut manager = json!({
            "@type": format!("{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
            "stat_prefix": "edge",
            "access_log": [{
                "name": "envoy.access_loggers.file",
                "typed_config": {
                    "@type": format!("{TYPES}.access_loggers.file.v3.FileAccessLog"),
                    "path": log,
                    "log_format": {"text_format_source": {
                        "inline_string": "%RESPONSE_CODE% %DYNAMIC_METADATA(envoy.filters.http.ratelimit)%\n"
                    }},
                },
            }],
            "route_config": {"virtual_hosts": [{
                "name": "all",
                "domains": ["*"],
                "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}],
                "typed_per_filter_config": {"envoy.filters.http.ratelimit": {
                    "@type": format!("{TYPES}.filters.http.ratelimit.v3.RateLimitPerRoute"),
                    "rate_limits": self.rate_limits,
                }},
            }]},
            "http_filters": self.filters(),
        });
        if self.traced {
            manager["tracing"] = json!({"provider": {
                "name": "envoy.tracers.opentelemetry",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
                    "grpc_service": {"envoy_grpc": {"cluster_name": "upstream"}},
                    "service_name": "edge",
                },
            }});
        }
        let chain = json!({"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]});
        json!({
            "admin": {"address": address("127.0.0.1:0")},
            "static_resources": {
                "listeners": [{"name": "edge", "address": address("127.0.0.1:0"), "filter_chains": [chain]}],
                "clusters": [cluster("upstream", &[(upstream, 0)]), self.tidegate()],
            },
        })
    }

    fn filters(&self) -> Value {
        let metadata = self.metadata.iter().map(|(key, value)| json!({"key": key, "value": value}));
        let metadata: Vec<Value> = metadata.collect();
        json!([
            {
                "name": "envoy.filters.http.header_to_metadata",
                "typed_config": {
                    "@type": format!("{TYPES}.filters.http.header_to_metadata.v3.Config"),
                    "response_rules": [{
                        "header": "x-cost",
                        "on_header_present": {"metadata_namespace": "cost", "key": "units", "type": "NUMBER"},
                    }],
                },
            },
            {
                "name": "envoy.filters.http.ratelimit",
                "typed_config": {
                    "@type": format!("{TYPES}.filters.http.ratelimit.v3.RateLimit"),
                    "domain": "api",
                    "failure_mode_deny": self.failure_mode_deny,
                    // What is slow on a busy machine has not failed.
                    "timeout": "10s",
                    "rate_limit_service": {
                        "transport_api_version": "V3",
                        "grpc_service": {
                            "envoy_grpc": {"cluster_name": "tidegate"},
                            "initial_metadata": metadata,
                        },
                    },
                    "enable_x_ratelimit_headers": if self.own_headers { "DRAFT_VERSION_03" } else { "OFF" },
                },
            },
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": format!("{TYPES}.filters.http.router.v3.Router")},
            },
        ])
    }

    fn tidegate(&self) -> Value {
        let mut tidegate = cluster("tidegate", &self.nodes);
        tidegate["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": format!("{TYPES}.upstreams.http.v3.HttpProtocolOptions"),
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        });
        if self.health_checks {
            tidegate["common_lb_config"] = json!({"healthy_panic_threshold": {"value": 0}});
            tidegate["health_checks"] = json!([{
                "grpc_health_check": {"service_name": "ratelimit"},
                "interval": "0.1s",
                "no_traffic_interval": "0.1s",
                "timeout": "10s",
                "unhealthy_threshold": 1,
                "healthy_threshold": 1,
            }]);
        }
        tidegate
    }
}

fn address(at: &str) -> Value {
    let at: SocketAddr = at.parse().expect("an address");
    json!({"socket_address": {"address": at.ip().to_string(), "port_value": at.port()}})
}

fn cluster(name: &str, places: &[(SocketAddr, u32)]) -> Value {
    let endpoint = |(place, priority): &(SocketAddr, u32)| {
        let endpoint = json!({"endpoint": {"address": address(&place.to_string())}});
        json!({"priority": priority, "lb_endpoints": [endpoint]})
    };
    let endpoints: Vec<Value> = places.iter().map(endpoint).collect();
    json!({
        "name": name,
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": endpoints},
    })
}

impl Edge {
    /// A request of a user.
    pub(super) fn get(&self, user: &str) -> Answer {
        self.get_with(&[("x-user", user)])
    }

    /// A request with these headers.
    pub(super) fn get_with(&self, headers: &[(&str, &str)]) -> Answer {
        let headers = headers.iter().map(|(name, value)| [*name, ": ", *value, "\r\n"].concat());
        let headers = headers.collect::<Vec<_>>().concat();
        send(self.address, &format!("GET / HTTP/1.1\r\nhost: edge\r\n{headers}connection: close\r\n\r\n"))
    }

    /// The statuses of `count` requests of a user.
    pub(super) fn statuses(&self, user: &str, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(user).status).collect()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many nodes of Tidegate it takes for well.
    pub(super) fn healthy_nodes(&self) -> Option<u64> {
        self.number("cluster.tidegate.membership_healthy")
    }

    /// One of its statistics.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let stats = self.ask_admin(&format!("/stats?filter=^{name}$")).body;
        stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok())
    }

    /// What its access log says.
    pub(super) fn access_log(&self) -> String {
        fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default()
    }

    fn ask_admin(&self, path: &str) -> Answer {
        send(self.admin, &format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n"))
    }

    fn expect_running(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait() {
            let log = fs::read_to_string(self.folder.path().join("envoy.log")).unwrap_or_default();
            panic!("Envoy ended with {status}: {log}");
        }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
