//! Bearer tokens: `tg_<id>_<secret>`.
//!
//! The ID is not secret: lists and the audit trail show it. Only the SHA-256 of the secret is stored, which is enough for
//! 256 random bits: they cannot be guessed by trying.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

const PREFIX: &str = "tg_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// A token with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    id: String,
    secret: [u8; SECRET_BYTES],
}

impl Secret {
    /// Generates a random token.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Self { id: format!("{:016x}", u64::from_be_bytes(id)), secret })
    }

    /// Parses a token.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(2 * ID_BYTES)?;
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let secret = URL_SAFE_NO_PAD.decode(secret.strip_prefix('_')?).ok()?;
        let secret = secret.try_into().ok()?;
        id.bytes().all(lower_hex).then(|| Self { id: id.to_owned(), secret })
    }

    /// Returns the ID of the token.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the hash of the secret.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.secret).into()
    }

    /// Returns the whole token, which only its holder may see.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, URL_SAFE_NO_PAD.encode(self.secret))
    }
}

/// Does not show the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_shown_and_nothing_else_is_one() {
        let token = Secret::generate().expect("random bytes");
        let text = token.reveal();
        assert_eq!(Secret::parse(&text), Some(token.clone()));
        assert_ne!(Secret::generate().expect("random bytes"), token);
        let long = format!("{text}A");
        let shouted = text.to_uppercase();
        for other in ["", "tg_", "tg_ü23456789abcdef_x", &text[1..], &text[..text.len() - 1], &long, &shouted]
        {
            assert_eq!(Secret::parse(other), None, "{other}");
        }
        assert!(!format!("{token:?}").contains(&text["tg_0123456789abcdef_".len()..]));
    }
}
