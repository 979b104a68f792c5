//! The keys that the product itself reads, with their types, defaults and bounds.
//!
//! Names and bounds are those of the public seed's declarations, so that a seed's value is what the product obeys.

use model::{Problem, Result};

use crate::{Backend, Bounds, Declaration, Scope, ValueType};

/// Keys of one system: `injection.system.<code>.<name>`.
pub const SYSTEM_PREFIX: &str = "injection.system.";

/// A value that a key can have.
pub trait Value: Sized {
    fn from_text(text: &str) -> Option<Self>;
}

impl Value for i64 {
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// One key of the product.
#[derive(Debug, Clone, Copy)]
pub struct Key<T> {
    pub name: &'static str,
    pub scope: Scope,
    pub default: T,
    pub min: T,
    pub max: T,
    /// One sentence, with the unit.
    pub meaning: &'static str,
}

const fn whole(name: &'static str, default: i64, min: i64, max: i64, meaning: &'static str) -> Key<i64> {
    Key { name, scope: Scope::Consumer, default, min, max, meaning }
}

/// How many pedestals may be installed at the same time.
pub const RESTART_LIMIT: Key<i64> = whole(
    "rate_limiting.max_concurrent_restarts_pedestal",
    2,
    1,
    50,
    "Number of pedestals that may be installed at the same time.",
);
/// How many slots may become ready at the same time.
pub const WARMING_LIMIT: Key<i64> = whole(
    "rate_limiting.max_concurrent_ns_warming",
    30,
    1,
    200,
    "Number of slots that may become ready at the same time.",
);
/// How many datapacks may be built at the same time.
pub const BUILD_LIMIT: Key<i64> = whole(
    "rate_limiting.max_concurrent_build_datapack",
    8,
    1,
    50,
    "Number of datapacks that may be built at the same time.",
);
/// How many algorithms may run at the same time.
pub const EXECUTION_LIMIT: Key<i64> = whole(
    "rate_limiting.max_concurrent_algo_execution",
    5,
    1,
    50,
    "Number of detectors and algorithms that may run at the same time.",
);
/// How many faults may be live at the same time.
pub const INJECTION_LIMIT: Key<i64> = Key {
    scope: Scope::Global,
    ..whole(
        "rate_limiting.max_concurrent_injections",
        20,
        1,
        100,
        "Number of faults that may be live at the same time.",
    )
};
/// How far behind the end of the abnormal window the newest signal may be, in seconds of data time.
pub const FRESHNESS_WATERMARK: Key<i64> = whole(
    "rate_limiting.build_datapack_freshness_watermark_seconds",
    30,
    0,
    600,
    "Seconds of data time that the newest signal may be behind the end of the abnormal window.",
);
/// How long a build waits for the signals of its windows, in seconds.
pub const FRESHNESS_MAX_WAIT: Key<i64> = whole(
    "rate_limiting.build_datapack_freshness_max_wait_seconds",
    300,
    30,
    1800,
    "Seconds that the build of a datapack waits for the signals of its windows.",
);

const ALL: [Key<i64>; 7] = [
    RESTART_LIMIT,
    WARMING_LIMIT,
    BUILD_LIMIT,
    EXECUTION_LIMIT,
    INJECTION_LIMIT,
    FRESHNESS_WATERMARK,
    FRESHNESS_MAX_WAIT,
];

impl Key<i64> {
    pub fn declaration(&self) -> Declaration {
        Declaration {
            key: self.name.to_owned(),
            scope: self.scope,
            value_type: ValueType::Int,
            default: self.default.to_string(),
            seed: None,
            bounds: Bounds { min: Some(self.min as f64), max: Some(self.max as f64), ..Bounds::default() },
            description: self.meaning.to_owned(),
            is_secret: false,
        }
    }
}

/// Every key that the product reads, by name.
pub fn catalogue() -> Vec<Declaration> {
    let mut all: Vec<Declaration> = ALL.iter().map(Key::declaration).collect();
    all.sort_by(|one, other| one.key.cmp(&other.key));
    all
}

/// The live value of a key, or its default when none is live.
///
/// # Errors
/// `setting.unreadable` when what is live is no such value: it is never replaced silently.
pub async fn read<T: Value + Copy>(backend: &dyn Backend, key: &Key<T>) -> Result<T> {
    match backend.get(key.name).await? {
        None => Ok(key.default),
        Some(live) => T::from_text(&live.value).ok_or_else(|| {
            Problem::internal("setting.unreadable", "a live setting cannot be read")
                .place(key.name)
                .found(format!("`{}`", live.value))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_passes_its_own_check_and_no_key_is_there_twice() {
        let all = catalogue();
        for declaration in &all {
            declaration.check(&declaration.default).unwrap();
        }
        assert!(all.windows(2).all(|pair| pair[0].key < pair[1].key));
    }
}
