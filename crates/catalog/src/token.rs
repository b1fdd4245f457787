//! Access tokens. The catalog stores hashes of their secrets, never the secrets.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::sql::connection::{Connection, unexpected};
use crate::sql::{Arg, Commit, Row, Session, batch};
use crate::{By, name, time};

pub(crate) const TOKEN: &str =
    "id, name, role, hash, created_at, expires_at, revoked_at, last_used_at, revision";

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The public part of the token.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The permissions of the token.
    pub role: Role,
    /// The hash of the secret part.
    pub hash: TokenHash,
    /// When the token was created.
    pub created_at: Timestamp,
    /// When the token expires; `None` if it does not. At this time it is no longer valid.
    pub expires_at: Option<Timestamp>,
    /// When the token was revoked; `None` if it was not.
    pub revoked_at: Option<Timestamp>,
    /// When the token was last used, according to [`Catalog::touch_tokens`].
    pub last_used_at: Option<Timestamp>,
    /// The version of the catalog that changed the token last. Uses of the token are not changes.
    pub revision: u64,
}

/// A token to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenDraft {
    /// The public part of the token. It must be unique.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The permissions of the token.
    pub role: Role,
    /// The hash of the secret part.
    pub hash: TokenHash,
    /// When the token expires; `None` if it does not. At this time it is no longer valid.
    pub expires_at: Option<Timestamp>,
}

/// The permissions of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May read everything.
    Viewer,
    /// May also change limits.
    Operator,
    /// May also manage tokens.
    Admin,
    /// May only request decisions.
    Check,
}

/// The SHA-256 hash of a secret. Its `Debug` output does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash(pub [u8; 32]);

impl Role {
    /// Returns the name of the role.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Check => "check",
        }
    }

    /// Returns whether this role has all permissions of `other`.
    pub const fn may(self, other: Self) -> bool {
        self.rank() >= other.rank()
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Check => 0,
            Self::Viewer => 1,
            Self::Operator => 2,
            Self::Admin => 3,
        }
    }

    /// Returns the role with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Viewer, Self::Operator, Self::Admin, Self::Check].into_iter().find(|role| role.name() == name)
    }
}

impl TokenHash {
    fn to_hex(self) -> String {
        use fmt::Write as _;
        self.0.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes all");
            text
        })
    }

    fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}

impl Token {
    /// Returns whether the token is valid at `at`: neither revoked nor expired.
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| at < end)
    }
}

impl Catalog {
    /// Creates a token.
    ///
    /// # Errors
    ///
    /// Returns an error if the draft is invalid, a token with that ID exists, or the database fails.
    pub async fn create_token(&self, draft: &TokenDraft, by: &By) -> Result<Token> {
        name::check("id", &draft.id)?;
        name::check("name", &draft.name)?;
        let expires_at = draft.expires_at.map(time::whole);
        if let Some(end) = expires_at.filter(|end| *end <= by.at) {
            return Err(Error::invalid("expires_at", format!("must be in the future, got {end}")));
        }
        self.change(|| async {
            let mut write = self.begin(by).await?;
            if let Some(there) = find(&mut write, &draft.id).await? {
                return Err(Error::Precondition { current: Some(there.revision) });
            }
            let token = Token {
                id: draft.id.clone(),
                name: draft.name.clone(),
                role: draft.role,
                hash: draft.hash,
                created_at: write.by.at,
                expires_at,
                revoked_at: None,
                last_used_at: None,
                revision: write.revision,
            };
            store(&mut write, &[&token]).await?;
            let (id, states) = (token.id.clone(), [None, Some(audited(&token))]);
            write.prepared("create_token", "token", &id, states, token).await
        })
        .await
    }

    /// Revokes a token. A token that is revoked already is not changed.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such token, or the database fails.
    pub async fn revoke_token(&self, id: &str, by: &By) -> Result<Token> {
        name::check("id", id)?;
        self.change(|| async {
            let mut write = self.begin(by).await?;
            let found = find(&mut write, id).await?;
            let before = found.ok_or_else(|| Error::not_found("token", id))?;
            if before.revoked_at.is_some() {
                return write.unchanged(before).await;
            }
            let (revoked_at, revision) = (Some(write.by.at), write.revision);
            let after = Token { revoked_at, revision, ..before.clone() };
            store(&mut write, &[&after]).await?;
            let states = [Some(audited(&before)), Some(audited(&after))];
            write.prepared("revoke_token", "token", id, states, after).await
        })
        .await
    }

    /// Returns all tokens, sorted by ID.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        self.within(async {
            let mut read = self.read().await?;
            let found = read.rows(format!("SELECT {TOKEN} FROM tokens ORDER BY id"), &[], read_token).await?;
            read.done().await;
            Ok(found)
        })
        .await
    }

    /// Records when tokens were last used. This does not count as a change: there is no new revision, no
    /// audit entry and no notification.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn touch_tokens(&self, used: &[(String, Timestamp)]) -> Result<()> {
        let mut used = used.to_vec();
        // All nodes use the same order, so that they cannot deadlock.
        used.sort();
        self.within(async {
            let mut session = Session::write(&self.pool).await?;
            let sql = "UPDATE tokens SET last_used_at = $2 \
                 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
            for (id, at) in used.iter().filter(|(id, _)| !id.contains('\0')) {
                session.execute(sql, &[id.into(), (*at).into()]).await?;
            }
            // Nothing is checked here, so the write cannot be superseded.
            let (Commit::Done | Commit::Superseded) = session.commit().await?;
            Ok(())
        })
        .await
    }
}

async fn find(connection: &mut Connection, id: &str) -> Result<Option<Token>> {
    connection.row(format!("SELECT {TOKEN} FROM tokens WHERE id = $1"), &[id.into()], read_token).await
}

/// Inserts or updates tokens. An existing token keeps its `last_used_at`.
pub(crate) async fn store(connection: &mut Connection, tokens: &[&Token]) -> Result<()> {
    let rows: Vec<Vec<Arg>> = tokens.iter().map(|token| token_args(token)).collect();
    let conflict = " ON CONFLICT (id) DO UPDATE SET name = excluded.name, role = excluded.role, \
         hash = excluded.hash, created_at = excluded.created_at, expires_at = excluded.expires_at, \
         revoked_at = excluded.revoked_at, revision = excluded.revision";
    batch::insert(connection, &format!("tokens ({TOKEN})"), &rows, conflict).await
}

fn token_args(token: &Token) -> Vec<Arg> {
    vec![
        (&token.id).into(),
        (&token.name).into(),
        token.role.name().into(),
        token.hash.to_hex().as_str().into(),
        token.created_at.into(),
        token.expires_at.into(),
        token.revoked_at.into(),
        token.last_used_at.into(),
        token.revision.into(),
    ]
}

pub(crate) fn read_token(row: &Row<'_>) -> Result<Token> {
    let (role, hash) = (row.text(2)?, row.text(3)?);
    Ok(Token {
        id: row.text(0)?,
        name: row.text(1)?,
        role: Role::named(&role).ok_or_else(|| unexpected(2, &role))?,
        hash: TokenHash::from_hex(&hash).ok_or_else(|| unexpected(3, "no hash"))?,
        created_at: row.time(4)?,
        expires_at: row.maybe_time(5)?,
        revoked_at: row.maybe_time(6)?,
        last_used_at: row.maybe_time(7)?,
        revision: row.number(8)?,
    })
}

/// Returns a token as the audit trail records it: without the hash.
fn audited(token: &Token) -> serde_json::Value {
    serde_json::json!({
        "name": token.name,
        "role": token.role,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    })
}
