//! Who calls, how a caller proves who it is, and the keys and passwords for that.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The caller, as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    pub id: i32,
    pub username: String,
    /// `admin`, `operator`, `author` or `viewer`.
    pub role: String,
    /// How the caller proved who it is: `token` (the administrator's file), `password`, `api_key` or `execution`.
    pub auth_type: String,
    pub is_active: bool,
    /// When the token ends; absent when it does not.
    pub expires_at: Option<String>,
}

/// Name and password of a user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginRequest {
    pub username: String,
    pub password: String,
}

/// A token for the calls that follow.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginReply {
    /// Sent as `Authorization: Bearer TOKEN`. It is shown here only.
    pub token: String,
    pub expires_at: String,
    /// `Bearer`.
    pub token_type: String,
    /// `password`, `api_key`, or how the refreshed token was got.
    pub auth_type: String,
    /// Of a login with a key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key_id: Option<String>,
    /// Of a login with a password.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<UserInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserInfo {
    pub id: i32,
    pub username: String,
}

/// A token that is to be exchanged for one that ends later.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefreshRequest {
    pub token: String,
}

/// The headers of a signed call. The signature is HMAC-SHA256, in hexadecimal, over [`signed_text`].
pub mod header {
    pub const KEY_ID: &str = "x-key-id";
    /// Seconds since the Unix epoch.
    pub const TIMESTAMP: &str = "x-timestamp";
    /// Drawn anew for each call.
    pub const NONCE: &str = "x-nonce";
    pub const SIGNATURE: &str = "x-signature";
}

/// Path of the one call that is signed: it gives a token for all others.
pub const KEY_LOGIN: &str = "/api/v2/auth/api-key/token";

/// What a client signs: method, path, timestamp, nonce and the hash of the body, which is empty.
pub fn signed_text(timestamp: &str, nonce: &str) -> String {
    const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    format!("POST\n{KEY_LOGIN}\n{timestamp}\n{nonce}\n{EMPTY_SHA256}")
}

/// A key that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// What it is for, in a few words.
    pub name: String,
    /// `operator`, `author` or `viewer`; or `admin`.
    pub role: String,
    /// Days until it ends: 1 to 3650; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
}

/// A key as lists show it: without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    pub key_id: String,
    pub name: String,
    pub role: String,
    pub created_by: String,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_used_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_at: Option<String>,
}

/// A new key with its secret, which is never shown again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewKey {
    #[serde(flatten)]
    pub key: Key,
    pub key_secret: String,
}

/// A user's new password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordRequest {
    /// 12 to 1024 characters.
    pub password: String,
    /// `operator`, `author`, `viewer` or `admin`. Of a user who is there already, absent means unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// A user as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    pub id: i32,
    pub username: String,
    pub role: String,
    pub created_at: String,
    pub updated_at: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_text_is_that_of_the_public_contract() {
        let text = signed_text("1700000000", "00ff");
        assert_eq!(text.lines().count(), 5);
        assert!(text.starts_with("POST\n/api/v2/auth/api-key/token\n1700000000\n00ff\ne3b0c442"), "{text}");
    }
}
