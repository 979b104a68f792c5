//! Encryption of the secrets of API keys: checking a signature needs the secret itself, so a hash is not enough.
//!
//! The key that seals them is in a file of its own beside the store, so that a copy of the database gives none of them away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::{ErrorKind, Problem, Result};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use super::write_private;

const FILE: &str = "keys.secret";
const KEY_LEN: usize = 32;

/// Seals and opens secrets. Each is bound to the id of its API key.
pub struct Seal {
    key: LessSafeKey,
    file: PathBuf,
}

impl Seal {
    /// The key of this data folder, made at the first start: 32 random bytes in hexadecimal, mode 0600.
    ///
    /// # Errors
    /// `keys.file_unusable`.
    pub fn open(data: &Path) -> Result<Self> {
        let file = data.join(FILE);
        let unusable = |found: String| {
            Problem::new(
                ErrorKind::Missing,
                "keys.file_unusable",
                "the file that seals the secrets of API keys is unusable",
            )
            .place(file.display().to_string())
            .found(found)
            .expected("64 hexadecimal digits, readable by this user alone")
        };
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let fresh = hex::encode(random::<KEY_LEN>()?);
                write_private(&file, &fresh).map_err(|error| unusable(error.to_string()))?;
                fresh
            }
            Err(error) => return Err(unusable(error.to_string())),
        };
        let bytes = hex::decode(text.trim()).map_err(|error| unusable(error.to_string()))?;
        let key =
            UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| unusable(format!("{} bytes", bytes.len())))?;
        Ok(Self { key: LessSafeKey::new(key), file })
    }

    /// Nonce, text and tag in hexadecimal.
    pub fn seal(&self, key_id: &str, secret: &str) -> Result<String> {
        let nonce = random::<NONCE_LEN>()?;
        let mut bytes = secret.as_bytes().to_vec();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(key_id), &mut bytes)
            .map_err(|_| Problem::internal("keys.unsealable", "a secret cannot be sealed"))?;
        Ok(format!("{}{}", hex::encode(nonce), hex::encode(bytes)))
    }

    /// # Errors
    /// `keys.unreadable` when the secret was sealed with another file, or for another key.
    pub fn open_secret(&self, key_id: &str, sealed: &str) -> Result<Vec<u8>> {
        let opened = hex::decode(sealed).ok().and_then(|mut bytes| {
            let (nonce, text) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
            let opened = self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(key_id), text).ok()?;
            Some(opened.to_vec())
        });
        opened.ok_or_else(|| {
            Problem::new(
                ErrorKind::Missing,
                "keys.unreadable",
                "the server cannot read the secret of this key any more",
            )
            .place(self.file.display().to_string())
            .found("another file than the one that the secret was sealed with")
            .fix("put the old file back, or make a new key")
        })
    }
}

/// Bytes from the operating system's generator.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Problem::internal("server.no_randomness", "the operating system gives no random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_under_its_own_file_and_key_only() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let seal = Seal::open(here.path()).unwrap();
        let sealed = seal.seal("ak_1", "secret").unwrap();
        assert!(!sealed.contains(&hex::encode("secret")));
        assert_ne!(sealed, seal.seal("ak_1", "secret").unwrap(), "no nonce is used twice");
        let again = Seal::open(here.path()).unwrap();
        assert_eq!(again.open_secret("ak_1", &sealed).unwrap(), b"secret");
        let other = Seal::open(there.path()).unwrap();
        for (seal, id, text) in [(&again, "ak_2", sealed.as_str()), (&other, "ak_1", &sealed), (&again, "ak_1", "00")] {
            assert_eq!(seal.open_secret(id, text).unwrap_err().code, "keys.unreadable");
        }
        fs::write(here.path().join(FILE), "short").unwrap();
        assert_eq!(Seal::open(here.path()).err().unwrap().code, "keys.file_unusable");
    }
}
