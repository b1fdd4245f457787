//! The valid tokens.
//!
//! They are looked up for every request to the admin API, and for those of clients if `http.tokens` or `grpc.tokens`
//! require one: in memory, without a lock. A token that is revoked in the catalog is removed when the catalog is read
//! next.

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

/// Tokens by their IDs. Clones share their state.
#[derive(Clone, Default)]
pub struct TokenRegistry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    known: ArcSwap<HashMap<String, Arc<Known>>>,
    /// The clock of the catalog, by which tokens expire.
    clock: CatalogClock,
}

struct Known {
    name: String,
    role: Role,
    hash: [u8; 32],
    expires_at: Option<Timestamp>,
    /// Whether it is in the catalog, and not in a file of this node.
    shared: bool,
    /// When it was used last, in microseconds of Unix time; 0 if that has been taken.
    used_us: AtomicI64,
}

/// The holder of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The ID of the token.
    pub id: String,
    /// The name of the token.
    pub name: String,
    /// The role of the token.
    pub role: Role,
}

/// Why a request is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// It has no token.
    Missing,
    /// The token is not valid, or was revoked.
    Refused,
}

impl AuthError {
    /// Returns the value of `WWW-Authenticate`.
    pub const fn challenge(self) -> &'static str {
        match self {
            Self::Missing => "Bearer realm=\"tidegate\"",
            Self::Refused => "Bearer realm=\"tidegate\", error=\"invalid_token\"",
        }
    }

    /// Returns what is wrong, and what to do.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "a token is needed: send `Authorization: Bearer tg_…`",
            Self::Refused => {
                "the token is not known here: it may be revoked, expired, or of another deployment"
            }
        }
    }
}

/// The token of a request, parsed and hashed. It is reused for requests with the same head.
#[derive(Clone, Debug)]
pub struct Credential(Result<Presented, AuthError>);

#[derive(Clone, Debug)]
struct Presented {
    id: String,
    hash: [u8; 32],
}

impl Credential {
    /// Returns the bearer token in these headers, if there is one.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Self(Err(AuthError::Missing));
        };
        let Ok(text) = value.to_str() else { return Self(Err(AuthError::Refused)) };
        match text.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Self::of_token(Some(token)),
            _ => Self(Err(AuthError::Missing)),
        }
    }

    /// Returns the credential for a plain token.
    pub fn of_token(token: Option<&str>) -> Self {
        let Some(token) = token else { return Self(Err(AuthError::Missing)) };
        let secret = Secret::parse(token.trim()).ok_or(AuthError::Refused);
        Self(secret.map(|secret| Presented { id: secret.id().to_owned(), hash: secret.hash() }))
    }
}

impl TokenRegistry {
    /// Returns the clock by which tokens expire.
    pub fn clock(&self) -> &CatalogClock {
        &self.0.clock
    }

    /// Adds a token of this node, which never expires.
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

    /// Replaces the tokens of the catalog.
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

    /// Returns whether there is a valid token for the admin API in the catalog.
    pub fn has_shared(&self) -> bool {
        let now = self.0.clock.now();
        self.0
            .known
            .load()
            .values()
            .any(|known| known.shared && known.is_valid(now) && known.role.may(Role::Viewer))
    }

    /// Returns the holder of the token in these headers.
    ///
    /// # Errors
    /// If there is no token, or it is not valid.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<TokenHolder, AuthError> {
        self.holder(&Credential::of_headers(headers))
    }

    /// Returns the holder of a token.
    ///
    /// # Errors
    /// If there is no token, or it is not valid.
    pub fn authenticate_token(&self, token: Option<&str>) -> Result<TokenHolder, AuthError> {
        self.holder(&Credential::of_token(token))
    }

    /// Checks that a credential is valid now.
    ///
    /// # Errors
    /// If there is no token, or it is not valid.
    pub fn admit(&self, credential: &Credential) -> Result<(), AuthError> {
        self.find(credential).map(drop)
    }

    /// Returns the holder of a credential that is valid now.
    ///
    /// # Errors
    /// If there is no token, or it is not valid.
    pub fn holder(&self, credential: &Credential) -> Result<TokenHolder, AuthError> {
        let (presented, known) = self.find(credential)?;
        Ok(TokenHolder { id: presented.id.clone(), name: known.name.clone(), role: known.role })
    }

    fn find<'c>(&self, credential: &'c Credential) -> Result<(&'c Presented, Arc<Known>), AuthError> {
        let now = self.0.clock.now();
        let presented = credential.0.as_ref().map_err(|unknown| *unknown)?;
        let known = self.0.known.load().get(&presented.id).map(Arc::clone).ok_or(AuthError::Refused)?;
        let same = bool::from(presented.hash.ct_eq(&known.hash));
        if !same || !known.is_valid(now) {
            return Err(AuthError::Refused);
        }
        known.used_us.store(now.as_microsecond(), Ordering::Relaxed);
        Ok((presented, known))
    }

    /// Returns the tokens of the catalog that were used since the last call, and when.
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
