//! Every setting there is. A setting is added here, in [`settings`](super::settings) and in `build`;
//! everything else follows.

use std::time::Duration;

use super::kind::Kind;

/// A row of the table.
#[derive(Debug)]
pub struct Setting {
    /// The dotted name: `grpc.listen` is `listen` in the section `grpc`.
    pub name: &'static str,
    /// The text that holds where nobody says otherwise.
    pub default: &'static str,
    /// What the text may be.
    pub kind: Kind,
    /// What it does, in a sentence or two.
    pub help: &'static str,
    /// The flag of `serve` and `config`, if it has one.
    pub flag: Option<Flag>,
}

/// A flag that sets a setting.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Without its dashes.
    pub name: &'static str,
    /// What stands for the value in the help.
    pub value: &'static str,
}

const fn row(name: &'static str, default: &'static str, kind: Kind, help: &'static str) -> Setting {
    Setting { name, default, kind, help, flag: None }
}

const fn flagged(mut row: Setting, name: &'static str, value: &'static str) -> Setting {
    row.flag = Some(Flag { name, value });
    row
}

/// A duration of at most `hours` that is not 0.
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
    "File with the certificate chain, PEM. With it the listener speaks TLS only; needs the key.";
const KEY: &str = "File with the certificate's private key, PEM.";
const CLIENT_CA: &str =
    "File with the authorities of client certificates, PEM. With it a client without one is refused (mTLS).";

/// What each section is about; the settings before the first section have none.
pub const SECTIONS: [(&str, &str); 17] = [
    ("", "What is limited, and where the numbers live."),
    ("defaults", "What holds where a rule does not say."),
    ("grpc", "The listener for Envoy's rate limit protocol and tidegate.v1."),
    ("http", "The listener for the HTTP API."),
    ("admin", "The listener for metrics and administration; keep it away from the public."),
    ("connections", "Of each listener."),
    (
        "bounds",
        "What a client may send. Over HTTP a request beyond a bound is refused with 4xx; over gRPC see `bounds.odd_values`.",
    ),
    ("headers", "Which headers answers carry."),
    ("denial", "What is sent to whoever is denied."),
    ("redis", "The store that nodes share, where `store` is an address."),
    ("fallback", "What rules with `on_store_error: local` admit while the shared store fails."),
    ("memory", "What the process may use, and the embedded store."),
    ("audit", "Files in the data folder that say who changed what and, sampled, who was denied."),
    ("history", "How much of what was before stays in the catalog. The same on all nodes that share one."),
    ("drain", "How the service stops."),
    ("log", "What it tells on standard error."),
    ("traces", "OpenTelemetry traces."),
];

