//! The chart of a system from its repository to a slot, by the programs that an operator types, over a restart.

use std::fs;
use std::path::Path;

use testkit::process::Site;
use testkit::{ChartFiles, ChartRegistry, ChartRepository, Tool, tool};

const REPOSITORY: &str = "https://operationspai.github.io/train-ticket";

fn trainticket(version: &str) -> ChartFiles {
    ChartFiles::new("trainticket", version).with("values.yaml", "web: {image: \"docker.io/shop/web:1\"}\n").with(
        "templates/web.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: web, image: {{ .Values.web.image }}}]\n",
    )
}

#[test]
fn a_chart_is_fetched_kept_over_a_restart_looked_at_and_installed() {
    let test = "a chart is fetched, kept over a restart, looked at and installed";
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let site = Site::new();
    let (repository, registry) = (ChartRepository::start(), ChartRegistry::start());
    let packed = trainticket("0.4.6").package(&helm);
    repository.publish(&helm, &[("trainticket-0.4.6.tgz", &packed)], Some(REPOSITORY));
    registry.push(&helm, &trainticket("0.5.0").package(&helm));
    let config = site.write(
        "aegis.toml",
        &format!(
            "helm = {helm:?}\nmirror = [\n{{ from = {REPOSITORY:?}, to = {:?} }},\n{{ from = \"oci://reg.example/charts\", to = \
             {:?}, plain_http = true }},\n{{ from = \"docker.io\", to = \"mirror.internal/hub\" }},\n]\n[nodes]\nplatforms = \
             [\"linux/amd64\"]\n",
            repository.url(),
            registry.url()
        ),
    );
    let config = ["--config", config.to_str().unwrap()];
    let checked = site.aegis(&["config", "check", config[1]]);
    assert!(checked.out.contains("helm       ok: "), "{}{}", checked.out, checked.err);
    let daemon = site.serve(&config);
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../seeds");
    let seed = seed.to_str().unwrap();
    site.ctl(&["system", "register", "--from-seed", seed, "--env", "demo", "--name", "ts"]).ok();
    let version = site.ctl(&["pedestal", "version", "list", "ts"]).ok().json();
    let digest = version[0]["chart_digest"].as_str().unwrap().to_owned();

    // An image that the nodes cannot reach is found before anything is installed, with the value that names it.
    let verified = site.ctl(&["pedestal", "helm", "verify", "ts"]);
    let report = verified.json();
    assert_eq!((verified.code, report["check"]["state"].as_str()), (4, Some("failed")), "{report:#}");
    let finding = &report["check"]["findings"][0];
    assert_eq!(finding["code"], "chart.image_not_mirrored");
    let fix = finding["fix"].as_str().unwrap();
    assert!(fix.contains("`mirror.internal/hub/shop/web:1`") && fix.contains("`web.image` (chart default)"), "{fix}");
    let refused = site.ctl(&["pedestal", "chart", "install", "ts", "--wait"]);
    assert_eq!((refused.code, &refused.error()["code"]), (5, &"chart.check_failed".into()));
    let image = "web.image=mirror.internal/hub/shop/web:1";
    let set = site.ctl(&["pedestal", "helm", "set", "ts", "--set", image]).ok().json();
    let own = set["parameters"].as_array().unwrap().iter().find(|one| one["key"] == "web.image").unwrap().clone();
    assert_eq!((own["owner"].as_str(), own["type"].as_str()), (Some("operator"), Some("string")));
    assert_eq!(site.ctl(&["pedestal", "helm", "get", "ts"]).ok().json(), set);
    site.ctl(&["pedestal", "helm", "verify", "ts"]).ok();

    // The daemon starts again, the temporary folder is empty and the repository is gone: the archive is there.
    drop(daemon);
    drop(repository);
    let temporary = site.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = site.serve_command();
    command.args(config).env("TMPDIR", &temporary);
    let daemon = testkit::process::Daemon::start(&mut command, &site).ready();
    let report = site.ctl(&["pedestal", "helm", "verify", "ts"]).ok().json();
    assert_eq!((report["chart"]["digest"].as_str(), report["chart"]["state"].as_str()), (Some(&*digest), Some("kept")));
    let installed = site.ctl(&["pedestal", "chart", "install", "ts", "--wait"]).ok().json();
    let release = &installed["release"];
    assert_eq!((release["namespace"].as_str(), release["ready"].as_bool()), (Some("ts0"), Some(true)));
    assert_eq!(release["chart_digest"].as_str(), Some(&*digest));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left behind");

    // By hand: another source, another archive, one that is damaged, one of another chart.
    let newer = ["--repo", "oci://reg.example/charts", "--chart", "trainticket", "--version", "0.5.0", "--slot", "1"];
    let other = site.ctl(&[&["pedestal", "chart", "install", "ts"][..], &newer].concat()).ok().json();
    assert_eq!(other["release"]["chart_version"], "0.5.0");
    let file = |name: &str, bytes: &[u8]| {
        let path = site.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let push = |file: &str| site.ctl(&["pedestal", "chart", "push", "--name", "ts", "--tgz", file]);
    let shop = ChartFiles::new("shop", "0.4.6").package(&helm);
    for (name, bytes, code) in [
        ("half.tgz", &packed[..packed.len() / 2], "chart.truncated"),
        ("page.tgz", b"<html>", "chart.not_gzip"),
        ("shop.tgz", &shop, "chart.another_name"),
    ] {
        let refused = push(&file(name, bytes));
        assert_eq!((refused.code, &refused.error()["code"]), (2, &code.into()), "{name}");
    }
    let whole = file("whole.tgz", &packed);
    push(&whole).ok();
    let by_hand = ["pedestal", "chart", "install", "ts", "--tgz", &whole, "--slot", "2", "--wait"];
    assert_eq!(site.ctl(&by_hand).ok().json()["release"]["namespace"], "ts2");
    site.ctl(&["pedestal", "version", "retire", "ts", "9.9.9", "--yes"]).error();
    drop(daemon);
}
