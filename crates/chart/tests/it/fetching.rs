//! Charts that the real `helm` published, fetched by the real `helm`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use chart::{Archive, Helm, Mirror, Mirrors, fetch, look_up};
use testkit::{ChartFiles, ChartRegistry, ChartRepository};

use crate::{block_on, helms};

fn shop(version: &str) -> ChartFiles {
    ChartFiles::new("shop", version).with("values.yaml", &format!("version: \"{version}\"\n"))
}

fn mirrors(rules: &[(&str, &str)]) -> Mirrors {
    let rule = |(from, to): &(&str, &str)| Mirror {
        from: (*from).into(),
        to: (*to).into(),
        plain_http: true,
        transparent: false,
    };
    Mirrors::new(rules.iter().map(rule).collect())
}

#[track_caller]
fn refused(helm: &Helm, mirrors: &Mirrors, from: [&str; 3], code: &str) -> model::Problem {
    let [repository, chart, version] = from;
    let problem = block_on(fetch(helm, mirrors, repository, chart, version)).expect_err(code);
    assert_eq!(problem.code, code, "{problem}");
    // Whether it is published is answered without its archive, in the same words.
    if ["chart.version_not_found", "chart.not_in_repository", "chart.no_index"].contains(&code) {
        let asked = block_on(look_up(helm, mirrors, repository, chart, version)).expect_err(code);
        assert_eq!(asked.to_string(), problem.to_string());
    }
    problem
}

#[test]
fn a_chart_comes_from_a_classic_repository_at_its_exact_version() {
    for (helm, program) in helms("a chart comes from a classic repository") {
        let repository = ChartRepository::start();
        let packed = shop("1.2.3").package(&program);
        let all = ["1.2.0", "1.3.0", "2.0.0-rc.1"]
            .map(|version| (format!("shop-{version}.tgz"), shop(version).package(&program)));
        let mut archives: Vec<(&str, &[u8])> =
            all.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        archives.push(("shop-1.2.3.tgz", &packed));
        // The index names archives on the public host; only the mirror has them.
        repository.publish(&program, &archives, Some("https://charts.example/stable"));
        let url = repository.url();
        let rules = mirrors(&[("https://charts.example/stable", &url)]);
        let public = "https://charts.example/stable";

        let fetched = block_on(fetch(&helm, &rules, public, "shop", "1.2.3")).unwrap();
        assert_eq!(fetched.bytes, packed, "byte for byte what was published");
        assert_eq!(fetched.archive.digest, Archive::read(&packed).unwrap().digest);
        assert_eq!(fetched.from, format!("{url}/shop-1.2.3.tgz"));
        block_on(fetch(&helm, &rules, public, "shop", "2.0.0-rc.1")).unwrap();
        block_on(look_up(&helm, &rules, public, "shop", "1.2.3")).unwrap();

        let problem = refused(&helm, &rules, [public, "shop", "1.2.4"], "chart.version_not_found");
        assert_eq!(problem.expected.as_deref(), Some("a published version: 1.3.0, 1.2.3, 2.0.0-rc.1, 1.2.0"));
        let problem = refused(&helm, &rules, [public, "shpo", "1.2.3"], "chart.not_in_repository");
        assert_eq!(problem.fix.as_deref(), Some("did you mean `shop`?"));
        for range in ["1.2", "^1.2.3", ">=1.0.0", "", "1.2.x"] {
            refused(&helm, &rules, [public, "shop", range], "chart.version_not_exact");
        }

        // Other bytes than the index has a digest of, and another chart under this name.
        fs::write(repository.folder().join("shop-1.2.3.tgz"), shop("1.2.3").with("x", "y").package(&program)).unwrap();
        refused(&helm, &rules, [public, "shop", "1.2.3"], "chart.digest_differs");
        let other = ChartFiles::new("cart", "1.2.3").package(&program);
        fs::write(repository.folder().join("shop-1.2.3.tgz"), other).unwrap();
        refused(&helm, &rules, [public, "shop", "1.2.3"], "chart.another_name");
        fs::write(repository.folder().join("shop-1.2.3.tgz"), &packed[..packed.len() / 2]).unwrap();
        refused(&helm, &rules, [public, "shop", "1.2.3"], "chart.truncated");
        fs::remove_file(repository.folder().join("index.yaml")).unwrap();
        refused(&helm, &rules, [public, "shop", "1.2.3"], "chart.no_index");
        fs::write(repository.folder().join("index.yaml"), "entries: [").unwrap();
        refused(&helm, &rules, [public, "shop", "1.2.3"], "chart.no_index");
    }
}

