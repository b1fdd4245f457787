//! Builds the typed settings from values by name.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{AlgorithmName, Defaults, Fallback, Switch, Switches};
use tidegate_catalog::Retention;
use tidegate_middleware::client_ip::ForwardingHeader;
use tidegate_middleware::{ClientIp, DenialBody, DenialBodyError};

use super::address::Listen;
use super::kind::{Value, trusting};
use super::origin::{EffectiveSetting, EffectiveSettings, Origin};
use super::secret::Secret;
use super::settings::{
    Admin, Audit, CatalogListen, CatalogLocation, Compat, Connections, Drain, Grpc, Headers, Http, Log,
    LogFormat, Memory, Redis, Settings, Store, Tls, Traces, Warnings,
};
use super::table::SECTIONS;
use crate::bounds::{Bounds, OddValues};
use crate::metrics::OtherNames;

/// The minimum memory of the process.
const LEAST_MEMORY_BYTES: u64 = 64 << 20;

/// Returns settings that contradict others, each with a message.
pub(super) fn contradictions(held: &EffectiveSettings) -> Vec<(&EffectiveSetting, String)> {
    let mut found = Vec::new();
    for (listener, _) in SECTIONS {
        let of = |field: &str| {
            let name = format!("{listener}.tls.{field}");
            held.iter().find(|held| held.row.name == name && held.value != Value::OptionalPath(None))
        };
        let needs = |name: &str| format!("needs {listener}.tls.{name} too; set both, or neither for no TLS");
        match (of("cert"), of("key"), of("client_ca")) {
            (Some(cert), None, _) => found.push((cert, needs("key"))),
            (None, Some(key), _) => found.push((key, needs("cert"))),
            (None, None, Some(ca)) => {
                let message = format!(
                    "needs {listener}.tls.cert and {listener}.tls.key: clients send certificates over TLS only"
                );
                found.push((ca, message));
            }
            _ => {}
        }
    }
    found.extend(denial_contradiction(held));
    found.extend(memory_contradiction(held));
    found.extend(webhook_contradiction(held));
    found
}

/// Rejects less memory than the program itself needs.
fn memory_contradiction(held: &EffectiveSettings) -> Option<(&EffectiveSetting, String)> {
    let setting = held.find("memory.max_bytes")?;
    let Value::Size(bytes) = setting.value else { return None };
    let least =
        "must be at least 64MiB, which the program itself needs, or 0 for a share of the system's memory";
    (1..LEAST_MEMORY_BYTES).contains(&bytes).then(|| (setting, format!("{least}, got {}", setting.value)))
}

/// Rejects a webhook without a key for its signatures, or without TLS on another machine.
fn webhook_contradiction(held: &EffectiveSettings) -> Option<(&EffectiveSetting, String)> {
    let (webhook, secret) = (held.find("warnings.webhook")?, held.find("warnings.secret")?);
    let Value::Url(Some(url)) = &webhook.value else { return None };
    if matches!(&secret.value, Value::Secret(secret) if secret.is_empty()) {
        let message = "needs warnings.secret too: a receiver knows by the signature who sent a warning";
        return Some((webhook, message.to_owned()));
    }
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    let is_local = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    let is_plain = uri.as_ref().is_none_or(|uri| uri.scheme_str() != Some("https"));
    (is_plain && !is_local).then(|| (webhook, "must be https:// unless it is on this machine".to_owned()))
}

fn denial_contradiction(held: &EffectiveSettings) -> Option<(&EffectiveSetting, String)> {
    let (body, content_type) = (held.find("denial.body")?, held.find("denial.content_type")?);
    match denial_body(held) {
        Err(error @ DenialBodyError::ContentType(_)) => Some((content_type, error.to_string())),
        Err(error) => Some((body, error.to_string())),
        Ok(None) if content_type.value.to_string() != content_type.row.default => Some((
            content_type,
            "needs denial.body too: without it denials have problem details as their body".to_owned(),
        )),
        Ok(_) => None,
    }
}

/// Returns the body of denials; `None` for problem details.
fn denial_body(held: &EffectiveSettings) -> Result<Option<Arc<DenialBody>>, DenialBodyError> {
    let text = ByName(held).text("denial.body");
    let content_type = ByName(held).text("denial.content_type");
    let body = (!text.is_empty()).then(|| DenialBody::new(&text, &content_type)).transpose()?;
    Ok(body.map(Arc::new))
}

