//! Getting a token: with a password, or with an API key that signs the call.

use api::auth::{KEY_LOGIN, LoginReply, LoginRequest, header, signed_text};
use model::{Problem, WallTime};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;

use crate::failure::Result;
use crate::transport::Client;

impl Client {
    pub fn login(&self, username: &str, password: &str) -> Result<LoginReply> {
        let request = LoginRequest { username: username.to_owned(), password: password.to_owned() };
        self.send("POST", &format!("{}/auth/login", api::PREFIX), &request)
    }

    /// The call that a key signs. The secret itself is not sent.
    pub fn login_by_key(&self, key_id: &str, secret: &str) -> Result<LoginReply> {
        let mut nonce = [0; 16];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| Problem::internal("client.no_randomness", "the operating system gives no random bytes"))?;
        let (timestamp, nonce) = (WallTime::now().seconds().to_string(), hex::encode(nonce));
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = hex::encode(hmac::sign(&key, signed_text(&timestamp, &nonce).as_bytes()).as_ref());
        let headers = [
            (header::KEY_ID, key_id),
            (header::TIMESTAMP, &timestamp),
            (header::NONCE, &nonce),
            (header::SIGNATURE, &signature),
        ];
        self.send_with_headers("POST", KEY_LOGIN, &json!({}), &headers)
    }
}
