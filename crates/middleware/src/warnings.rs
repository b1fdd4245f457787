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
    "TIDEGATE_TRUST_ALL: trusted_proxies has a network of every address, so whoever asks can say who they are \
     and escape their limits; list the networks of your proxies only",
);

pub(crate) static IPV6_UNGROUPED: Warning = Warning::new(
    "TIDEGATE_IPV6_UNGROUPED: ipv6_prefix is above 64, so one client has a key for each of its countless \
     addresses and is hardly limited; set it to 56, or to 64 at most",
);

pub(crate) static SPOOFABLE_KEY: Warning = Warning::new(
    "TIDEGATE_SPOOFABLE_KEY: requests are counted by a header that any client can write, so a client that \
     writes another value each time is not limited; use by_ip with trusted_proxies instead",
);

pub(crate) static DOUBLE_COUNT: Warning = Warning::new(
    "TIDEGATE_DOUBLE_COUNT: one request was charged twice for the same domain, descriptors and limits, so clients get \
     half of what their limits say; add the layer once, or give each layer a name or descriptors of its own",
);

pub(crate) static UNNAMED_TWIN: Warning = Warning::new(
    "TIDEGATE_UNNAMED_TWIN: several limiters have the same limits, no name, and no route to go by, so their \
     counters are told apart by the order in which they are made; give each a name that stays",
);

pub(crate) static NO_PEER: Warning = Warning::new(
    "TIDEGATE_NO_PEER: the server does not tell the address of its clients, so those without another key are \
     counted together; serve with into_make_service_with_connect_info::<SocketAddr>(), add PeerAddr to requests, or \
     behind a Unix socket say by ClientIp::trusted_hops how many proxies there are",
);