/// Builds the settings. All values have the kinds of the table, so this can only fail by a mistake in this file, which a
/// test that builds the defaults finds.
pub(super) fn settings(in_force: EffectiveSettings) -> Settings {
    let by = ByName(&in_force);
    let defaults = Defaults {
        algorithm: AlgorithmName::parse(by.word("defaults.algorithm"))
            .unwrap_or(Defaults::default().algorithm),
        count_denied: by.flag("defaults.count_denied"),
        exact_up_to: if by.is_set("defaults.algorithm") { 0 } else { Defaults::default().exact_up_to },
    };
    Settings {
        rules: by.rules("rules"),
        reload: by.flag("reload"),
        data: by.path("data"),
        store: by.store("store"),
        catalog: by.catalog("catalog"),
        catalog_listen: by.catalog_listen("catalog_listen"),
        catalog_required: by.flag("catalog_required"),
        node: by.text("node"),
        switches: by.switches(),
        redis: by.redis(),
        fallback: Fallback {
            share_percent: by.number("fallback.share_percent") as u32,
            later_share_percent: by.number("fallback.later_share_percent") as u32,
            tighten_after: by.duration("fallback.tighten_after"),
        },
        compat: if by.word("compat") == "none" { Compat::None } else { Compat::EnvoyRatelimit },
        workers: Some(by.number("workers")).filter(|workers| *workers > 0),
        defaults,
        grpc: by.grpc(),
        http: by.http(),
        admin: Admin {
            listen: by.listen("admin.listen"),
            tls: by.tls("admin"),
            token_file: by.optional_path("admin.token_file"),
            allowed_hosts: by.hosts("admin.allowed_hosts"),
        },
        connections: Connections {
            max: by.number("connections.max"),
            handshake_timeout: by.duration("connections.handshake_timeout"),
            // The table has only octal numbers.
            socket_mode: u32::from_str_radix(by.word("connections.socket_mode"), 8).unwrap_or(0o660),
        },
        bounds: by.bounds(),
        header_bytes: by.number("bounds.header_bytes"),
        headers: by.headers(),
        // It was checked with the contradictions.
        denial_body: denial_body(&in_force).unwrap_or_default(),
        memory: Memory {
            max_bytes: by.number("memory.max_bytes") as u64,
            max_keys: by.number("memory.max_keys"),
            snapshot_every: by.duration_or_none("memory.snapshot_every"),
        },
        audit: Audit {
            denials_per_second: by.number("audit.denials_per_second") as u32,
            descriptors: by.flag("audit.descriptors"),
            segment_bytes: by.number("audit.segment_bytes") as u64,
            total_bytes: by.number("audit.total_bytes") as u64,
            keep: by.duration("audit.keep"),
        },
        recorder: by.flag("metrics.recorder"),
        warnings: by.warnings(),
        history: Retention {
            // The table requires at least 1.
            versions: NonZeroU32::new(by.number("history.versions") as u32).unwrap_or(NonZeroU32::MIN),
            history: by.duration_or_none("history.keep"),
        },
        drain: Drain { delay: by.duration("drain.delay"), grace: by.duration("drain.grace") },
        other_names: OtherNames {
            rate_limit: by.flag("metrics.compat_names"),
            envoy: by.flag("metrics.envoy_names"),
        },
        log: by.log(),
        traces: by.traces(),
        in_force,
    }
}

struct ByName<'a>(&'a EffectiveSettings);

