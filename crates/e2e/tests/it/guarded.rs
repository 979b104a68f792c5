//! Outside parts that want a login and speak TLS: MariaDB, etcd and repositories of charts, with passwords that are nowhere told.

use std::path::Path;
use std::process::Command;

use testkit::process::{Daemon, Ran, Site, finish};
use testkit::{Certificates, ChartFiles, ChartRepository, Database, Etcd, ObjectStore, Tool, tool};

use crate::round::{self, text};

const USER: &str = "aegis";
const PASSWORD: &str = "pa55w0rd";

/// What was printed, in which no password may stand.
#[track_caller]
fn discreet(ran: &Ran) -> String {
    let said = format!("{}{}", ran.out, ran.err);
    assert!(!said.contains(PASSWORD), "{said}");
    said
}

fn config(site: &Site, lines: &[String]) -> String {
    let file = site.write("aegis.toml", &lines.join("\n"));
    file.to_str().unwrap().to_owned()
}

#[test]
fn parts_that_want_a_login_and_tls_are_used_and_no_password_is_told() {
    let test = "parts_that_want_a_login_and_tls_are_used_and_no_password_is_told";
    let Some(certificates) = Certificates::make(test) else { return };
    let Some(database) = Database::guarded(test, &certificates, USER, PASSWORD) else { return };
    let Some(etcd) = Etcd::guarded(test, &certificates, USER, PASSWORD) else { return };
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let repository = ChartRepository::start_for(&format!("{USER}:{PASSWORD}"));
    let packed = ChartFiles::new("trainticket", "0.4.6").with("templates/a.yaml", "").package(&helm);
    repository.publish(&helm, &[("trainticket-0.4.6.tgz", &packed)], None);

    let site = Site::new();
    let secret = site.write("secret", &format!("{PASSWORD}\n"));
    let (ca, (pem, key)) = (certificates.ca(), certificates.client());
    let hidden = |url: &str| url.replace(PASSWORD, &format!("${{file:{}}}", secret.display()));
    let store = |more: &str| format!("store = \"{}{more}\"", hidden(&database.url));
    let own = format!("&cert={}&key={}", pem.display(), key.display());
    let settings = |password: &str, query: &str| {
        hidden(&format!("settings = \"etcd://{USER}:{password}@{}{}{query}\"", etcd.host(), etcd.prefix))
    };
    let ca_of = |name: &str, file: &Path| format!("?{name}={}", file.display());
    let trusted = format!("{}&ssl-mode=VERIFY_IDENTITY", ca_of("ssl-ca", &ca));
    let right = [
        store(&trusted),
        settings(PASSWORD, &format!("{}{own}", ca_of("ca", &ca))),
        "answer_seconds = 2".into(),
        format!("helm = \"{}\"", helm.display()),
        format!("[[mirror]]\nfrom = \"https://operationspai.github.io/train-ticket\"\nto = \"{}\"", repository.url()),
        hidden(&format!(
            "[[repository]]\naddress = \"{}\"\nuser = \"{USER}\"\npassword = \"{PASSWORD}\"",
            repository.url()
        )),
    ];
    let file = config(&site, &right);
    let checked = site.aegis(&["config", "check", &file]).ok();
    let said = discreet(&checked);
    for part in
        ["store      ok", "settings   ok", "mysql://aegis:***@127.0.0.1", "etcd://aegis:***@127.0.0.1", "password ***"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }

    // What is not as it must be is told for the part that it is of, and the other one is still tried.
    let other = |index: usize, line: String| {
        let mut lines = right.clone();
        lines[index] = line;
        lines
    };
    let wrong = [
        (other(0, store(&format!("{}&ssl-mode=VERIFY_IDENTITY", ca_of("ssl-ca", &pem)))), 10, "store      failed"),
        (other(0, store("?ssl-mode=DISABLED")), 10, "store      failed"),
        (other(1, settings("0ther", &format!("{}{own}", ca_of("ca", &ca)))), 10, "settings.refused"),
        (other(1, settings(PASSWORD, &ca_of("ca", &ca))), 10, "settings.unreachable"),
        (other(1, settings(PASSWORD, &format!("{}{own}", ca_of("ca", &pem)))), 10, "settings.unreachable"),
        (other(1, settings(PASSWORD, "")), 10, "settings.unreachable"),
        (other(1, settings(PASSWORD, "?ca=/no/such.pem")), 4, "settings.certificate_unusable"),
    ];
    for (lines, exit, words) in wrong {
        let failed = site.aegis(&["config", "check", &config(&site, &lines)]);
        let said = discreet(&failed);
        assert!(
            failed.code == exit && said.contains(words) && said.contains(" ok:"),
            "{lines:#?}: {}: {said}",
            failed.code
        );
        assert!(!said.contains("0ther"), "{said}");
    }

    let file = config(&site, &right);
    let daemon = site.serve(&["--config", &file]);
    let seeds = round::seeds();
    let seeds = seeds.to_str().unwrap();
    site.ctl(&["system", "register", "--from-seed", seeds, "--env", "demo", "--name", "ts"]).ok();
    assert!(!etcd.paths("global/injection.system.ts.").is_empty());
    let fetched = site.ctl(&["pedestal", "helm", "verify", "ts"]).ok();
    assert!(discreet(&fetched).contains("0.4.6"), "{}", fetched.out);
    assert_eq!(text(&site.ctl(&["pedestal", "chart", "list", "ts"]).ok().json()[0]["version"]), "0.4.6");
    discreet(&site.ctl(&["doctor"]));
    daemon.stop();
    let log = std::fs::read_to_string(site.path().join("daemon.log")).unwrap();
    assert!(!log.contains(PASSWORD), "{log}");
}

