//! Systems that send no histograms of their own: without the metrics path that derives them, their packs are refused and say why.

use std::path::Path;

use testkit::process::Site;

use crate::round::{ORIGIN, follow, register_as, text};
use crate::world;

/// A copy of a built-in system whose collector derives nothing.
fn bare(site: &Site, code: &str) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems").join(code);
    for entry in std::fs::read_dir(ours).unwrap() {
        let path = entry.unwrap().path();
        let (file, text) = (path.file_name().unwrap().to_str().unwrap(), std::fs::read_to_string(&path).unwrap());
        let derived = "metrics_path: span_metrics";
        assert!(file != "telemetry.yaml" || text.contains(derived), "{code} is simulated with the metrics path");
        site.write(&format!("systems/{code}/{file}"), &text.replace(derived, "metrics_path: bare"));
    }
}

#[test]
fn a_pack_without_the_derived_histograms_is_refused_with_its_cause() {
    let site = Site::new();
    for code in ["ob", "sockshop"] {
        bare(&site, code);
    }
    site.ctl(&["system", "lint", "systems"]).ok();
    let _daemon = site.serve(&["--systems", "systems"]);
    for code in ["ob", "sockshop"] {
        register_as(&site, code);
        let submit = ["inject", "submit", "--system", code, "--no-fault", "--normal", "60s", "--abnormal", "60s"];
        let submit = [&submit[..], &["--load", "10", "--origin", ORIGIN, "--seed", "7"]].concat();
        let run = text(&site.ctl(&submit).ok().json()["items"][0]["trace_id"]);
        let detail = follow(&site, &run, 5);
        let told = text(&detail["message"]);
        assert!(told.contains("metrics_histogram.parquet"), "{code}: {detail:#}");
        assert!(told.contains("enable the span-metrics connector"), "{code}: the probable cause: {detail:#}");
        assert_eq!(text(&detail["state"]), "Failed", "{code}");
        let why = site.ctl(&["run", "why", &run]).ok().json();
        assert!(text(&why["answer"]).contains("span-metrics"), "{why:#}");
        let pack = site.ctl(&["datapack", "get", &text(&detail["injection_name"])]).ok().json();
        assert_eq!(text(&pack["state"]), "build_failed", "{pack:#}");
    }
    world::until_clean(&site);
}
