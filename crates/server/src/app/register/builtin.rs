//! The declaration of a system that the program or its systems folder knows, for a registration without a seed.
//!
//! It is written in the seed's own format, so that both ways of registering are one.

use std::collections::BTreeMap;

use ::system::Registration;
use model::{ErrorKind, Problem, Result};
use serde_json::{Value, json};

/// Name that stands for the environment's.
pub(in crate::app) const ENV: &str = "built-in";
/// Slots of a system that nobody said more about.
const SLOTS: u32 = 4;

/// The files of a seed that declares this system alone.
///
/// # Errors
/// `system.no_chart_version` when its data know no version of its chart.
pub(super) fn seed(system: &Registration) -> Result<BTreeMap<String, String>> {
    let code = system.code.as_str();
    let Some(version) = system.chart.known_versions.last() else {
        return Err(Problem::new(ErrorKind::Missing, "system.no_chart_version", "no version of the chart is known")
            .place(format!("system {code}: chart.known_versions"))
            .expected("the exact version to install")
            .fix("add one, or register the system from a seed"));
    };
    let pedestal = json!({
        "type": 2, "name": code, "is_public": true, "status": 1,
        "versions": [{
            "name": version, "status": 1,
            "helm_config": {
                "version": version,
                "chart_name": system.chart.name,
                "repo_name": code,
                "repo_url": system.chart.repository,
                "status": 1,
            },
        }],
    });
    // Builds datapacks where telemetry is in ClickHouse; the simulated cluster's are built by the program.
    let benchmark = json!({
        "type": 1, "name": format!("{code}-bench"), "is_public": true, "status": 1,
        "versions": [{
            "name": "1.0.0",
            "image_ref": "docker.io/clickhouse/clickhouse-server:25.8.2.29",
            "command": "bash /entrypoint.sh",
            "env_vars": [{
                "key": "NAMESPACE", "type": 0, "category": 0, "value_type": 0, "default_value": format!("{code}0"),
                "required": true, "overridable": true,
            }],
        }],
    });
    let data = json!({ "containers": [pedestal, benchmark], "dynamic_configs": keys(system) });
    Ok(BTreeMap::from([(::seed::DATA_FILE.to_owned(), format!("{data:#}\n"))]))
}

fn keys(system: &Registration) -> Vec<Value> {
    let key = |name: &str, value: String, kind: u8, meaning: &str| {
        json!({
            "key": format!("{}{}.{name}", ::settings::SYSTEM_PREFIX, system.code),
            "default_value": value, "value_type": kind, "scope": 2, "is_secret": false,
            "category": format!("{}{name}", ::settings::SYSTEM_PREFIX), "description": meaning,
        })
    };
    let bounded = |mut row: Value, least: i32, most: i32| {
        row["min_value"] = json!(least);
        row["max_value"] = json!(most);
        row
    };
    vec![
        bounded(key("count", SLOTS.to_string(), 2, "Number of slots"), 1, 100),
        key("ns_pattern", system.namespace_pattern.clone(), 0, "What the namespaces of the slots look like"),
        key("extract_pattern", system.extract_pattern.clone(), 0, "Code and slot number in a namespace"),
        key("display_name", system.display_name.clone(), 0, "Name of the system as people read it"),
        key("app_label_key", system.app_label_key.clone(), 0, "Pod label that names the service"),
        key("is_builtin", "true".to_owned(), 1, "Whether the program knows the system's topology"),
        bounded(key("status", "1".to_owned(), 2, "1 enabled, 0 disabled, -1 deleted"), -1, 1),
        bounded(
            key(
                "warmup_seconds",
                system.warmup_s.to_string(),
                2,
                "Seconds between a ready system and the normal window",
            ),
            0,
            1800,
        ),
    ]
}
