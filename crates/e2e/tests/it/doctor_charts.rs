//! `aegisctl doctor` on charts: each failure is planted with a real repository and the real `helm`, is the only one that is found,
//! and is gone after the printed fix.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::process::{Daemon, Site};
use testkit::{ChartFiles, ChartRepository, Tool, tool};

use crate::doctor::{odd, run_as_printed, until_healthy, until_only};
use crate::round::{self, text};

const REPOSITORY: &str = "https://operationspai.github.io/train-ticket";
const MIRRORED: &str = "mirror.internal/hub/shop/web:1";

/// An installation whose mirror of the public repository is on loopback.
struct Stand {
    site: Site,
    helm: PathBuf,
    repository: ChartRepository,
    daemon: Daemon,
}

impl Stand {
    fn start(helm: PathBuf) -> Self {
        let (site, repository) = (Site::new(), ChartRepository::start());
        let packed: Vec<(String, Vec<u8>)> = [
            chart("0.4.6", "ClusterIP", "[/web]"),
            // Nothing provides a load balancer, so waiting for it hangs.
            chart("0.5.0", "LoadBalancer", "[/web]"),
            chart("0.6.0", "ClusterIP", "[./web]"),
        ]
        .map(|(version, files)| (format!("trainticket-{version}.tgz"), files.package(&helm)))
        .into();
        let packed: Vec<(&str, &[u8])> = packed.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        repository.publish(&helm, &packed, None);
        let config = format!(
            "helm = {helm:?}\nmirror = [\n{{ from = {REPOSITORY:?}, to = {:?} }},\n{{ from = \"docker.io\", to = \
             \"mirror.internal/hub\" }},\n]\n",
            repository.url()
        );
        let config = site.write("aegis.toml", &config);
        let daemon = site.serve(&["--config", config.to_str().unwrap()]);
        Self { site, helm, repository, daemon }
    }

    /// Applies our own seed with these versions of the pedestal and of its chart besides.
    fn apply(&self, versions: &[(&str, &str)]) -> Value {
        self.seed(versions);
        self.site.ctl(&["seed", "apply", "seed", "--yes"]).ok().json()
    }

    fn seed(&self, versions: &[(&str, &str)]) {
        let text = fs::read_to_string(round::seeds().join("demo/data.yaml")).unwrap();
        let more: String = versions.iter().map(|(name, chart)| version(name, chart)).collect();
        self.site.write("seed/data.yaml", &text.replacen("projects:\n", &format!("{more}\nprojects:\n"), 1));
    }

    /// The only failure that is found, and gone after its fix; the fix.
    fn repaired(&self, id: &str) -> String {
        let fix = text(&until_only(&self.site, id)["fix"]);
        run_as_printed(&self.site, &fix);
        until_healthy(&self.site, &format!("the fix of {id}: {fix}"));
        fix
    }

    fn archives(&self) -> PathBuf {
        self.site.data().join("charts")
    }
}

/// A Service and a pod. What kind the Service is of is a value, what the pod starts with is not.
fn chart(version: &'static str, service: &str, command: &str) -> (&'static str, ChartFiles) {
    let values = format!("web: {{image: {MIRRORED:?}, type: {service}}}\n");
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  containers: [{{name: web, image: {{{{ .Values.web.image }}}}, \
         command: {command}, workingDir: /srv}}]\n"
    );
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: {{ .Values.web.type }}, ports: [{port: 80}]}\n";
    let files = ChartFiles::new("trainticket", version)
        .with("values.yaml", &values)
        .with("templates/web.yaml", &pod)
        .with("templates/service.yaml", service);
    (version, files)
}

/// A version of the pedestal that takes over the values of the one before.
fn version(name: &str, chart: &str) -> String {
    format!(
        "      - name: {name}
        github_link: OperationsPAI/train-ticket
        status: 1
        helm_config:
          version: {chart}
          chart_name: trainticket
          repo_name: train-ticket
          repo_url: {REPOSITORY}
          status: 1
          values: []
"
    )
}