#[test]
fn charts_in_a_bucket_outlive_the_data_folder() {
    let test = "charts_in_a_bucket_outlive_the_data_folder";
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let store = ObjectStore::start("team", USER, PASSWORD);
    let site = Site::new();
    let file = config(&site, &["charts = \"s3://team/charts\"".into()]);
    let with = |mut command: Command| {
        command.env("AWS_ACCESS_KEY_ID", USER).env("AWS_SECRET_ACCESS_KEY", PASSWORD);
        command.env("AWS_ENDPOINT_URL", store.endpoint());
        command
    };
    let check = || {
        let mut command = site.command("aegis");
        command.args(["config", "check", &file]);
        command
    };
    let refused = finish(&mut check());
    assert!(discreet(&refused).contains("AWS_ACCESS_KEY_ID") && refused.code != 0, "{}", refused.out);
    assert!(discreet(&finish(&mut with(check())).ok()).contains("s3://team/charts can be listed; 0 archives there"));

    let serve = || {
        let mut command = site.serve_command();
        command.args(["--config", &file]);
        Daemon::start(&mut with(command), &site).ready()
    };
    let daemon = serve();
    round::register(&site);
    let archive = ChartFiles::new("trainticket", "0.4.6").with("templates/a.yaml", "").package(&helm);
    std::fs::write(site.path().join("chart.tgz"), &archive).unwrap();
    site.ctl(&["pedestal", "chart", "push", "--name", "ts", "--tgz", "chart.tgz"]).ok();
    daemon.stop();
    let kept = store.objects();
    assert_eq!(kept.values().collect::<Vec<_>>(), [&archive]);
    assert!(!site.data().join("charts").exists());

    let daemon = serve();
    let chart = || site.ctl(&["system", "show", "ts"]).ok().out;
    assert!(chart().contains("s3://team/charts"), "{}", chart());
    let (name, _) = kept.first_key_value().unwrap();
    store.put(name, b"other bytes");
    assert!(chart().contains("is not the one that was fetched"), "{}", chart());
    daemon.stop();
}
