//! Logging in with a password and with an API key, and what becomes of both.

use api::auth::signed_text;
use ring::hmac;
use serde_json::{Value, json};

use crate::world::World;

const PASSWORD: &str = "correct horse battery";

fn admin(world: &World, method: &str, path: &str, body: &Value) -> Value {
    let answer = world.call(method, path, Some(&world.token()), &body.to_string());
    assert!(answer.status < 300, "{method} {path}: {}", answer.body);
    answer.body["data"].clone()
}

fn login(world: &World, name: &str, password: &str) -> (u16, Value) {
    let body = json!({"username": name, "password": password}).to_string();
    let answer = world.call("POST", "/api/v2/auth/login", None, &body);
    (answer.status, answer.body)
}

/// A signed call, as the public client makes it.
fn exchange(world: &World, key_id: &str, secret: &str, at: i64, nonce: &str) -> (u16, Value) {
    let text = signed_text(&at.to_string(), nonce);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), text.as_bytes());
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut answer = agent
        .post(format!("{}{}", world.address, api::auth::KEY_LOGIN))
        .header("X-Key-Id", key_id)
        .header("X-Timestamp", at.to_string())
        .header("X-Nonce", nonce)
        .header("X-Signature", hex::encode(tag.as_ref()))
        .send_empty()
        .unwrap();
    let body = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&body).unwrap())
}

fn username(world: &World, token: &str) -> (u16, Value) {
    let answer = world.call("GET", "/api/v2/auth/profile", Some(token), "");
    (answer.status, answer.body["data"]["username"].clone())
}

#[test]
fn a_password_opens_a_session_until_it_is_changed() {
    let world = World::start();
    assert_eq!(world.block_on(world.store.users()).unwrap(), [], "nobody has a password by default");
    let set = |body: Value| {
        let answer = world.call("PUT", "/api/v2/auth/users/ann/password", Some(&world.token()), &body.to_string());
        (answer.status, answer.body["data"]["code"].clone())
    };
    assert_eq!(set(json!({"password": "short", "role": "author"})), (400, "password.length_out_of_range".into()));
    assert_eq!(set(json!({"password": PASSWORD})), (400, "user.role_missing".into()));
    assert_eq!(set(json!({"password": PASSWORD, "role": "autor"})), (400, "role.unknown".into()));
    assert_eq!(set(json!({"password": PASSWORD, "role": "author"})).0, 200);
    let stored = world.block_on(world.store.user("ann")).unwrap().unwrap();
    assert!(stored.password_hash.starts_with("$argon2id$v=19$") && !stored.password_hash.contains(PASSWORD));

    let (status, body) = login(&world, "ann", PASSWORD);
    assert_eq!(
        (status, &body["data"]["user"]["username"], &body["data"]["auth_type"]),
        (200, &"ann".into(), &"password".into())
    );
    let token = body["data"]["token"].as_str().unwrap().to_owned();
    assert_eq!(username(&world, &token), (200, "ann".into()));
    let denied = world.call("GET", "/api/v2/auth/keys", Some(&token), "");
    assert_eq!((denied.status, &denied.body["data"]["code"]), (403, &"token.role_too_low".into()));

    let refresh = |token: &str| {
        let answer = world.call("POST", "/api/v2/auth/refresh", None, &json!({"token": token}).to_string());
        (answer.status, answer.body["data"].clone())
    };
    let (status, fresh) = refresh(&token);
    assert_eq!(status, 200, "{fresh}");
    let fresh = fresh["token"].as_str().unwrap().to_owned();
    assert_ne!(fresh, token);
    assert_eq!((username(&world, &fresh).0, username(&world, &token).0), (200, 200));
    assert_eq!(refresh("nonsense").0, 401);
    assert_eq!(refresh(&world.token()), (409, refresh(&world.token()).1), "the administrator's own does not end");

    assert_eq!(set(json!({"password": "another long password"})).0, 200);
    assert_eq!((username(&world, &fresh).0, username(&world, &token).0), (401, 401));
    assert_eq!(login(&world, "ann", PASSWORD).0, 401);
    assert_eq!(login(&world, "ann", "another long password").0, 200);
}

#[test]
fn guessing_is_slowed_down_and_tells_nothing() {
    let world = World::start();
    admin(&world, "PUT", "/api/v2/auth/users/ann/password", &json!({"password": PASSWORD, "role": "viewer"}));
    for name in ["ann", "bob"] {
        for _ in 0..5 {
            let (status, body) = login(&world, name, "wrong");
            assert_eq!((status, &body["data"]["code"]), (401, &"login.refused".into()));
        }
        let (status, body) = login(&world, name, PASSWORD);
        assert_eq!((status, &body["data"]["code"]), (429, &"login.too_many_failures".into()));
    }
}

#[test]
fn an_api_key_signs_once_within_five_minutes_until_it_is_revoked() {
    let world = World::start();
    let made = admin(&world, "POST", "/api/v2/auth/keys", &json!({"name": "laptop", "role": "author", "days": 30}));
    let (id, secret) = (made["key_id"].as_str().unwrap(), made["key_secret"].as_str().unwrap());
    let listed = admin(&world, "GET", "/api/v2/auth/keys", &json!({}));
    assert!(listed[0]["key_id"] == id && !listed.to_string().contains(secret), "{listed}");
    let database: Vec<u8> = ["aegis.db", "aegis.db-wal"]
        .iter()
        .flat_map(|file| std::fs::read(world.folder.path().join(file)).unwrap_or_default())
        .collect();
    assert!(!database.windows(secret.len()).any(|window| window == secret.as_bytes()), "the secret is sealed");

    let now = model::WallTime::now().seconds();
    let (status, body) = exchange(&world, id, secret, now, "0123456789abcdef");
    assert_eq!((status, &body["data"]["auth_type"], &body["data"]["key_id"]), (200, &"api_key".into(), &id.into()));
    let token = body["data"]["token"].as_str().unwrap().to_owned();
    assert_eq!(username(&world, &token), (200, "laptop".into()));
    for (id, secret, at, nonce, code) in [
        (id, secret, now, "0123456789abcdef", "key.nonce_used"),
        (id, secret, now - 301, "fresh-nonce-1", "key.clock_skew"),
        (id, secret, now + 310, "fresh-nonce-2", "key.clock_skew"),
        (id, secret, now, "short", "key.nonce_malformed"),
        (id, "sk_wrong", now, "fresh-nonce-3", "key.refused"),
        ("ak_unknown", secret, now, "fresh-nonce-4", "key.refused"),
    ] {
        let (status, body) = exchange(&world, id, secret, at, nonce);
        assert_eq!((status, &body["data"]["code"]), (401, &code.into()), "{nonce}");
    }
    let old = exchange(&world, id, secret, now - 290, "fresh-nonce-5");
    assert_eq!(old.0, 200, "{}", old.1);
    admin(&world, "DELETE", &format!("/api/v2/auth/keys/{id}"), &json!({}));
    assert_eq!(username(&world, &token).0, 401, "its tokens end with it");
    let (status, body) = exchange(&world, id, secret, now, "fresh-nonce-6");
    assert_eq!((status, &body["data"]["code"]), (401, &"key.revoked".into()));
}