/// The table, section by section.
pub static SETTINGS: &[Setting] = &[
    flagged(
        row(
            "rules",
            "./rules",
            Kind::Rules,
            "Rule file, or folder of them (`*.yaml`, `*.yml`); `catalog` if all rules are in the catalog.",
        ),
        "rules",
        "PATH",
    ),
    row(
        "reload",
        "true",
        Kind::Flag,
        "Whether changed rule files take effect by themselves, within a second.",
    ),
    flagged(
        row(
            "data",
            "./tidegate-data",
            Kind::Path,
            "Folder for what outlives a restart. One process may use it at a time.",
        ),
        "data",
        "DIR",
    ),
    flagged(
        row(
            "store",
            "memory",
            Kind::Store,
            "Where counters live: memory, or `redis://`, `redis+sentinel://h1,h2/name`, `redis+cluster://h1,h2`, `redis+sharded://h1,h2`; `rediss` for TLS.",
        ),
        "store",
        "URL",
    ),
    flagged(
        row(
            "catalog",
            "sqlite",
            Kind::Catalog,
            "Where tenants, overrides, rules, switches and tokens live: sqlite, in the data folder, for one node; or `postgres://user@host/database` for many, with `?password_file=` and `?sslmode=`.",
        ),
        "catalog",
        "URL",
    ),
    row(
        "catalog_listen",
        "auto",
        Kind::CatalogListen,
        "How nodes hear of changes in PostgreSQL at once: auto is over a connection to `catalog`, unless a pooler there hands connections around; off looks once a second; an address listens there, past the pooler.",
    ),
    row(
        "catalog_required",
        "true",
        Kind::Flag,
        "Whether a node is ready only once it has known the catalog: false lets one whose data folder is empty start with the rule files alone while PostgreSQL is away.",
    ),
    row("node", "", Kind::Text, "What this node is called in audit records; the machine's name where empty."),
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
        "The kill switches of single rules, as `api_key=shadow, ip=off`. What switches off more counts.",
    ),
    row(
        "compat",
        "none",
        Kind::Word(&["none", "envoy-ratelimit"]),
        "`envoy-ratelimit` counts as envoyproxy/ratelimit does: it makes `defaults.algorithm` fixed_window and `defaults.count_denied` true, unless these are set.",
    ),
    row("workers", "0", whole(0, 1024), "Threads that answer requests; 0 is one per core."),
    row(
        "defaults.algorithm",
        "sliding_window",
        ALGORITHMS,
        "The algorithm of limits that name none. Unless this is set, a limit of at most 10 requests that comes with a request is a sliding_log.",
    ),
    row("defaults.count_denied", "false", Kind::Flag, "Whether a denied request is charged all the same."),
    flagged(
        row("grpc.listen", "0.0.0.0:8081", LISTEN_OR_OFF, "Where the gRPC listener listens."),
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
        "A connection this old is asked to go (GOAWAY), so that clients spread over new nodes.",
    ),
    row(
        "grpc.max_connection_age_grace",
        "10s",
        up_to_or(24, "at once"),
        "How long what runs on such a connection may take to finish.",
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
        "A connection that does not answer a ping by then is closed.",
    ),
    row("grpc.max_streams", "1024", whole(1, 1_000_000), "Requests at once on one connection."),
    row(
        "grpc.tokens",
        "as_http",
        Kind::Word(&["as_http", "needed", "not_needed"]),
        "Whether a call needs `authorization: Bearer tg_…` in its metadata; health does not. `as_http` does what `http.tokens` says. A call without a valid token is UNAUTHENTICATED, and Envoy lets the request pass then: give it a token first.",
    ),
    flagged(
        row("http.listen", "0.0.0.0:8080", LISTEN_OR_OFF, "Where the HTTP listener listens."),
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
        "A request whose headers take longer is dropped; for the admin listener too.",
    ),
    row(
        "http.idle_timeout",
        "75s",
        up_to_or(24, "never"),
        "A kept connection without a request for so long is closed; for the admin listener too.",
    ),
    row(
        "http.tokens",
        "false",
        Kind::Flag,
        "Whether asking for decisions needs a token, too; any role will do. Over gRPC as well, unless `grpc.tokens` says otherwise.",
    ),
    row(
        "http.cross_site",
        "refuse",
        Kind::Word(&["refuse", "allow"]),
        "Whether pages of other sites may post here from their visitors' browsers, as `Sec-Fetch-Site` and `Origin` tell. `allow` also takes bodies of any content type.",
    ),
    row(
        "http.trusted_proxies",
        "",
        Kind::Networks,
        "Proxies that are believed about who asked, for `from: client_ip` of rules; nobody else is. With commas: `10.0.0.0/8, 192.0.2.7`. Or how many proxies every request comes through, where their addresses are not known: `1`.",
    ),
    row(
        "http.client_ip_header",
        "x-forwarded-for",
        Kind::Word(&["x-forwarded-for", "forwarded"]),
        "The header in which they say it. The other one is not read: clients can write it.",
    ),
    row("http.ipv6_prefix", "56", whole(1, 128), "So many leading bits of an IPv6 address are one client."),
    flagged(
        row(
            "admin.listen",
            "127.0.0.1:6070",
            LISTEN,
            "Where the admin listener listens. Where other machines can reach it there must be a token: in the catalog, or in admin.token_file.",
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
        "File with an administrator's token, for nodes that are set up without hands; `tidegate token generate` makes one.",
    ),
    row(
        "admin.allowed_hosts",
        "",
        Kind::Hosts,
        "Host names that the admin listener answers to, besides `localhost`, addresses and the name in `admin.listen`: `tidegate.internal, *.example.com`, or `*` for any. Keeps pages in browsers from reaching it by a name that is made to point here.",
    ),
    row(
        "connections.max",
        "16384",
        whole(1, 10_000_000),
        "Connections at once on the gRPC listener, and as many on the HTTP listener; the admin listener has 256 of its own at most. Fewer where the limit on open files or `memory.max_bytes` leaves less; the log says so. When a listener is full, a connection that waits for a request (over gRPC: that has not begun to speak HTTP/2) is closed for the new one, or else the new one.",
    ),
    row(
        "connections.handshake_timeout",
        "10s",
        up_to(1),
        "A connection that has not finished its TLS handshake by then is closed.",
    ),
    row(
        "connections.socket_mode",
        "0660",
        Kind::Word(&["0600", "0660", "0666"]),
        "Who may connect to Unix sockets: the service's user, its group too, or everybody on the machine.",
    ),
    row("bounds.descriptors", "100", whole(1, 65_535), "Descriptors of one request."),
    row("bounds.entries", "32", whole(1, 1024), "Entries of one descriptor."),
    row("bounds.key_bytes", "256B", size(1, 64 << 10), "Bytes of a domain or of an entry's key."),
    row("bounds.value_bytes", "64KiB", size(1, 1 << 20), "Bytes of an entry's value."),
    row("bounds.batch", "1000", whole(1, 1_000_000), "Requests of one batch."),
    row("bounds.message_bytes", "1MiB", size(1 << 10, 256 << 20), "Bytes of one request message or body."),
    row(
        "bounds.odd_values",
        "count",
        Kind::Word(&["count", "refuse"]),
        "What happens to requests over gRPC and `/json` with values that are not UTF-8, hold control characters or are beyond a bound. `count` decides them in a canonical form: such bytes written as `%FF`, the end of a long value replaced by a hash, descriptors and entries beyond a bound left out; a message beyond `bounds.message_bytes` is denied. `refuse` is INVALID_ARGUMENT, which Envoy takes for a failure and lets the request pass.",
    ),
    row(
        "bounds.header_bytes",
        "16KiB",
        size(8 << 10, 1 << 20),
        "Bytes of one request's headers, of which there may be 100.",
    ),
    row(
        "headers.ratelimit",
        "true",
        Kind::Flag,
        "`RateLimit` and `RateLimit-Policy`, as the IETF draft writes them now.",
    ),
    row(
        "headers.draft06",
        "false",
        Kind::Flag,
        "`RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, as draft 6 wrote them.",
    ),
    row(
        "headers.x_ratelimit",
        "true",
        Kind::Flag,
        "`X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, for clients that know these.",
    ),
    row(
        "headers.partition_key",
        "false",
        Kind::Flag,
        "Whether `RateLimit` and `RateLimit-Policy` say whose quota it is (`pk`): a hash of domain, rule and descriptor. Whoever can guess those can tell them by it.",
    ),
    row(
        "headers.rls",
        "false",
        Kind::Flag,
        "Whether gRPC answers bring these headers too, for Envoy to add to the response.",
    ),
    row(
        "denial.body",
        "",
        Kind::Text,
        "The body of denials, over HTTP and through Envoy (`raw_body`); empty for a problem in JSON. `{retry_after}` (seconds), `{limit}`, `{window}` (seconds) and `{policy}` stand for what the decision says; a number that there is not is `null`.",
    ),
    row(
        "denial.content_type",
        "text/plain; charset=utf-8",
        Kind::Text,
        "What `denial.body` is. A body that says it is JSON has to be.",
    ),
    row(
        "redis.deadline",
        "15ms",
        up_to(1),
        "How long a decision may wait for the shared store; keep it below Envoy's timeout (20 ms).",
    ),
    row("redis.prefix", "tidegate", Kind::Text, "What the names of all keys begin with."),
    row(
        "redis.parts",
        "256",
        whole(1, 16_384),
        "Into how many parts counters are divided. The same on all nodes; a change starts all counters anew.",
    ),
    row(
        "redis.secret",
        "",
        Kind::Secret,
        "Makes keys that nobody can guess, so that no client can spend another's limit. The same on all nodes.",
    ),
    row(
        "redis.nodes",
        "0",
        whole(0, 100_000),
        "How many nodes share the store, for the share of each while it fails; 0 lets them count each other.",
    ),
    row(
        "redis.remember_denials",
        "1s",
        up_to_or(1, "none"),
        "For how long a node remembers a denial without asking again, at most.",
    ),
    row(
        "redis.max_waiting",
        "10_000",
        whole(1, 1_000_000),
        "Requests that may wait for one server on one thread; more count as a failure of the store.",
    ),
    row(
        "redis.busy_poll",
        "200us",
        Kind::Duration { zero: Some("never"), most: Duration::from_millis(10) },
        "For how long a thread looks for an answer, and after it for the next request, before it sleeps, as long as two of three come in time: saves two wake-ups of a core for a request, and costs CPU. Never on a machine of one core, or under a CPU quota of less than the cores.",
    ),
    row(
        "fallback.share_percent",
        "50",
        whole(1, 100),
        "While the shared store fails: how much of its share of a limit a node admits by itself.",
    ),
    row(
        "fallback.later_share_percent",
        "25",
        whole(1, 100),
        "The same once the store has failed for fallback.tighten_after.",
    ),
    row("fallback.tighten_after", "60s", up_to(24), "See fallback.later_share_percent."),
    row(
        "memory.max_bytes",
        "0B",
        size(0, 1 << 50),
        "Memory that the process may use. Counters, connections, bodies and reservations have shares of it, and what does not fit is refused. 0 is nine tenths of the control group's limit (a container's), or half of the machine's memory.",
    ),
    row(
        "memory.max_keys",
        "10_000_000",
        whole(1, 10_000_000_000),
        "Counters at once, 48 bytes each, at most half of `memory.max_bytes`. At the bound a new one displaces the least used.",
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
        "Denials that are written down, at most; the others are counted. 0 writes down none.",
    ),
    row(
        "audit.descriptors",
        "false",
        Kind::Flag,
        "Whether the record of a denial has the values of the request's entries.",
    ),
    row(
        "audit.segment_bytes",
        "64MiB",
        size(64 << 10, 1 << 40),
        "A file that would grow longer is followed by another.",
    ),
    row("audit.total_bytes", "1GiB", size(1 << 20, 1 << 50), "The oldest files go while all are larger."),
    row("audit.keep", "9600h", up_to(24 * 36_500), "Files in which everything is older go."),
    row(
        "history.versions",
        "100",
        whole(1, 1_000_000),
        "Versions of each domain's rules, the newest; the one in force is always among them.",
    ),
    row(
        "history.keep",
        "9600h",
        up_to_or(24 * 36_500, "no end"),
        "How long it stays who changed what, and that tenants, rules and tokens were there that are no more. A node that was away for longer reads everything anew.",
    ),
    row(
        "drain.delay",
        "0s",
        up_to_or(1, "at once"),
        "How long it says it is not ready before it stops accepting, for balancers to notice.",
    ),
    row(
        "drain.grace",
        "20s",
        up_to_or(24, "no time"),
        "How long requests that were accepted may take to finish.",
    ),
    row(
        "log.level",
        "info",
        Kind::Word(&["off", "error", "warn", "info", "debug", "trace"]),
        "The least severe messages that are written.",
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
        "Where traces go: an OTLP gRPC collector, as `http://localhost:4317`; empty is nowhere.",
    ),
    row(
        "traces.sample",
        "0.01",
        Kind::Fraction,
        "The part of requests that are traced, where the caller does not say.",
    ),
];

impl Setting {
    /// The row of that dotted name.
    pub fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|row| row.name == name)
    }

    /// The section, empty for settings at the top; `grpc` for `grpc.tls.cert`.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }
}

/// The settings of a section.
pub fn section(name: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |row| row.section() == name)
}