impl ByName<'_> {
    fn grpc(&self) -> Grpc {
        Grpc {
            listen: self.listen("grpc.listen"),
            tls: self.tls("grpc"),
            max_connection_age: self.duration_or_none("grpc.max_connection_age"),
            max_connection_age_grace: self.duration("grpc.max_connection_age_grace"),
            keepalive_interval: self.duration_or_none("grpc.keepalive_interval"),
            keepalive_timeout: self.duration("grpc.keepalive_timeout"),
            max_streams: self.number("grpc.max_streams") as u32,
            tokens: match self.word("grpc.tokens") {
                "as_http" => self.flag("http.tokens"),
                word => word == "needed",
            },
        }
    }

    fn http(&self) -> Http {
        Http {
            listen: self.listen("http.listen"),
            tls: self.tls("http"),
            header_timeout: self.duration("http.header_timeout"),
            idle_timeout: self.duration_or_none("http.idle_timeout"),
            tokens: self.flag("http.tokens"),
            client_ip: self.client_ip(),
            cross_site: self.word("http.cross_site") == "allow",
        }
    }

    fn client_ip(&self) -> ClientIp {
        let header = ForwardingHeader::parse(self.word("http.client_ip_header")).unwrap_or_default();
        let client_ip = ClientIp::new().header(header).ipv6_prefix(self.number("http.ipv6_prefix") as u8);
        // They were checked when they were parsed.
        trusting(client_ip, &self.networks("http.trusted_proxies")).unwrap_or_default()
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            descriptors: self.number("bounds.descriptors"),
            entries: self.number("bounds.entries"),
            key_bytes: self.number("bounds.key_bytes"),
            value_bytes: self.number("bounds.value_bytes"),
            batch: self.number("bounds.batch"),
            message_bytes: self.number("bounds.message_bytes"),
            odd_values: match self.word("bounds.odd_values") {
                "refuse" => OddValues::Refuse,
                _ => OddValues::Count,
            },
        }
    }

    fn switches(&self) -> Switches {
        Switches {
            all: self.word("enforcement").parse().unwrap_or_default(),
            rules: self.rule_switches("switches"),
        }
    }

    fn redis(&self) -> Redis {
        Redis {
            deadline: self.duration("redis.deadline"),
            prefix: self.text("redis.prefix"),
            parts: self.number("redis.parts") as u32,
            secret: self.secret("redis.secret"),
            nodes: Some(self.number("redis.nodes") as u32).filter(|nodes| *nodes > 0),
            remember_denials: self.duration("redis.remember_denials"),
            max_waiting: self.number("redis.max_waiting"),
            busy_poll: self.duration("redis.busy_poll"),
        }
    }

    fn warnings(&self) -> Warnings {
        Warnings {
            webhook: self.url("warnings.webhook"),
            secret: self.secret("warnings.secret"),
            ca: self.optional_path("warnings.ca"),
        }
    }

    fn headers(&self) -> Headers {
        Headers {
            ratelimit: self.flag("headers.ratelimit"),
            draft06: self.flag("headers.draft06"),
            x_ratelimit: self.flag("headers.x_ratelimit"),
            partition_key: self.flag("headers.partition_key"),
            rls: self.flag("headers.rls"),
        }
    }

    fn log(&self) -> Log {
        let format = match self.word("log.format") {
            "human" => LogFormat::Human,
            "json" => LogFormat::Json,
            _ => LogFormat::Auto,
        };
        Log { level: self.word("log.level"), format }
    }

    fn traces(&self) -> Option<Traces> {
        let sample_ppm = self.fraction("traces.sample");
        self.url("traces.endpoint").map(|endpoint| Traces { endpoint, sample_ppm })
    }

    fn tls(&self, listener: &str) -> Option<Tls> {
        let file = |field: &str| self.optional_path(&format!("{listener}.tls.{field}"));
        Some(Tls { cert: file("cert")?, key: file("key")?, client_ca: file("client_ca") })
    }

    fn held(&self, name: &str) -> &EffectiveSetting {
        self.0.find(name).unwrap_or_else(|| unreachable!("{name} is not in the table"))
    }

    fn value(&self, name: &str) -> &Value {
        &self.held(name).value
    }

    /// Returns whether a setting was set, even if to its default.
    fn is_set(&self, name: &str) -> bool {
        self.held(name).origin != Origin::Default
    }

    fn duration_or_none(&self, name: &str) -> Option<Duration> {
        Some(self.duration(name)).filter(|duration| !duration.is_zero())
    }
}

/// Defines accessors of values by the name of their setting.
macro_rules! accessors {
    ($($accessor:ident: $pattern:pat => $value:expr, $type:ty;)*) => {
        impl ByName<'_> {
            $(fn $accessor(&self, name: &str) -> $type {
                match self.value(name) {
                    $pattern => $value,
                    other => unreachable!("{name}: {other}"),
                }
            })*
        }
    };
}

accessors! {
    catalog: Value::Catalog(location) => location.clone(), CatalogLocation;
    catalog_listen: Value::CatalogListen(listen) => listen.clone(), CatalogListen;
    duration: Value::Duration(duration) => *duration, Duration;
    flag: Value::Flag(flag) => *flag, bool;
    fraction: Value::Fraction(millionths) => *millionths, u32;
    hosts: Value::Hosts(names) => names.clone(), Vec<String>;
    listen: Value::Listen(listen) => listen.clone(), Listen;
    networks: Value::Networks(networks) => networks.clone(), Vec<String>;
    number: Value::Whole(number) | Value::Size(number) => *number as usize, usize;
    optional_path: Value::OptionalPath(path) => path.clone(), Option<PathBuf>;
    path: Value::Path(path) => path.clone(), PathBuf;
    rule_switches: Value::Switches(switches) => switches.clone(), BTreeMap<String, Switch>;
    rules: Value::Rules(path) => path.clone(), Option<PathBuf>;
    secret: Value::Secret(secret) => secret.clone(), Secret;
    store: Value::Store(store) => store.clone(), Store;
    text: Value::Text(text) => text.clone(), String;
    url: Value::Url(url) => url.clone(), Option<String>;
    word: Value::Word(word) => word, &'static str;
}
