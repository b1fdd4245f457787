//! All settings. A setting is added here, in [`settings`](super::settings) and in `build`; everything else is derived.

use std::time::Duration;

use super::kind::Kind;

/// A row of the table.
#[derive(Debug)]
pub struct Setting {
    /// The dotted name, such as `grpc.listen` for `listen` in the section `grpc`.
    pub name: &'static str,
    /// The text of the default value.
    pub default: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// A description of one or more sentences.
    pub help: &'static str,
    /// Its flag of `serve` and `config`, if it has one.
    pub flag: Option<Flag>,
}

/// A flag that sets a setting.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The flag without its dashes.
    pub name: &'static str,
    /// The placeholder of the value in the help.
    pub value: &'static str,
}

const fn row(name: &'static str, default: &'static str, kind: Kind, help: &'static str) -> Setting {
    Setting { name, default, kind, help, flag: None }
}

const fn flagged(mut row: Setting, name: &'static str, value: &'static str) -> Setting {
    row.flag = Some(Flag { name, value });
    row
}

/// A duration above 0, up to `hours`.
const fn up_to(hours: u64) -> Kind {
    Kind::Duration { zero: None, most: Duration::from_hours(hours) }
}

const fn up_to_or(hours: u64, zero: &'static str) -> Kind {
    Kind::Duration { zero: Some(zero), most: Duration::from_hours(hours) }
}

const fn whole(least: u64, most: u64) -> Kind {
    Kind::Whole { least, most }
}

const fn size(least: u64, most: u64) -> Kind {
    Kind::Size { least, most }
}

const ALGORITHMS: Kind = Kind::Word(&[
    "fixed_window",
    "sliding_window",
    "sub_windows",
    "sliding_log",
    "token_bucket",
    "gcra",
    "leaky_bucket",
]);

const LISTEN: Kind = Kind::Listen { off: false };
const LISTEN_OR_OFF: Kind = Kind::Listen { off: true };

const CERT: &str =
    "File with the certificate chain, PEM. With it the listener accepts only TLS; needs the key.";
const KEY: &str = "File with the certificate's private key, PEM.";
const CLIENT_CA: &str = "File with the authorities of client certificates, PEM. With it a client without a certificate is rejected (mTLS).";

/// The sections, each with a description. The settings at the top have no section.
pub const SECTIONS: [(&str, &str); 19] = [
    ("", "Rules, and where data is stored."),
    ("defaults", "Defaults for rules."),
    ("grpc", "The listener for Envoy's rate limit protocol and tidegate.v1."),
    ("http", "The listener for the HTTP API."),
    ("admin", "The listener for metrics and administration; do not expose it to the public."),
    ("connections", "The connections of each listener."),
    (
        "bounds",
        "What a client may send. Over HTTP, a request beyond a bound is rejected with 4xx; for gRPC see `bounds.odd_values`.",
    ),
    ("headers", "The headers of responses."),
    ("denial", "The response to a denied request."),
    ("redis", "The shared store, if `store` is an address."),
    ("fallback", "What rules with `on_store_error: local` admit while the shared store fails."),
    ("memory", "The memory of the process, and the embedded store."),
    ("audit", "Files in the data folder that record changes and, sampled, denials."),
    ("warnings", "Who is told of keys that are near their limits, by rules with `warn_at`."),
    ("history", "How much history the catalog keeps. Use the same values on all nodes that share a catalog."),
    ("drain", "How the service stops."),
    ("metrics", "What is recorded of decisions, and metrics under the names of others."),
    ("log", "The log on standard error."),
    ("traces", "OpenTelemetry traces."),
];

