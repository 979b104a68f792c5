//! Repositories and registries that want a login or have a certificate of their own, with the real `helm`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use chart::{Helm, Login, Logins, Mirror, Mirrors, Secret, fetch, look_up};
use testkit::{Certificates, ChartFiles, ChartRegistry, ChartRepository};

use crate::{block_on, helms};

const USER: &str = "reader";
const PASSWORD: &str = "pa55:w0rd/@";

fn login(address: &str, password: &str) -> Logins {
    let (user, password) = (Some(USER.into()), Some(Secret::new(password)));
    Logins::new(vec![Login { address: address.into(), user, password, ca: None }])
}

fn trusting(address: &str, ca: PathBuf) -> Logins {
    Logins::new(vec![Login { address: address.into(), user: None, password: None, ca: Some(ca) }])
}

/// The code of what was said, in which no password may stand.
fn said<T: std::fmt::Debug>(answer: model::Result<T>) -> String {
    let problem = answer.unwrap_err();
    let text = format!("{problem:?} {}", problem.chain());
    assert!(!text.contains("pa55") && !text.contains("other"), "{text}");
    problem.code.into_owned()
}

#[test]
fn a_chart_is_fetched_with_the_login_of_its_repository_and_with_no_other() {
    for (helm, program) in helms("a chart is fetched with the login of its repository") {
        let packed = ChartFiles::new("shop", "1.2.3").package(&program);
        let open = format!("{USER}:{PASSWORD}");
        let (repository, registry) = (ChartRepository::start_for(&open), ChartRegistry::start_for(&open));
        repository.publish(&program, &[("shop-1.2.3.tgz", &packed)], None);
        registry.push(&program, &packed);
        for address in [repository.url(), registry.url()] {
            // Helm sends a login to no registry that it only speaks to in the clear because TLS failed.
            let (from, to) = (address.clone(), address.clone());
            let rules = Mirrors::new(vec![Mirror { from, to, plain_http: true, transparent: false }]);
            let with = |logins: Logins| {
                let helm = helm.clone().with_logins(logins);
                block_on(fetch(&helm, &rules, &address, "shop", "1.2.3"))
            };
            assert_eq!(with(login(&address, PASSWORD)).unwrap().bytes, packed, "{address}");
            let (host, _) = address.split_at(address.rfind(':').unwrap());
            assert_eq!(said(with(login(host, PASSWORD))), "chart.repository_denied", "another port is another server");
            assert_eq!(said(with(login(&address, "other"))), "chart.repository_denied", "{address}");
            assert_eq!(said(with(Logins::default())), "chart.repository_denied", "{address}");
            let helm = helm.clone().with_logins(login(&address, PASSWORD));
            block_on(look_up(&helm, &rules, &address, "shop", "1.2.3")).unwrap();
            let other = block_on(look_up(&helm, &rules, &address, "shop", "1.2.4")).unwrap_err();
            assert!(other.code == "chart.version_not_found" && other.to_string().contains("1.2.3"), "{other}");
        }
        // An index that names archives on its own host by their whole address, and one that names them elsewhere.
        repository.publish(&program, &[], Some(&repository.url()));
        let helm = helm.with_logins(login(&repository.url(), PASSWORD));
        block_on(fetch(&helm, &Mirrors::default(), &repository.url(), "shop", "1.2.3")).unwrap();
        let (elsewhere, asked) = listener();
        repository.publish(&program, &[], Some(&elsewhere));
        block_on(fetch(&helm, &Mirrors::default(), &repository.url(), "shop", "1.2.3")).unwrap_err();
        let asked = asked.join().unwrap().to_lowercase();
        assert!(asked.starts_with("get /shop-1.2.3.tgz") && !asked.contains("authorization"), "{asked}");
    }
}

/// A server that takes one request and answers that there is nothing; what it was asked.
fn listener() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 404 -\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
        String::from_utf8(text).unwrap()
    });
    (address, asked)
}

#[test]
fn a_password_is_no_argument_and_in_no_variable() {
    let folder = tempfile::tempdir().unwrap();
    let (program, seen) = (folder.path().join("helm"), folder.path().join("seen"));
    let script = format!(
        "#!/bin/sh\n{{ echo \"$@\"; env; }} >> {seen}.shown\ncat \"$HELM_REGISTRY_CONFIG\" - >> {seen}.told 2>/dev/null\nexit 1\n",
        seen = seen.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for (address, told) in
        [("https://charts.example/x", PASSWORD), ("oci://charts.example/x", "cmVhZGVyOnBhNTU6dzByZC9A")]
    {
        let helm = Helm::find(Some(&program), Duration::from_secs(10)).unwrap().with_logins(login(address, PASSWORD));
        assert_eq!(said(block_on(fetch(&helm, &Mirrors::default(), address, "shop", "1.2.3"))), "chart.not_fetched");
        let read = |end: &str| fs::read_to_string(format!("{}.{end}", seen.display())).unwrap();
        assert!(!read("shown").contains(PASSWORD) && !read("shown").contains("cmVhZGVy"), "{}", read("shown"));
        assert!(read("shown").contains("charts.example/x") && read("told").contains(told), "{}", read("told"));
    }
}

#[test]
fn a_repository_with_its_own_certificate_is_trusted_where_the_configuration_says_so() {
    let test = "a repository with its own certificate";
    let Some(certificates) = Certificates::make(test) else { return };
    for (helm, program) in helms(test) {
        let files = ChartRepository::start();
        let packed = ChartFiles::new("shop", "1.2.3").package(&program);
        files.publish(&program, &[("shop-1.2.3.tgz", &packed)], None);
        let server = certificates.serve(&files.folder());
        let with = |logins: Logins| {
            let helm = helm.clone().with_logins(logins);
            block_on(fetch(&helm, &Mirrors::default(), &server.url(), "shop", "1.2.3"))
        };
        assert_eq!(with(trusting(&server.url(), certificates.ca())).unwrap().bytes, packed);
        let problem = with(Logins::default()).unwrap_err();
        assert!(problem.code == "chart.repository_untrusted" && problem.to_string().contains("`ca`"), "{problem}");
        let (other, _) = certificates.client();
        assert_eq!(with(trusting(&server.url(), other)).unwrap_err().code, "chart.repository_untrusted");
        let missing = with(trusting(&server.url(), "/no/such.pem".into())).unwrap_err();
        assert_eq!(missing.code, "chart.ca_unreadable");
    }
}
