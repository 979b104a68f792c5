//! Who calls.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The caller, as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    pub id: i32,
    pub username: String,
    /// `admin`.
    pub role: String,
    /// How the caller proved who it is: `token`.
    pub auth_type: String,
    pub is_active: bool,
    /// When the token ends; absent when it does not.
    pub expires_at: Option<String>,
}
