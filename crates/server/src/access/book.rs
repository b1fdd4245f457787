//! The tokens that count.
//!
//! Looked at for every request of an administrator, and of clients where `http.tokens` or `grpc.tokens` asks for one: from
//! memory, without a lock. A token that is revoked in the catalog is gone with the next look.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use subtle::ConstantTimeEq as _;
use tidegate_catalog::{Role, Token};

use super::Secret;
use crate::control::CatalogClock;

/// Tokens by their ids. Cheap to clone: all clones are the same book.
#[derive(Clone, Default)]
pub struct Book(Arc<Inner>);

#[derive(Default)]
struct Inner {
    known: ArcSwap<HashMap<String, Arc<Known>>>,
    /// By which tokens end: that of the catalog they are in.
    clock: CatalogClock,
}

struct Known {
    name: String,
    role: Role,
    hash: [u8; 32],
    expires_at: Option<Timestamp>,
    /// Of the catalog, not of a file of this node.
    shared: bool,
    /// When it was used last, in microseconds, unless that was written down already.
    used_us: AtomicI64,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The token's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// There is no token.
    Missing,
    /// There is one, but it does not count, or no more.
    Refused,
}

impl Unknown {
    /// What `WWW-Authenticate` says.
    pub const fn challenge(self) -> &'static str {
        match self {
            Self::Missing => "Bearer realm=\"tidegate\"",
            Self::Refused => "Bearer realm=\"tidegate\", error=\"invalid_token\"",
        }
    }

    /// What to do about it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "a token is needed: send `Authorization: Bearer tg_…`",
            Self::Refused => {
                "the token is not known here: it may be revoked, expired, or of another deployment"
            }
        }
    }
}

/// A token as a request presents it: parsed and hashed once, and checked for every request that repeats it.
#[derive(Clone, Debug)]
pub struct Credential(Result<Presented, Unknown>);

#[derive(Clone, Debug)]
struct Presented {
    id: String,
    hash: [u8; 32],
}

impl Credential {
    /// The bearer token in these headers, if there is one.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Self(Err(Unknown::Missing)) };
        let Ok(text) = value.to_str() else { return Self(Err(Unknown::Refused)) };
        match text.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Self::of_token(Some(token)),
            _ => Self(Err(Unknown::Missing)),
        }
    }

    /// A token without anything around it.
    pub fn of_token(token: Option<&str>) -> Self {
        let Some(token) = token else { return Self(Err(Unknown::Missing)) };
        let secret = Secret::parse(token.trim()).ok_or(Unknown::Refused);
        Self(secret.map(|secret| Presented { id: secret.id().to_owned(), hash: secret.hash() }))
    }
}

impl Book {
    /// The clock by which tokens end.
    pub fn clock(&self) -> &CatalogClock {
        &self.0.clock
    }

    /// Puts a token of this node into the book, for good.
    pub fn add_own(&self, name: &str, role: Role, id: &str, hash: [u8; 32]) {
        let known = Known {
            name: name.to_owned(),
            role,
            hash,
            expires_at: None,
            shared: false,
            used_us: AtomicI64::new(0),
        };
        let known = Arc::new(known);
        self.0.known.rcu(|before| {
            let mut after = HashMap::clone(before);
            after.insert(id.to_owned(), Arc::clone(&known));
            after
        });
    }

    /// Puts the catalog's tokens in place of those it had before.
    pub fn replace(&self, tokens: &BTreeMap<String, Token>) {
        self.0.known.rcu(|before| {
            let own = before.iter().filter(|(_, known)| !known.shared);
            let mut after: HashMap<_, _> = own.map(|(id, known)| (id.clone(), Arc::clone(known))).collect();
            for token in tokens.values().filter(|token| token.revoked_at.is_none()) {
                let used_us = before.get(&token.id).map_or(0, |known| known.used_us.load(Ordering::Relaxed));
                let known = Known {
                    name: token.name.clone(),
                    role: token.role,
                    hash: token.hash.0,
                    expires_at: token.expires_at,
                    shared: true,
                    used_us: AtomicI64::new(used_us),
                };
                after.insert(token.id.clone(), Arc::new(known));
            }
            after
        });
    }

    /// Whether an administrator of whatever kind has a token but the one this node made for itself.
    pub fn has_shared(&self) -> bool {
        let now = self.0.clock.now();
        self.0
            .known
            .load()
            .values()
            .any(|known| known.shared && known.is_valid(now) && known.role.may(Role::Viewer))
    }

    /// Who sends a request with these headers.
    ///
    /// # Errors
    /// If that is nobody known.
    pub fn who(&self, headers: &HeaderMap) -> Result<Who, Unknown> {
        self.holder(&Credential::of_headers(headers))
    }

    /// Whose token that is.
    ///
    /// # Errors
    /// If there is none, or it is nobody's.
    pub fn whose(&self, token: Option<&str>) -> Result<Who, Unknown> {
        self.holder(&Credential::of_token(token))
    }

    /// Whether the token counts at this moment.
    ///
    /// # Errors
    /// If there is none, or it is nobody's.
    pub fn admit(&self, credential: &Credential) -> Result<(), Unknown> {
        self.find(credential).map(drop)
    }

    fn holder(&self, credential: &Credential) -> Result<Who, Unknown> {
        let (presented, known) = self.find(credential)?;
        Ok(Who { id: presented.id.clone(), name: known.name.clone(), role: known.role })
    }

    fn find<'c>(&self, credential: &'c Credential) -> Result<(&'c Presented, Arc<Known>), Unknown> {
        let now = self.0.clock.now();
        let presented = credential.0.as_ref().map_err(|unknown| *unknown)?;
        let known = self.0.known.load().get(&presented.id).map(Arc::clone).ok_or(Unknown::Refused)?;
        let same = bool::from(presented.hash.ct_eq(&known.hash));
        if !same || !known.is_valid(now) {
            return Err(Unknown::Refused);
        }
        known.used_us.store(now.as_microsecond(), Ordering::Relaxed);
        Ok((presented, known))
    }

    /// The catalog's tokens that were used since this was asked last, and when.
    pub fn take_used(&self) -> Vec<(String, Timestamp)> {
        let known = self.0.known.load();
        let used = known.iter().filter(|(_, known)| known.shared).filter_map(|(id, known)| {
            let us = known.used_us.swap(0, Ordering::Relaxed);
            let at = (us != 0).then(|| Timestamp::from_microsecond(us).ok())??;
            Some((id.clone(), at))
        });
        used.collect()
    }
}

impl Known {
    fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}
