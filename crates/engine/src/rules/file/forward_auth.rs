//! The field `forward_auth`: the descriptors of a request that a proxy describes by headers.

use super::report::Report;
use super::value::Value;
use super::words::quoted;
use crate::rules::forward_auth::{ForwardAuth, MappedEntry, Proxy, ValueFrom};

const FIELDS: [&str; 3] = ["proxy", "deny_status", "descriptors"];
const ENTRY_FIELDS: [&str; 4] = ["key", "header", "from", "default"];

/// The sources of a value other than a header.
#[derive(Clone, Copy)]
enum Word {
    ClientIp,
    Method,
    Path,
    Host,
}

const WORDS: [(&str, Word); 4] =
    [("client_ip", Word::ClientIp), ("method", Word::Method), ("path", Word::Path), ("host", Word::Host)];

const PROXIES: [(&str, Proxy); 3] =
    [("nginx", Proxy::Nginx), ("traefik", Proxy::Traefik), ("caddy", Proxy::Caddy)];

const STATUSES: std::ops::RangeInclusive<u64> = 400..=599;

pub(super) fn forward_auth(value: Value<'_>, report: &mut Report) -> Option<ForwardAuth> {
    let fields = value.fields(&FIELDS, report)?;
    let default_status = u64::from(ForwardAuth::DEFAULT_STATUS);
    let proxy = fields.get("proxy").map(|proxy| proxy.choice(&PROXIES, report));
    let deny_status =
        fields.get("deny_status").map_or(Some(default_status), |status| status.whole(STATUSES, report));
    let remedy = "list the descriptors to ask about, each a list of entries";
    let list = fields.required("descriptors", remedy, report)?;
    let mut descriptors = Vec::new();
    for descriptor in list.items(report) {
        let (mut entries, mistakes) = (Vec::new(), report.count());
        for entry in descriptor.items(report) {
            entries.extend(mapped(entry, report));
        }
        if entries.is_empty() && report.count() == mistakes {
            descriptor.fault(report, "must have at least one entry, such as {key: ip, from: client_ip}");
        }
        descriptors.push(entries);
    }
    if descriptors.is_empty() {
        list.fault(report, format!("must not be empty; {remedy}"));
    }
    let needs_proxy =
        |entry: &MappedEntry| matches!(entry.from, ValueFrom::Method | ValueFrom::Path | ValueFrom::Host);
    if proxy.is_none() && descriptors.iter().flatten().any(needs_proxy) {
        let remedy =
            "name the proxy: nginx, traefik or caddy; each has its own headers for method, path and host";
        fields.missing("proxy", report, || remedy.to_owned());
    }
    Some(ForwardAuth { proxy: proxy.flatten(), deny_status: deny_status? as u16, descriptors })
}

fn mapped(value: Value<'_>, report: &mut Report) -> Option<MappedEntry> {
    let fields = value.fields(&ENTRY_FIELDS, report)?;
    let key = fields.required_text("key", "name the entry's key", report);
    let default = fields.text("default", report);
    let from = match (fields.get("header"), fields.get("from")) {
        (Some(name), None) => header(&name, report),
        (None, Some(word)) => word.choice(&WORDS, report).map(|word| match word {
            Word::ClientIp => ValueFrom::ClientIp,
            Word::Method => ValueFrom::Method,
            Word::Path => ValueFrom::Path,
            Word::Host => ValueFrom::Host,
        }),
        (Some(_), Some(word)) => {
            word.fault(report, "cannot be combined with header; an entry has one value, remove one of them");
            None
        }
        (None, None) => {
            let remedy = "say where the value is: header: NAME, or from: client_ip, method, path or host";
            fields.missing("header", report, || remedy.to_owned());
            None
        }
    };
    Some(MappedEntry { key: key?, from: from?, default })
}

fn header(value: &Value<'_>, report: &mut Report) -> Option<ValueFrom> {
    let text = value.text(report)?;
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(good) {
        value.fault(report, format!("must be the name of a header such as x-api-key, got {}", quoted(text)));
        return None;
    }
    Some(ValueFrom::Header(text.to_ascii_lowercase()))
}
