//! A ninth system is a folder of data: registered, injected into and scored by programs that never heard of it.

use std::path::Path;

use serde_json::Value;
use testkit::process::Site;

use crate::round::{ORIGIN, follow, seeds, text};
use crate::world;

#[test]
fn a_whole_round_runs_on_a_system_that_is_a_folder_of_data() {
    let site = Site::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/myshop");
    for file in ["system.yaml", "topology.yaml", "points.yaml", "journeys.yaml"] {
        site.write(&format!("systems/myshop/{file}"), &std::fs::read_to_string(fixture.join(file)).unwrap());
    }
    assert_eq!(site.ctl(&["system", "lint", "systems"]).ok().json()["findings"], Value::Array(vec![]));
    let seed = std::fs::read_to_string(seeds().join("demo/data.yaml")).unwrap();
    let seed = seed
        .replace("name: ts\n", "name: myshop\n")
        .replace("injection.system.ts.", "injection.system.myshop.")
        .replace(r"^ts\d+$", r"^myshop\d+$")
        .replace(r"^(ts)(\d+)$", r"^(myshop)(\d+)$")
        .replace("Train Ticket", "My Shop");
    site.write("seed/data.yaml", &seed);

    let _daemon = site.serve(&["--systems", "systems"]);
    site.ctl(&["system", "register", "--from-seed", "seed", "--name", "myshop"]).ok();
    site.ctl(&["system", "enable", "myshop"]).ok();
    let points = site.ctl(&["point", "list", "--system", "myshop", "--capability", "network_delay"]).ok().json();
    let stock = points["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|point| point["service"] == "shop" && point["target"]["target_service"] == "stock");
    let point = text(&stock.unwrap()["id"]);
    assert_eq!(text(&site.ctl(&["point", "show", &point]).ok().json()["service"]), "shop");
    let submit = [
        "inject",
        "submit",
        "--point",
        &point,
        "--param",
        "latency_ms=2000",
        "--algorithm",
        "baro",
        "--normal",
        "60s",
        "--abnormal",
        "60s",
        "--load",
        "10",
        "--origin",
        ORIGIN,
        "--seed",
        "7",
    ];
    let run = text(&site.ctl(&submit).ok().json()["items"][0]["trace_id"]);
    let detail = follow(&site, &run, 0);
    assert_eq!((&detail["verdict"], &detail["system"]), (&"anomaly".into(), &"myshop".into()), "{detail:#}");
    let pack = site.ctl(&["datapack", "get", &text(&detail["injection_name"])]).ok().json();
    assert_eq!((&pack["exposed"], &pack["roots"]), (&true.into(), &Value::from(vec!["shop"])));
    let board = site.ctl(&["board", "--system", "myshop", "--row", "ranking"]).ok().json();
    let baro = board["rows"].as_array().unwrap().iter().find(|row| row["algorithm"] == "baro").unwrap().clone();
    assert_eq!(baro["packs"], 1, "{baro:#}");
    world::until_clean(&site);
    // What the daemon does not know, it says.
    let unknown = site.ctl(&["run", "list", "--system", "myshp"]);
    assert_eq!((unknown.code, &unknown.error()["code"]), (7, &"system.unknown".into()));
    assert_eq!(unknown.error()["suggestion"], "did you mean `myshop`?");
}

#[test]
fn a_folder_with_a_mistake_is_refused_at_the_start() {
    let site = Site::new();
    site.write("systems/myshop/system.yaml", "format: 1\ncode: myshop\n");
    let refused = site.aegis(&["serve", "--listen", "127.0.0.1:0", "--data", "data", "--systems", "systems"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("systems/myshop/system.yaml"), "{}", refused.err);
}

/// The folder of one system in the place of the folder above it would be a server that starts without that system.
#[test]
fn a_folder_of_one_system_is_refused_at_the_start_with_the_folder_that_is_meant() {
    let site = Site::new();
    site.write("systems/myshop/system.yaml", "format: 1\ncode: myshop\n");
    let serve = |folder: &str| site.aegis(&["serve", "--listen", "127.0.0.1:0", "--data", "data", "--systems", folder]);
    let refused = serve("systems/myshop");
    assert_eq!(refused.code, 2, "{}", refused.err);
    let above = site.path().join("systems").canonicalize().unwrap();
    assert!(refused.err.contains(&format!("name `{}`", above.display())), "{}", refused.err);
    // The lint says of an empty folder what the start says.
    std::fs::create_dir(site.path().join("systems/later")).unwrap();
    std::fs::remove_dir_all(site.path().join("systems/myshop")).unwrap();
    let (started, linted) = (serve("systems"), site.ctl(&["system", "lint", "systems"]));
    assert!(
        started.err.contains("system.file_missing") && linted.out.contains("system.file_missing"),
        "{}",
        started.err
    );
    assert_eq!((started.code, linted.code), (4, 5));
}