#[test]
fn a_chart_comes_from_a_registry_which_has_no_index() {
    for (helm, program) in helms("a chart comes from a registry") {
        let registry = ChartRegistry::start();
        let packed = shop("1.2.3").package(&program);
        registry.push(&program, &packed);
        for version in ["1.3.0+build.7", "1.2.0", "2.0.0-rc.1", "0.9.0"] {
            registry.push(&program, &shop(version).package(&program));
        }
        let (public, url) = ("oci://reg.example/charts", registry.url());
        let rules = mirrors(&[(public, &url)]);
        let fetched = block_on(fetch(&helm, &rules, public, "shop", "1.2.3")).unwrap();
        assert_eq!((fetched.bytes, fetched.from), (packed, format!("{url}/shop")));
        block_on(fetch(&helm, &rules, public, "shop", "1.3.0+build.7")).unwrap();
        block_on(look_up(&helm, &rules, public, "shop", "1.2.3")).unwrap();
        let problem = refused(&helm, &rules, [public, "shop", "1.2.4"], "chart.version_not_found");
        assert_eq!(
            problem.expected.as_deref(),
            Some("a published version: 1.3.0+build.7, 1.2.3, 2.0.0-rc.1, 1.2.0, 0.9.0")
        );
        refused(&helm, &rules, [public, "cart", "1.2.3"], "chart.version_not_found");
    }
}

#[test]
fn what_cannot_be_asked_for_is_told_with_its_fix() {
    let missing = Helm::find(Some("/nowhere/helm".as_ref()), std::time::Duration::from_secs(1)).unwrap_err();
    assert_eq!(missing.code, "helm.not_found");
    assert!(missing.fix.unwrap().contains("helm = PATH"));
    for (helm, _) in helms("what cannot be asked for") {
        let none = Mirrors::default();
        let closed = {
            let repository = ChartRepository::start();
            repository.url()
        };
        let problem = refused(&helm, &none, [&closed, "shop", "1.2.3"], "chart.repository_unreachable");
        assert!(problem.fix.unwrap().contains("[[mirror]]"));
        let oci = closed.replace("http://", "oci://");
        refused(&helm, &none, [&oci, "shop", "1.2.3"], "chart.repository_unreachable");
        refused(&helm, &none, ["", "shop", "1.2.3"], "chart.repository_missing");
        for address in ["file:///etc", "/charts", "--debug", "https://a b"] {
            refused(&helm, &none, [address, "shop", "1.2.3"], "chart.repository_unknown");
        }
        for name in ["--untar", "", "../shop", "a b"] {
            refused(&helm, &none, ["https://charts.example", name, "1.2.3"], "chart.name_malformed");
        }
    }
}

/// Whoever takes a connection and says nothing is named when the time is up, whichever way is asked.
#[test]
fn a_repository_that_is_silent_is_told_in_time() {
    for (_, program) in helms("a repository that is silent") {
        let helm = Helm::find(Some(&program), std::time::Duration::from_secs(1)).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let start = std::time::Instant::now();
        for place in [format!("http://{address}"), format!("oci://{address}/charts")] {
            let problem = refused(&helm, &Mirrors::default(), [&place, "shop", "1.2.3"], "chart.repository_silent");
            assert!(problem.place.unwrap().starts_with(&place));
            let asked = block_on(look_up(&helm, &Mirrors::default(), &place, "shop", "1.2.3")).unwrap_err();
            assert_eq!(asked.code, "chart.repository_silent");
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

#[test]
fn a_registry_is_spoken_to_without_tls_only_where_a_rule_says_so() {
    // What is asked of the program counts here: on loopback it takes plain HTTP by itself.
    let folder = tempfile::tempdir().unwrap();
    let (program, asked) = (folder.path().join("helm"), folder.path().join("asked"));
    fs::write(&program, format!("#!/bin/sh\necho \"$@\" >> {}\nexit 1\n", asked.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let helm = Helm::find(Some(&program), std::time::Duration::from_secs(10)).unwrap();
    let rule = |plain_http| Mirror {
        from: "oci://reg.example".into(),
        to: "oci://mirror.example".into(),
        plain_http,
        transparent: false,
    };
    for plain_http in [false, true] {
        let rules = Mirrors::new(vec![rule(plain_http)]);
        refused(&helm, &rules, ["oci://reg.example", "shop", "1.2.3"], "chart.not_fetched");
        let line = fs::read_to_string(&asked).unwrap();
        let line = line.lines().last().unwrap();
        assert!(line.starts_with("pull oci://mirror.example/shop --version 1.2.3"), "{line}");
        assert_eq!(line.contains("--plain-http"), plain_http, "{line}");
    }
}
