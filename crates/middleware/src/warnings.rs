//! Warnings about settings that are probably mistakes, logged once per process.

use std::sync::atomic::{AtomicBool, Ordering};

/// A probable mistake in the settings, and what to do about it.
pub(crate) struct Warning {
    logged: AtomicBool,
    text: &'static str,
}

impl Warning {
    const fn new(text: &'static str) -> Self {
        Self { logged: AtomicBool::new(false), text }
    }

    /// Logs the warning, unless it was logged before.
    pub(crate) fn log(&self) {
        self.log_about("");
    }

    /// Logs the warning with its subject, unless it was logged before.
    pub(crate) fn log_about(&self, what: &str) {
        // Loaded before it is swapped, because every request may come here.
        if !self.logged.load(Ordering::Relaxed) && !self.logged.swap(true, Ordering::Relaxed) {
            if what.is_empty() {
                tracing::warn!("{}", self.text);
            } else {
                tracing::warn!(what, "{}", self.text);
            }
        }
    }
}

pub(crate) static TRUST_ALL: Warning = Warning::new(
    "TIDEGATE_TRUST_ALL: trusted_proxies contains a network of all addresses, so any client can claim any address \
     and escape its limits; list only the networks of your proxies",
);

pub(crate) static IPV6_UNGROUPED: Warning = Warning::new(
    "TIDEGATE_IPV6_UNGROUPED: ipv6_prefix is above 64, so one client has a separate key for each of its many \
     addresses and is hardly limited; set it to 56, or to at most 64",
);

pub(crate) static SPOOFABLE_KEY: Warning = Warning::new(
    "TIDEGATE_SPOOFABLE_KEY: requests are counted by a header that any client can write, so a client that \
     writes another value each time is not limited; use by_ip with trusted_proxies instead",
);

pub(crate) static DOUBLE_COUNT: Warning = Warning::new(
    "TIDEGATE_DOUBLE_COUNT: one request was charged twice for the same domain, descriptors and limits, so clients get \
     half of what their limits say; add the layer once, or give each layer its own name or descriptors",
);

pub(crate) static UNNAMED_TWIN: Warning = Warning::new(
    "TIDEGATE_UNNAMED_TWIN: several limiters have the same limits, no name, and no route, so their \
     counters are distinguished by the order in which they are created; give each a name",
);

pub(crate) static NO_PEER: Warning = Warning::new(
    "TIDEGATE_NO_PEER: the server does not provide the addresses of its clients, so clients without another key \
     share one counter; serve with into_make_service_with_connect_info::<SocketAddr>(), add PeerAddr to requests, or \
     behind a Unix socket set the number of proxies with ClientIp::trusted_hops",
);
