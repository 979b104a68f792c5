//! Same simulator input, same bytes: in one installation and in two, with one worker and with four.

use std::path::Path;

use serde_json::Value;
use testkit::process::Site;

use crate::round::{self, FAULT, follow, submit};
use crate::{pack, world};

/// The only files in which ids and wall times may stand, and the list of their checksums.
const MAY_DIFFER: &[&str] = &["open/injection.json", "sealed/injection.json", "sealed/manifest.json", "sha256sum.txt"];

/// The run that is repeated, always on the same slot, because its name is part of the telemetry.
fn repeated(site: &Site) -> String {
    submit(site, FAULT, &["--seed", "7", "--slot", "0"])
}

#[test]
fn equal_input_gives_equal_bytes_whatever_else_goes_on() {
    let (alone, daemon) = round::ts(&["--workers", "1"]);
    let first = follow(&alone, &repeated(&alone), 0);
    let second = follow(&alone, &repeated(&alone), 0);
    world::until_clean(&alone);
    daemon.stop();

    let (busy, daemon) = round::ts(&["--workers", "4"]);
    let others: Vec<String> =
        ["1", "2"].iter().map(|slot| submit(&busy, FAULT, &["--seed", "9", "--slot", slot])).collect();
    let third = follow(&busy, &repeated(&busy), 0);
    let other = follow(&busy, &others[0], 0);
    follow(&busy, &others[1], 0);
    world::until_clean(&busy);
    daemon.stop();

    let first = pack::folder(&alone, &first);
    assert_equal(&first, &pack::folder(&alone, &second));
    assert_equal(&first, &pack::folder(&busy, &third));
    let different = pack::parquet(&pack::folder(&busy, &other));
    assert_ne!(pack::parquet(&first), different, "another seed gives other telemetry");
}

fn assert_equal(one: &Path, other: &Path) {
    let (left, right) = (pack::digests(one), pack::digests(other));
    assert_eq!(left.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>());
    let differing: Vec<&String> = left.keys().filter(|name| left[*name] != right[*name]).collect();
    println!("{} and {} differ in {differing:?}", one.display(), other.display());
    for file in differing.iter().filter(|file| file.ends_with(".json")) {
        let mut fields = Vec::new();
        differences(&pack::json(one, file), &pack::json(other, file), String::new(), &mut fields);
        println!("  {file}: {fields:?}");
        if file.ends_with("manifest.json") {
            let outside: Vec<&String> = fields.iter().filter(|field| !field.starts_with("/provenance")).collect();
            assert!(outside.is_empty(), "the manifest differs outside of its provenance: {outside:?}");
        }
    }
    let forbidden: Vec<_> = differing.iter().filter(|file| !MAY_DIFFER.contains(&file.as_str())).collect();
    assert!(forbidden.is_empty(), "files differ that must not: {forbidden:?}");
}

/// The places in which two JSON values differ.
pub fn differences(one: &Value, other: &Value, place: String, into: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let get = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differences(&get(left), &get(right), format!("{place}/{key}"), into);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differences(left, right, format!("{place}/{index}"), into);
            }
        }
        _ if one == other => {}
        _ => into.push(place),
    }
}
