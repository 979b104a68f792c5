//! The committed promises are those that the programs make.

use std::path::Path;

use testkit::process::Site;

#[test]
fn the_committed_contracts_are_fresh() {
    let site = Site::new();
    let fresh = site.path().join("contracts");
    std::fs::create_dir(&fresh).unwrap();
    site.aegis(&["contracts", fresh.to_str().unwrap()]).ok();
    let dump = testkit::process::finish(site.command("aegisctl").args(["schema", "dump"])).ok();
    std::fs::write(fresh.join("cli.json"), dump.out).unwrap();

    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts");
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&committed), names(&fresh), "run `cargo xtask codegen`");
    for name in names(&fresh) {
        let read = |folder: &Path| std::fs::read_to_string(folder.join(&name)).unwrap();
        assert!(read(&committed) == read(&fresh), "contracts/{} is stale: run `cargo xtask codegen`", name.display());
    }
}
