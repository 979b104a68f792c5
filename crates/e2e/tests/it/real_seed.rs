//! The real public seed, read as it is: all eight systems register; what cannot run here says so.

use std::path::Path;

use serde_json::Value;
use testkit::process::Site;

use crate::journey;
use crate::round::{self, CONTROL, text};

const WITH_SIMULATION: [&str; 6] = ["otel-demo", "ob", "sockshop", "sn", "media", "teastore"];
/// This site's folder of systems replaces it by its registration alone.
const WITHOUT_SIMULATION: &str = "hs";

fn register<'a>(seed: &'a str, name: &'a str) -> Vec<&'a str> {
    vec!["system", "register", "--from-seed", seed, "--env", "public-prod", "--name", name]
}

fn layer(detail: &Value, name: &str) -> String {
    let layers = detail["layers"].as_array().unwrap();
    text(&layers.iter().find(|layer| layer["layer"] == name).unwrap()["state"])
}

#[test]
fn every_system_of_the_real_seed_registers_and_says_what_it_cannot_do() {
    let Some(seeds) = testkit::shared("the real seed", "seeds/public-prod/data.yaml") else { return };
    let seeds = seeds.parent().unwrap().parent().unwrap().canonicalize().unwrap();
    let seeds = seeds.to_str().unwrap();
    let site = Site::new();
    let registration = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/hs/system.yaml");
    site.write("systems/hs/system.yaml", &std::fs::read_to_string(registration).unwrap());
    let config = site.write("aegis.toml", &format!("systems = {:?}\n", site.path().join("systems")));
    let _daemon = site.serve(&["--config", config.to_str().unwrap()]);

    let planned = site.ctl(&[&register(seeds, "ts")[..], &["--dry-run"]].concat()).ok().json();
    assert!(planned["writes"].as_array().unwrap().iter().all(|write| write["change"] == "new"), "{planned:#}");
    assert_eq!(site.ctl(&["system", "show", "ts"]).code, 7, "a dry run writes nothing");
    site.ctl(&register(seeds, "ts")).ok();
    ts_is_what_the_seed_says(&site);

    for name in WITH_SIMULATION {
        let detail = registered(&site, seeds, name);
        assert_eq!(layer(&detail, "telemetry"), "ok", "{detail:#}");
        site.ctl(&["system", "enable", name]).ok();
    }
    let detail = registered(&site, seeds, WITHOUT_SIMULATION);
    assert_eq!(layer(&detail, "telemetry"), "no simulation data", "{detail:#}");
    let enable = site.ctl(&["system", "enable", WITHOUT_SIMULATION]);
    let submit = site.ctl(&["inject", "submit", "--system", WITHOUT_SIMULATION, "--no-fault"]);
    for refused in [enable, submit] {
        let error = refused.error();
        assert_eq!((refused.code, &error["code"]), (4, &"system.no_simulation_data".into()), "{error}");
        assert!(text(&error["message"]).contains("no simulation data"), "the reason is named: {error}");
    }
    let listed = site.ctl(&["system", "list", "--all"]).ok().json()["items"].take();
    assert_eq!(listed.as_array().unwrap().len(), 8, "{listed:#}");

    for name in WITH_SIMULATION.iter().chain(&[WITHOUT_SIMULATION, "ts"]) {
        let report = site.ctl(&["system", "unregister", name, "--yes"]).ok().json();
        let removed = report["removed"].as_object().unwrap();
        assert!(removed["registry"] == 1 && removed["database"].as_i64() > Some(0), "{report:#}");
    }
    let listed = site.ctl(&["system", "list", "--all"]).ok().json()["items"].take();
    assert_eq!(listed, serde_json::json!([]));
    let again = site.ctl(&[&register(seeds, "ts")[..], &["--dry-run"]].concat()).ok().json();
    assert_eq!(again["writes"], planned["writes"], "nothing of the first registration is left");
}

/// Registers a system and shows it.
fn registered(site: &Site, seeds: &str, name: &str) -> Value {
    site.ctl(&register(seeds, name)).ok();
    let detail = site.ctl(&["system", "show", name]).ok().json();
    assert_eq!(layer(&detail, "registry"), "ok", "{detail:#}");
    detail
}

fn ts_is_what_the_seed_says(site: &Site) {
    site.ctl(&["system", "enable", "ts"]).ok();
    let detail = site.ctl(&["system", "show", "ts"]).ok().json();
    let pedestal = &detail["pedestal"];
    let chart = (text(&pedestal["chart_name"]), text(&pedestal["chart_version"]), text(&pedestal["repo_url"]));
    let expect = ("trainticket", "0.2.0", "https://operationspai.github.io/train-ticket");
    assert_eq!((chart.0.as_str(), chart.1.as_str(), chart.2.as_str()), expect);
    let value = |pointer: &str| pedestal["values"].pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
    // A string that looks like a number stays one, a template is filled in, an overlay wins.
    assert_eq!(value("/loadgenerator/image/tag"), "023");
    assert_eq!(value("/global/image/tag"), "v1.2.9");
    assert_eq!(value("/services/tsUiDashboard/nodePort").to_string().trim_matches('"'), "31000");
    assert_eq!(layer(&detail, "chart"), "not fetched");
    let settings = detail["settings"].as_array().unwrap();
    assert!(settings.iter().any(|setting| setting["key"] == "injection.system.ts.count"), "{settings:#?}");
    let run = round::submit(site, CONTROL, &["--seed", "8"]);
    journey::installed_is_what_was_specified(site, &run);
    round::follow(site, &run, 0);
}
