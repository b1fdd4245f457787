//! Well-known keys: who chooses their values, and how many values there may be.

/// Headers with the address of the client that any client can send. A proxy may overwrite them, but rules do
/// not show whether it does.
const ADDRESS_HEADERS: [&str; 16] = [
    "x_forwarded_for",
    "x_forwarded",
    "forwarded",
    "forwarded_for",
    "xff",
    "x_real_ip",
    "x_client_ip",
    "x_cluster_client_ip",
    "x_original_forwarded_for",
    "x_originating_ip",
    "x_remote_ip",
    "x_remote_addr",
    "true_client_ip",
    "cf_connecting_ip",
    "fastly_client_ip",
    "x_azure_clientip",
];

/// Headers in which clients claim an identity. Names without `x-` are not included: `user_id` usually comes
/// from a verified token.
const IDENTITY_HEADERS: [&str; 14] = [
    "x_user",
    "x_user_id",
    "x_userid",
    "x_username",
    "x_user_name",
    "x_user_email",
    "x_account_id",
    "x_customer_id",
    "x_tenant",
    "x_tenant_id",
    "x_org_id",
    "x_client_id",
    "x_device_id",
    "x_session_id",
];

/// Keys for which clients can invent any number of values.
const ENDLESS: [&str; 25] = [
    "path",
    "request_path",
    "full_path",
    "original_path",
    "x_envoy_original_path",
    "url",
    "request_url",
    "uri",
    "request_uri",
    "x_original_uri",
    "x_original_url",
    "query",
    "query_string",
    "user_agent",
    "referer",
    "referrer",
    "cookie",
    "request_id",
    "x_request_id",
    "correlation_id",
    "x_correlation_id",
    "trace_id",
    "traceparent",
    "nonce",
    "body",
];

/// Keys with a value per client: suitable for counters, too many for metrics.
const PER_CLIENT: [&str; 14] = [
    "ip",
    "ip_address",
    "client_ip",
    "source_ip",
    "source_address",
    "remote_ip",
    "remote_addr",
    "remote_address",
    "masked_remote_address",
    "session",
    "session_id",
    "device_id",
    "email",
    "jti",
];

/// Prefixes of keys that are derived from the name of a header.
const PREFIXES: [&str; 6] =
    ["request_headers_", "request_header_", "req_header_", "headers_", "header_", "http_"];

/// Returns a key in the spelling of the lists above.
pub(super) fn plain(key: &str) -> String {
    let lower = key.trim_start_matches(':').to_ascii_lowercase().replace(['-', '.', ' ', ':'], "_");
    let bare = PREFIXES.iter().find_map(|prefix| lower.strip_prefix(prefix)).map(str::to_owned);
    bare.unwrap_or(lower)
}

/// What a client could forge in the value of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoofable {
    Address,
    Identity,
}

pub(super) fn spoofable(key: &str) -> Option<Spoofable> {
    let key = plain(key);
    if ADDRESS_HEADERS.contains(&key.as_str()) {
        return Some(Spoofable::Address);
    }
    IDENTITY_HEADERS.contains(&key.as_str()).then_some(Spoofable::Identity)
}

/// Returns whether clients can invent any number of values.
pub(super) fn endless(key: &str) -> bool {
    ENDLESS.contains(&plain(key).as_str())
}

/// Returns whether there are too many values for metrics.
pub(super) fn too_many_for_metrics(key: &str) -> bool {
    endless(key) || spoofable(key).is_some() || PER_CLIENT.contains(&plain(key).as_str())
}
