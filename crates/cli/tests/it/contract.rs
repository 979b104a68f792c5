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
    assert!(skipped("server.reachable") && skipped("server.same_version"), "{checks}");
    let gone = Home::new().run(&["-o", "json", "--server", "http://127.0.0.1:1", "doctor"]);
    assert_eq!(gone.code, 4);
    assert_eq!(Home::new().run(&["doctor", "--only", "nothing.such"]).code, 7);
}
