//! Tokens: who may ask. Their secrets never get here, only hashes do.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::sql::connection::{Connection, strange};
use crate::sql::{Arg, Row, Session, batch};
use crate::{By, name, time};

pub(crate) const TOKEN: &str =
    "id, name, role, hash, created_at, expires_at, revoked_at, last_used_at, revision";

/// A token, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its public part.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Of its secret part.
    pub hash: TokenHash,
    /// When it was made.
    pub created_at: Timestamp,
    /// The first moment it no longer holds.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was used last, as far as was told.
    pub last_used_at: Option<Timestamp>,
    /// Rises with every change but that of its last use.
    pub revision: u64,
}

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenDraft {
    /// Its public part, which no other has.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Of its secret part.
    pub hash: TokenHash,
    /// The first moment it no longer holds.
    pub expires_at: Option<Timestamp>,
}

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See everything.
    Viewer,
    /// Change limits, too.
    Operator,
    /// Change who may, too.
    Admin,
    /// Ask for decisions, and nothing else.
    Check,
}

/// SHA-256 of a secret. It does not show itself in logs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash(pub [u8; 32]);

impl Role {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Check => "check",
        }
    }

    /// Whether it may do what another may.
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

    /// The role of that name.
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
    /// Whether it holds at a moment.
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| at < end)
    }
}

impl Catalog {
    /// Makes a token.
    ///
    /// # Errors
    ///
    /// If the draft makes no sense, there is one of that id, or the database fails.
    pub async fn create_token(&self, draft: &TokenDraft, by: &By) -> Result<Token> {
        name::check("id", &draft.id)?;
        name::check("name", &draft.name)?;
        let expires_at = draft.expires_at.map(time::whole);
        if let Some(end) = expires_at.filter(|end| *end <= by.at) {
            return Err(Error::invalid("expires_at", format!("must be in the future, got {end}")));
        }
        self.change(async {
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
            let (id, told) = (token.id.clone(), [None, Some(audited(&token))]);
            write.prepared("create_token", "token", &id, told, token).await
        })
        .await
    }

    /// Ends a token. One that is revoked already stays as it is.
    ///
    /// # Errors
    ///
    /// If there is none, or the database fails.
    pub async fn revoke_token(&self, id: &str, by: &By) -> Result<Token> {
        name::check("id", id)?;
        self.change(async {
            let mut write = self.begin(by).await?;
            let found = find(&mut write, id).await?;
            let before = found.ok_or_else(|| Error::not_found("token", id))?;
            if before.revoked_at.is_some() {
                return write.unchanged(before).await;
            }
            let (revoked_at, revision) = (Some(write.by.at), write.revision);
            let after = Token { revoked_at, revision, ..before.clone() };
            store(&mut write, &[&after]).await?;
            let told = [Some(audited(&before)), Some(audited(&after))];
            write.prepared("revoke_token", "token", id, told, after).await
        })
        .await
    }

    /// All tokens, in the order of their ids.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        self.within(async {
            let mut read = self.read().await?;
            let found = read.rows(format!("SELECT {TOKEN} FROM tokens ORDER BY id"), &[], read_token).await?;
            read.done().await;
            Ok(found)
        })
        .await
    }

    /// Puts down when tokens were used. That is no change: no revision, no audit, no feed.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn touch_tokens(&self, used: &[(String, Timestamp)]) -> Result<()> {
        let mut used = used.to_vec();
        // In one order on all nodes, so that no two wait for each other.
        used.sort();
        self.within(async {
            let mut session = Session::write(&self.pool).await?;
            let sql = "UPDATE tokens SET last_used_at = $2 \
                 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
            for (id, at) in used.iter().filter(|(id, _)| !id.contains('\0')) {
                session.execute(sql, &[id.into(), (*at).into()]).await?;
            }
            session.commit().await
        })
        .await
    }
}

async fn find(connection: &mut Connection, id: &str) -> Result<Option<Token>> {
    connection.row(format!("SELECT {TOKEN} FROM tokens WHERE id = $1"), &[id.into()], read_token).await
}

/// The last use of a token that is there already stays as it is.
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
        role: Role::named(&role).ok_or_else(|| strange(2, &role))?,
        hash: TokenHash::from_hex(&hash).ok_or_else(|| strange(3, "no hash"))?,
        created_at: row.time(4)?,
        expires_at: row.maybe_time(5)?,
        revoked_at: row.maybe_time(6)?,
        last_used_at: row.maybe_time(7)?,
        revision: row.number(8)?,
    })
}

/// Everything but the hash.
fn audited(token: &Token) -> serde_json::Value {
    serde_json::json!({
        "name": token.name,
        "role": token.role,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    })
}