#[test]
fn each_failure_of_a_chart_is_the_only_one_found_and_gone_after_the_printed_fix() {
    let test = "each_failure_of_a_chart_is_the_only_one_found_and_gone_after_the_printed_fix";
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let stand = Stand::start(helm);
    stand.apply(&[]);
    stand.site.ctl(&["system", "enable", "ts"]).ok();
    until_healthy(&stand.site, "the start");

    archive_gone(&stand);
    release_edited(&stand);
    // A relative command is written in the template: the version that has it goes out of use.
    stand.apply(&[("1.1.0", "0.6.0")]);
    assert_eq!(stand.repaired("charts.commands_found"), "aegisctl pedestal version retire ts 1.1.0 --yes");
    never_published(&stand);
    // A load balancer is a value.
    stand.apply(&[("1.1.0", "0.6.0"), ("1.2.0", "0.9.0"), ("1.3.0", "0.5.0")]);
    assert_eq!(stand.repaired("charts.become_ready"), "aegisctl pedestal helm set ts --set web.type=ClusterIP");
    // So is an image, with its tag or without.
    stand.site.ctl(&["pedestal", "helm", "set", "ts", "--set", "web.image=docker.io/shop/web:1"]).ok();
    let fix = format!("aegisctl pedestal helm set ts --set web.image={MIRRORED}");
    assert_eq!(stand.repaired("charts.images_mirrored"), fix);
    archive_of_nobody(&stand);
    stand.daemon.stop();
}

/// The folder of the archives was on something that a restart wiped.
fn archive_gone(stand: &Stand) {
    for entry in fs::read_dir(stand.archives()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    until_only(&stand.site, "charts.archived");
    let report = stand.site.ctl(&["doctor"]).json();
    let skipped: Vec<&Value> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["observed"] == "skipped, because charts.archived")
        .map(|check| &check["id"])
        .collect();
    assert_eq!(skipped, ["charts.become_ready", "charts.commands_found", "charts.images_mirrored"]);
    assert_eq!(stand.repaired("charts.archived"), "aegisctl pedestal helm verify ts --version 1.0.0");
}

/// Somebody changes a release where it runs, and in no values.
fn release_edited(stand: &Stand) {
    stand.site.ctl(&["pedestal", "chart", "install", "ts", "--wait"]).ok();
    let unheld = until_only(&stand.site, "releases.owned");
    assert_eq!(unheld["observed"], "release ts0 without a run");
    let file = stand.site.data().join("sim/slots/ts0.json");
    let mut slot: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    slot["release"]["spec"]["values_digest"] = json!("0".repeat(64));
    fs::write(&file, serde_json::to_vec(&slot).unwrap()).unwrap();
    assert_eq!(stand.repaired("releases.as_composed"), "aegisctl seed proof --system ts --restart-slots");
}

/// The seed names a version of the chart that its repository does not have.
fn never_published(stand: &Stand) {
    let versions = [("1.1.0", "0.6.0"), ("1.2.0", "0.9.0")];
    stand.seed(&versions);
    let states = |arguments: &[&str]| {
        let planned = stand.site.ctl(&[&["seed", "plan", "seed"], arguments].concat());
        assert_eq!(planned.code, 5, "{}{}", planned.out, planned.err);
        let charts = planned.json()["charts"].as_array().unwrap().clone();
        let state = |one: &Value| format!("{} {}", text(&one["pedestal_version"]), text(&one["state"]));
        charts.iter().map(state).collect::<Vec<_>>()
    };
    // Nobody is asked unless that is wished; what is here already is known.
    assert_eq!(states(&[]), ["1.2.0 not asked"]);
    assert_eq!(states(&["--charts"]), ["1.0.0 kept", "1.1.0 kept", "1.2.0 not published"]);
    let warnings = stand.apply(&versions)["apply"]["warnings"].to_string();
    assert!(warnings.contains("chart trainticket 0.9.0: not fetched"), "{warnings}");
    let found = until_only(&stand.site, "charts.published");
    let observed = text(&found["observed"]);
    assert!(observed.contains("chart trainticket 0.9.0 is not published") && observed.contains("0.6.0"), "{observed}");
    assert_eq!(stand.repaired("charts.published"), "aegisctl pedestal version retire ts 1.2.0 --yes");
}

/// What was fetched for a version that is not there any more stays for an hour, and is told afterwards.
fn archive_of_nobody(stand: &Stand) {
    let (_, files) = chart("0.7.0", "ClusterIP", "[/web]");
    let bytes = files.package(&stand.helm);
    let file = stand.archives().join(format!("{}.tgz", hex::encode(Sha256::digest(&bytes))));
    fs::write(&file, bytes).unwrap();
    assert_eq!(odd(&stand.site), Vec::<Value>::new());
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    let kept: Vec<PathBuf> = fs::read_dir(stand.archives()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in &kept {
        fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    }
    assert_eq!(stand.repaired("charts.used"), "aegisctl pedestal chart prune --yes");
    let left = |path: &&PathBuf| Path::new(path).exists();
    assert_eq!(kept.iter().filter(left).count(), kept.len() - 1, "those of versions stay");
    assert!(!file.exists() && stand.repository.folder().exists());
}