/// All settings, section by section.
pub static SETTINGS: &[Setting] = &[
    flagged(
        row(
            "rules",
            "./rules",
            Kind::Rules,
            "Rule file, or folder of rule files (`*.yaml`, `*.yml`); `catalog` if all rules are in the catalog.",
        ),
        "rules",
        "PATH",
    ),
    row("reload", "true", Kind::Flag, "Whether changed rule files are reloaded, within a second."),
    flagged(
        row(
            "data",
            "./tidegate-data",
            Kind::Path,
            "Folder for data that survives a restart. Only one process can use it at a time.",
        ),
        "data",
        "DIR",
    ),
    flagged(
        row(
            "store",
            "memory",
            Kind::Store,
            "Store of the counters: memory, or `redis://`, `redis+sentinel://h1,h2/name`, `redis+cluster://h1,h2`, `redis+sharded://h1,h2`; `rediss` for TLS.",
        ),
        "store",
        "URL",
    ),
    flagged(
        row(
            "catalog",
            "sqlite",
            Kind::Catalog,
            "Database of tenants, overrides, rules, switches and tokens: sqlite, in the data folder, for one node; or `postgres://user@host/database` for many nodes, with `?password_file=` and `?sslmode=`.",
        ),
        "catalog",
        "URL",
    ),
    row(
        "catalog_listen",
        "auto",
        Kind::CatalogListen,
        "How nodes are notified of changes in PostgreSQL: auto uses a connection to `catalog`, unless a pooler is in front of it; off reads changes once a second; an address is connected to instead, behind the pooler.",
    ),
    row(
        "catalog_required",
        "true",
        Kind::Flag,
        "Whether a node is ready only after it has read the catalog. With false, a node with an empty data folder starts with the rule files alone while PostgreSQL is unreachable.",
    ),
    row("node", "", Kind::Text, "Name of this node in audit records; that of the machine if empty."),
    row(
        "enforcement",
        "enforce",
        Kind::Word(&["enforce", "shadow", "off"]),
        "The kill switch of all rules: enforced, only evaluated and counted, or ignored.",
    ),
    row(
        "switches",
        "",
        Kind::Switches,
        "The kill switches of single rules, such as `api_key=shadow, ip=off`. Of two switches, the one that switches off more applies.",
    ),
    row(
        "compat",
        "none",
        Kind::Word(&["none", "envoy-ratelimit"]),
        "`envoy-ratelimit` counts as envoyproxy/ratelimit does: it sets `defaults.algorithm` to fixed_window and `defaults.count_denied` to true, unless these are set. `/json` then accepts the forms that `curl -d` sends.",
    ),
    row("workers", "0", whole(0, 1024), "Threads that answer requests; 0 means one per core."),
    row(
        "defaults.algorithm",
        "sliding_window",
        ALGORITHMS,
        "The algorithm of limits that name none. Unless this is set, a limit of at most 10 requests that is in a request itself is a sliding_log.",
    ),
    row("defaults.count_denied", "false", Kind::Flag, "Whether a denied request is charged."),
    flagged(
        row("grpc.listen", "0.0.0.0:8081", LISTEN_OR_OFF, "Address of the gRPC listener."),
        "grpc",
        "ADDR",
    ),
    row("grpc.tls.cert", "", Kind::OptionalPath, CERT),
    row("grpc.tls.key", "", Kind::OptionalPath, KEY),
    row("grpc.tls.client_ca", "", Kind::OptionalPath, CLIENT_CA),
    row(
        "grpc.max_connection_age",
        "30m",
        up_to_or(24 * 365, "never"),
        "Age at which a connection is asked to close (GOAWAY), so that clients spread over new nodes.",
    ),
    row(
        "grpc.max_connection_age_grace",
        "10s",
        up_to_or(24, "at once"),
        "How long the requests of such a connection may take to finish.",
    ),
    row(
        "grpc.keepalive_interval",
        "30s",
        up_to_or(24, "no pings"),
        "How often a silent connection is pinged.",
    ),
    row(
        "grpc.keepalive_timeout",
        "10s",
        up_to(1),
        "A connection whose client does not answer a ping within this time is closed.",
    ),
    row("grpc.max_streams", "1024", whole(1, 1_000_000), "Concurrent requests on one connection."),
    row(
        "grpc.tokens",
        "as_http",
        Kind::Word(&["as_http", "needed", "not_needed"]),
        "Whether a call needs `authorization: Bearer tg_…` in its metadata; calls of health do not. `as_http` is the same as `http.tokens`. A call without a valid token is UNAUTHENTICATED, and Envoy lets the request pass then: give Envoy a token first.",
    ),
    flagged(
        row("http.listen", "0.0.0.0:8080", LISTEN_OR_OFF, "Address of the HTTP listener."),
        "http",
        "ADDR",
    ),
    row("http.tls.cert", "", Kind::OptionalPath, CERT),
    row("http.tls.key", "", Kind::OptionalPath, KEY),
    row("http.tls.client_ca", "", Kind::OptionalPath, CLIENT_CA),
    row(
        "http.header_timeout",
        "10s",
        up_to(1),
        "A request whose headers take longer is dropped; also for the admin listener.",
    ),
    row(
        "http.idle_timeout",
        "75s",
        up_to_or(24, "never"),
        "A connection without a request for this long is closed; also for the admin listener.",
    ),
    row(
        "http.tokens",
        "false",
        Kind::Flag,
        "Whether requests for decisions need a token, of any role; also over gRPC, unless `grpc.tokens` says otherwise.",
    ),
    row(
        "http.cross_site",
        "refuse",
        Kind::Word(&["refuse", "allow"]),
        "Whether pages of other sites may send requests from their visitors' browsers, which `Sec-Fetch-Site` and `Origin` show. `allow` also accepts bodies of any content type.",
    ),
    row(
        "http.trusted_proxies",
        "",
        Kind::Networks,
        "Proxies that are trusted to name the client, for `from: client_ip` in rules, separated by commas: `10.0.0.0/8, 192.0.2.7`. Or the number of proxies that every request passes, if their addresses are not known: `1`.",
    ),
    row(
        "http.client_ip_header",
        "x-forwarded-for",
        Kind::Word(&["x-forwarded-for", "forwarded"]),
        "Header in which these proxies name the client. The other one is not read, because clients can set it.",
    ),
    row("http.ipv6_prefix", "56", whole(1, 128), "Leading bits of an IPv6 address that identify a client."),
    flagged(
        row(
            "admin.listen",
            "127.0.0.1:6070",
            LISTEN,
            "Address of the admin listener. If other machines can reach it, there must be a token: in the catalog, or in admin.token_file.",
        ),
        "admin",
        "ADDR",
    ),
    row("admin.tls.cert", "", Kind::OptionalPath, CERT),
    row("admin.tls.key", "", Kind::OptionalPath, KEY),
    row("admin.tls.client_ca", "", Kind::OptionalPath, CLIENT_CA),
    row(
        "admin.token_file",
        "",
        Kind::OptionalPath,
        "File with a token of the role admin, for automated setups; `tidegate token generate` generates one.",
    ),
    row(
        "admin.allowed_hosts",
        "",
        Kind::Hosts,
        "Host names that requests to the admin listener may have, besides `localhost`, IP addresses and the name in `admin.listen`: `tidegate.internal, *.example.com`, or `*` for any. This prevents DNS rebinding by pages in browsers.",
    ),
    row(
        "connections.max",
        "16384",
        whole(1, 10_000_000),
        "Maximum number of connections on the gRPC listener, and on the HTTP listener; the admin listener has up to 256 of its own. There are fewer if the limit on open files or `memory.max_bytes` does not allow more, which is logged. When a listener is full, the connection that has been without a request for longest is closed for the new one; if there is none, the new one is closed.",
    ),
    row(
        "connections.handshake_timeout",
        "10s",
        up_to(1),
        "A connection whose TLS handshake takes longer is closed.",
    ),
    row(
        "connections.socket_mode",
        "0660",
        Kind::Word(&["0600", "0660", "0666"]),
        "Mode of Unix sockets, which says who may connect: the user of the service, also its group, or every user.",
    ),
    row("bounds.descriptors", "100", whole(1, 65_535), "Maximum descriptors per request."),
    row("bounds.entries", "32", whole(1, 1024), "Maximum entries per descriptor."),
    row("bounds.key_bytes", "256B", size(1, 64 << 10), "Maximum size of a domain or key."),
    row("bounds.value_bytes", "64KiB", size(1, 1 << 20), "Maximum size of an entry's value."),
    row("bounds.batch", "1000", whole(1, 1_000_000), "Maximum requests per batch."),
    row("bounds.message_bytes", "1MiB", size(1 << 10, 256 << 20), "Maximum size of a message or body."),
    row(
        "bounds.odd_values",
        "count",
        Kind::Word(&["count", "refuse"]),
        "What happens to requests over gRPC and `/json` with values that are not UTF-8, contain control characters or exceed a bound. `count` decides them in a canonical form: such bytes are written as `%FF`, the end of a long value is replaced by a hash, descriptors and entries beyond a bound are left out; a message beyond `bounds.message_bytes` is denied. `refuse` responds with INVALID_ARGUMENT, which Envoy treats as a failure and lets the request pass.",
    ),
    row(
        "bounds.header_bytes",
        "16KiB",
        size(8 << 10, 1 << 20),
        "Maximum size of the headers of a request, of which there may be 100. Rate limit calls over gRPC are decided without the headers beyond it, unless `bounds.odd_values` is `refuse`.",
    ),
    row(
        "headers.ratelimit",
        "true",
        Kind::Flag,
        "`RateLimit` and `RateLimit-Policy`, as in the current IETF draft.",
    ),
    row(
        "headers.draft06",
        "false",
        Kind::Flag,
        "`RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, as in draft 6.",
    ),
    row(
        "headers.x_ratelimit",
        "true",
        Kind::Flag,
        "`X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, for clients that use these.",
    ),
    row(
        "headers.partition_key",
        "false",
        Kind::Flag,
        "Whether `RateLimit` and `RateLimit-Policy` have a partition key (`pk`): a hash of domain, rule and descriptor. A client that guesses these values can confirm them with it.",
    ),
    row(
        "headers.rls",
        "false",
        Kind::Flag,
        "Whether gRPC responses have these headers too, for Envoy to add to its response.",
    ),
    row(
        "denial.body",
        "",
        Kind::Text,
        "Body of denials, over HTTP and through Envoy (`raw_body`); empty for problem details in JSON. `{retry_after}` (seconds), `{limit}`, `{window}` (seconds) and `{policy}` are replaced by the values of the decision; a missing number is `null`.",
    ),
    row(
        "denial.content_type",
        "text/plain; charset=utf-8",
        Kind::Text,
        "Content type of `denial.body`. If it is JSON, the body must be valid JSON.",
    ),
    row(
        "redis.deadline",
        "15ms",
        up_to(1),
        "How long a decision may wait for the shared store; keep it below Envoy's timeout (20 ms).",
    ),
    row("redis.prefix", "tidegate", Kind::Text, "Prefix of all keys."),
    row(
        "redis.parts",
        "256",
        whole(1, 16_384),
        "Number of partitions of the counters. Use the same value on all nodes; a change resets all counters.",
    ),
    row(
        "redis.secret",
        "",
        Kind::Secret,
        "Secret that makes keys unpredictable, so that no client can use up the limit of another. Use the same value on all nodes.",
    ),
    row(
        "redis.nodes",
        "0",
        whole(0, 100_000),
        "Number of nodes that share the store, for the share of each while it fails; 0 lets them count each other.",
    ),
    row(
        "redis.remember_denials",
        "1s",
        up_to_or(1, "none"),
        "How long a node may repeat a denial without asking the store again.",
    ),
    row(
        "redis.max_waiting",
        "10_000",
        whole(1, 1_000_000),
        "Number of requests that may wait for one server on one thread; for more, the store counts as failed.",
    ),
    row(
        "redis.busy_poll",
        "200us",
        Kind::Duration { zero: Some("never"), most: Duration::from_millis(10) },
        "How long a thread polls for a reply, and then for the next request, before it sleeps, as long as two of three arrive in time. This saves two wake-ups of a core per request, and costs CPU time. It is never done on a machine with one core, or with a CPU quota of less than its cores.",
    ),
    row(
        "fallback.share_percent",
        "50",
        whole(1, 100),
        "While the shared store fails: percentage of its share of a limit that a node admits by itself.",
    ),
    row(
        "fallback.later_share_percent",
        "25",
        whole(1, 100),
        "Percentage that replaces fallback.share_percent once the store has failed for fallback.tighten_after.",
    ),
    row("fallback.tighten_after", "60s", up_to(24), "When fallback.later_share_percent applies."),
    row(
        "memory.max_bytes",
        "0B",
        size(0, 1 << 50),
        "Memory that the process may use. Counters, connections, bodies and reservations have shares of it, and what does not fit is rejected. 0 means nine tenths of the limit of the control group (a container), or else half of the machine's memory.",
    ),
    row(
        "memory.max_keys",
        "10_000_000",
        whole(1, 10_000_000_000),
        "Maximum number of counters, 48 bytes each, up to half of `memory.max_bytes`. A counter beyond that replaces the least used one.",
    ),
    row(
        "memory.snapshot_every",
        "60s",
        up_to_or(24 * 365, "only when it stops"),
        "How often counters are written to the data folder.",
    ),
    row(
        "audit.denials_per_second",
        "100",
        whole(0, 1_000_000),
        "Maximum number of denials recorded per second; the others are counted. 0 records none.",
    ),
    row(
        "audit.descriptors",
        "false",
        Kind::Flag,
        "Whether the record of a denial has the values of the descriptor's entries.",
    ),
    row(
        "audit.segment_bytes",
        "64MiB",
        size(64 << 10, 1 << 40),
        "Maximum size of an audit file; then the next one is started.",
    ),
    row(
        "audit.total_bytes",
        "1GiB",
        size(1 << 20, 1 << 50),
        "Maximum size of all files; the oldest are deleted.",
    ),
    row("audit.keep", "9600h", up_to(24 * 36_500), "How long files are kept."),
    row(
        "warnings.webhook",
        "",
        Kind::Url,
        "Address to which warnings are POSTed as JSON, such as `https://example.com/hooks/tidegate`; empty for none. Without TLS only on this machine.",
    ),
    row(
        "warnings.secret",
        "",
        Kind::Secret,
        "Key of the signature of warnings: the header `tidegate-signature` is `v1=` and the HMAC-SHA256 of the time in `tidegate-timestamp`, a dot and the body. Needed with a webhook.",
    ),
    row(
        "warnings.ca",
        "",
        Kind::OptionalPath,
        "File with the authorities that vouch for the webhook, PEM; empty for those of the system.",
    ),
    row(
        "history.versions",
        "100",
        whole(1, 1_000_000),
        "Number of versions of each domain's rules that are kept; the one in force is always kept.",
    ),
    row(
        "history.keep",
        "9600h",
        up_to_or(24 * 36_500, "no end"),
        "How long changes are kept, and deleted tenants, rules and tokens. A node that was disconnected for longer reads the whole catalog again.",
    ),
    row(
        "drain.delay",
        "0s",
        up_to_or(1, "at once"),
        "How long the service reports that it is not ready before it stops accepting, so that load balancers notice.",
    ),
    row("drain.grace", "20s", up_to_or(24, "no time"), "How long accepted requests may take to finish."),
    row(
        "metrics.recorder",
        "true",
        Kind::Flag,
        "Whether top keys, history, recent denials and warnings are recorded. Without them the dashboard has no charts and lists no keys, and `warn_at` does nothing.",
    ),
    row(
        "metrics.compat_names",
        "false",
        Kind::Flag,
        "Whether metrics are also exported as `rate_limit_allowed_total`, `rate_limit_rejected_total`, `rate_limit_check_duration_seconds`, `rate_limit_redis_errors_total` and `rate_limit_fallback_active`.",
    ),
    row(
        "metrics.envoy_names",
        "false",
        Kind::Flag,
        "Whether metrics are also exported as `ratelimit_service_rate_limit_total_hits` and so on, with `domain`, `key1` and `key2`, for boards made for envoyproxy/ratelimit. `compat: envoy-ratelimit` implies it.",
    ),
    row(
        "log.level",
        "info",
        Kind::Word(&["off", "error", "warn", "info", "debug", "trace"]),
        "Lowest level of the messages that are logged.",
    ),
    row(
        "log.format",
        "auto",
        Kind::Word(&["auto", "human", "json"]),
        "`auto` is human on a terminal and json elsewhere.",
    ),
    row(
        "traces.endpoint",
        "",
        Kind::Url,
        "OTLP gRPC collector of traces, such as `http://localhost:4317`; empty for no traces.",
    ),
    row(
        "traces.sample",
        "0.01",
        Kind::Fraction,
        "Fraction of requests that are traced, if the caller does not decide that.",
    ),
];

impl Setting {
    /// Returns the setting with this dotted name.
    pub fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|row| row.name == name)
    }

    /// Returns the section: `grpc` for `grpc.tls.cert`, empty for settings at the top.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }
}

/// Returns the settings of a section.
pub fn section(name: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |row| row.section() == name)
}
