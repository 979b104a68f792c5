//! The promises of the command line: help, schema, and the committed contract.

use std::path::Path;

use crate::canned::Home;

#[test]
fn help_says_what_there_is() {
    let home = Home::new();
    insta::assert_snapshot!("help", home.run(&["--help"]).out);
    insta::assert_snapshot!("help_submit", home.run(&["inject", "submit", "--help"]).out);
}

#[test]
fn the_committed_contract_is_the_one_that_the_program_prints() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/cli.json");
    let committed = std::fs::read_to_string(&file).expect("contracts/cli.json is committed");
    let printed = Home::new().run(&["schema", "dump"]).out;
    assert!(committed == printed, "contracts/cli.json is stale: run `cargo xtask codegen`");
}

#[test]
fn every_shell_gets_a_completion_script() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = Home::new().run(&["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains("aegisctl") && ran.out.contains("unregister"), "{shell}");
    }
}

#[test]
fn doctor_works_with_nothing_running() {
    let ran = Home::new().run(&["-o", "json", "doctor"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let checks = ran.json()["checks"].clone();
    let skipped = |id: &str| checks.as_array().unwrap().iter().any(|c| c["id"] == id && c["state"] == "skipped");
    assert!(skipped("server.reachable") && skipped("builds.same"), "{checks}");
    let gone = Home::new().run(&["-o", "json", "--server", "http://127.0.0.1:1", "doctor"]);
    assert_eq!(gone.code, 4);
    assert_eq!(Home::new().run(&["doctor", "--only", "nothing.such"]).code, 7);
}

#[test]
fn a_folder_of_system_data_is_checked_without_a_server() {
    let home = Home::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/myshop");
    for file in ["system", "topology", "points", "journeys"] {
        let name = format!("{file}.yaml");
        home.write(&format!("systems/myshop/{name}"), &std::fs::read_to_string(fixture.join(&name)).unwrap());
    }
    let lint = |form: &str| home.run(&["-o", form, "system", "lint", "systems/myshop"]);
    assert_eq!((lint("json").code, lint("json").json()["findings"].as_array().unwrap().len()), (0, 0));
    let topology = std::fs::read_to_string(fixture.join("topology.yaml")).unwrap();
    home.write("systems/myshop/topology.yaml", &topology.replace("to: stock", "to: stok"));
    let ran = lint("json");
    assert_eq!(ran.code, 5);
    let findings = ran.json()["findings"].clone();
    let finding =
        findings.as_array().unwrap().iter().find(|one| one["code"] == "system.service_unknown").unwrap().clone();
    assert_eq!((&finding["line"], &finding["fix"]), (&11.into(), &"did you mean `stock`?".into()));
    assert_eq!(lint("ndjson").out.lines().count(), findings.as_array().unwrap().len());
    insta::assert_snapshot!("lint", lint("table").out);
    // The same from the folder above it, as `aegis serve --systems` takes it.
    assert_eq!(home.run(&["-q", "system", "lint", "systems"]).code, 5);
    assert_eq!(home.run(&["-o", "json", "system", "lint", "nowhere"]).error()["code"], "system.folder_unreadable");
}
