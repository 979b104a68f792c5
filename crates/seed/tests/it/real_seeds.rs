//! The public seed and the project's own: read whole, nothing dropped, no errors.

use std::path::{Path, PathBuf};

use saphyr_parser::{Event, Parser};
use seed::{Seed, Severity};
use serde_json::json;

fn public(test: &str) -> Option<PathBuf> {
    testkit::shared(test, "seeds/public-prod")
}

/// Every scalar that is a value (not a key) of a YAML text with its line, read by the event parser alone.
fn scalars(text: &str) -> Vec<(usize, String)> {
    // Per open collection: `None` for a list, `Some(true)` when a mapping's key comes next.
    let mut open: Vec<Option<bool>> = Vec::new();
    let mut found = Vec::new();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.unwrap();
        match event {
            Event::Scalar(text, ..) if open.last() != Some(&Some(true)) => {
                found.push((span.start.line(), text.into_owned()));
            }
            Event::SequenceStart(..) => {
                open.push(None);
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Some(true));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
            }
            Event::Scalar(..) => {}
            _ => continue,
        }
        if let Some(Some(key_next)) = open.last_mut() {
            *key_next = !*key_next;
        }
    }
    found
}

fn assert_nothing_dropped(folder: &Path, seed: &Seed) -> usize {
    let mut expected = scalars(&std::fs::read_to_string(folder.join("data.yaml")).unwrap());
    let leaves = seed.leaves();
    let mut held: Vec<(usize, String)> =
        leaves.iter().map(|leaf| (leaf.at.line() as usize, leaf.text.clone())).collect();
    expected.sort();
    held.sort();
    assert_eq!(held, expected);
    held.len()
}

#[test]
fn the_public_seed_is_held_whole() {
    let Some(folder) = public("the_public_seed_is_held_whole") else { return };
    let seed = Seed::load(&folder).unwrap_or_else(|findings| panic!("{findings}"));
    let document = &seed.document;
    assert_eq!((document.containers.len(), document.dynamic_configs.len()), (13, 85));
    assert_eq!((document.users.len(), document.service_accounts.len(), seed.overlays.len()), (3, 2, 2));
    assert!(assert_nothing_dropped(&folder, &seed) > 900);
}

#[test]
fn the_public_seed_has_warnings_and_no_errors() {
    let Some(folder) = public("the_public_seed_has_warnings_and_no_errors") else { return };
    let seed = Seed::load(&folder).unwrap();
    let findings = seed.lint();
    let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let mut codes: Vec<&str> = findings.iter().map(|finding| &*finding.code).collect();
    codes.sort_unstable();
    let expected = [
        "image.moving_tag",
        "image.moving_tag",
        "parameter.category_ignored",
        "parameter.category_ignored",
        "setting.secret_in_seed",
    ];
    assert_eq!(codes, expected);
}

#[test]
fn every_system_of_the_public_seed_can_be_registered() {
    let Some(folder) = public("every_system_of_the_public_seed_can_be_registered") else { return };
    let seed = Seed::load(&folder).unwrap();
    assert_eq!(seed.systems(), ["hs", "media", "ob", "otel-demo", "sn", "sockshop", "teastore", "ts"]);
    for code in seed.systems() {
        let system = seed.system(code).unwrap_or_else(|findings| panic!("{code}: {findings}"));
        let composed = system.revision().compose(None, &json!(null), 3).unwrap_or_else(|f| panic!("{code}: {f}"));
        assert_eq!(system.settings.len(), 7);
        assert_eq!(system.algorithms.len(), 3);
        assert_eq!(system.benchmark.container.name, if code == "ob" { "ob-bench" } else { "clickhouse" });
        assert_eq!(system.benchmark.is_shared, code != "ob");
        let written = system.revision().parameters.len();
        assert!(composed.leaves.len() >= written, "{code}: every parameter is a leaf");
    }
    let teastore = seed.system("teastore").unwrap().revision().compose(None, &json!(null), 0).unwrap();
    assert_eq!(teastore.values["jmeter"]["waitForRegistryImage"]["tag"], json!("1.36"));
    let ts = seed.system("ts").unwrap().revision().compose(None, &json!(null), 3).unwrap();
    assert_eq!(ts.values["services"]["tsUiDashboard"]["nodePort"], json!(31003));
    assert_eq!(ts.values["loadgenerator"]["image"]["tag"], json!("023"));
}

#[test]
fn the_demo_seed_is_clean() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../seeds/demo");
    let seed = Seed::load(&folder).unwrap_or_else(|findings| panic!("{findings}"));
    assert_nothing_dropped(&folder, &seed);
    assert_eq!(seed.lint(), []);
    let system = seed.system("ts").unwrap();
    assert_eq!(system.keys.count, 4);
    assert_eq!(system.revision().chart.version, "0.4.6");
    assert!(system.algorithms.iter().all(|algorithm| algorithm.versions[0].image.is_none()));
    assert_eq!(seed.document.projects[0].name.as_str(), "default");
}
