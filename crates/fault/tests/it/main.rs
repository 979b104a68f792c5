//! What the capability table promises: complete rows, checked requests, exact objects, stable ids.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking, as the test does")]

mod bad_input;
mod golden;
mod points;
mod table;

use std::sync::{Arc, LazyLock};

use fault::{Resolved, Spec, resolve};
use model::SystemCode;
use serde_json::Value;
use system::{Catalog, SystemData};

static TS: LazyLock<Arc<SystemData>> =
    LazyLock::new(|| Catalog::builtin().unwrap().get(&SystemCode::parse("ts").unwrap()).unwrap());

/// A request as a user writes it, in JSON.
fn spec(value: Value) -> Spec {
    serde_json::from_value(value).unwrap()
}

fn resolved(value: Value) -> Resolved {
    resolve(&spec(value), &TS).unwrap_or_else(|problem| panic!("{problem}"))
}
