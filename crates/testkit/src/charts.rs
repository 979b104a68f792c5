//! Charts that tests make and publish: a classic repository, and a registry after the OCI distribution specification, both
//! on loopback; filled by the real `helm`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use base64::Engine;
use sha2::{Digest, Sha256};

use crate::loopback::{Answer, Loopback, Request};

/// The files of a chart, by path; `Chart.yaml` is made.
#[derive(Debug, Clone, Default)]
pub struct ChartFiles {
    name: String,
    version: String,
    files: Vec<(String, String)>,
}

impl ChartFiles {
    pub fn new(name: &str, version: &str) -> Self {
        Self { name: name.into(), version: version.into(), files: Vec::new() }
    }

    #[must_use]
    pub fn with(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.into(), text.into()));
        self
    }

    /// The archive that `helm package` makes of it.
    ///
    /// # Panics
    /// When `helm` refuses the chart.
    pub fn package(&self, helm: &Path) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("there is a temporary folder");
        let chart = folder.path().join(&self.name);
        let about = format!("apiVersion: v2\nname: {}\nversion: {}\n", self.name, self.version);
        let own = [("Chart.yaml".to_owned(), about)];
        for (path, text) in own.iter().chain(&self.files) {
            let file = chart.join(path);
            fs::create_dir_all(file.parent().expect("a file has a folder")).expect("folders can be made");
            fs::write(file, text).expect("files can be written");
        }
        run(
            helm,
            folder.path(),
            &["package", &chart.to_string_lossy(), "--destination", &folder.path().to_string_lossy()],
        );
        let archive = folder.path().join(format!("{}-{}.tgz", self.name, self.version));
        fs::read(archive).expect("helm package writes an archive")
    }
}

/// Starts `helm` with nothing of this machine's own.
///
/// # Panics
/// When it fails.
fn run(helm: &Path, home: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(helm);
    command.env_clear().args(arguments).current_dir(home);
    for (name, place) in [
        ("HOME", "home"),
        ("HELM_CACHE_HOME", "cache"),
        ("HELM_CONFIG_HOME", "config"),
        ("HELM_DATA_HOME", "data"),
        ("HELM_REGISTRY_CONFIG", "registry.json"),
    ] {
        command.env(name, home.join(place));
    }
    let output = command.output().expect("helm starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "helm {arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A classic repository: `index.yaml` and archives over HTTP.
pub struct ChartRepository {
    folder: tempfile::TempDir,
    server: Loopback,
}

impl ChartRepository {
    /// An empty one; it has no index yet.
    ///
    /// # Panics
    /// When there is no temporary folder.
    pub fn start() -> Self {
        Self::start_for("")
    }

    /// One that answers only who logs in with this `USER:PASSWORD`.
    ///
    /// # Panics
    /// As [`ChartRepository::start`].
    pub fn start_for(login: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is a temporary folder");
        let (root, login) = (folder.path().to_owned(), login.to_owned());
        let server = Loopback::start(move |request| denied(&login, &request).unwrap_or_else(|| file(&root, &request)));
        Self { folder, server }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Where its files are, to be damaged.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Adds archives and makes the index with `helm repo index`, with addresses below `base` where one is given.
    ///
    /// # Panics
    /// When `helm` refuses.
    pub fn publish(&self, helm: &Path, archives: &[(&str, &[u8])], base: Option<&str>) {
        for (name, bytes) in archives {
            fs::write(self.folder.path().join(name), bytes).expect("files can be written");
        }
        let folder = self.folder.path().to_string_lossy().into_owned();
        let home = tempfile::tempdir().expect("there is a temporary folder");
        let mut arguments = vec!["repo", "index", folder.as_str()];
        arguments.extend(base.into_iter().flat_map(|base| ["--url", base]));
        run(helm, home.path(), &arguments);
    }
}

/// The answer to whoever did not log in as they must (RFC 7617).
fn denied(login: &str, request: &Request) -> Option<Answer> {
    let right = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
    let is_open = login.is_empty() || request.login == right;
    (!is_open).then(|| Answer::new(401).header("WWW-Authenticate", "Basic realm=\"charts\""))
}

fn file(root: &Path, request: &Request) -> Answer {
    let name = request.path.rsplit('/').next().unwrap_or_default();
    match fs::read(root.join(name)) {
        Ok(bytes) => Answer::new(200).body(bytes),
        Err(_) => Answer::new(404),
    }
}

#[derive(Default)]
struct Contents {
    blobs: HashMap<String, Vec<u8>>,
    /// Kind and bytes by `name:reference`, reference being a tag or a digest.
    manifests: HashMap<String, (String, Vec<u8>)>,
    tags: Vec<(String, String)>,
    uploads: HashMap<String, Vec<u8>>,
}

/// A registry as far as `helm push` and `helm pull` need one.
pub struct ChartRegistry {
    server: Loopback,
    /// `USER:PASSWORD`; empty when everybody may.
    login: String,
}

impl Default for ChartRegistry {
    fn default() -> Self {
        Self::start()
    }
}

impl ChartRegistry {
    pub fn start() -> Self {
        Self::start_for("")
    }

    /// One that answers only who logs in with this `USER:PASSWORD`.
    pub fn start_for(login: &str) -> Self {
        let contents = Arc::new(Mutex::new(Contents::default()));
        let wanted = login.to_owned();
        let server = Loopback::start(move |request| {
            let answer = |request| contents.lock().expect("no handler panics with the lock").answer(request);
            denied(&wanted, &request).unwrap_or_else(|| answer(request))
        });
        Self { server, login: login.to_owned() }
    }

    /// Where charts are pushed to and pulled from: `oci://HOST:PORT/charts`.
    pub fn url(&self) -> String {
        format!("oci://{}/charts", self.server.address)
    }

    /// # Panics
    /// When `helm push` fails.
    pub fn push(&self, helm: &Path, archive: &[u8]) {
        let home = tempfile::tempdir().expect("there is a temporary folder");
        let file = home.path().join("chart.tgz");
        fs::write(&file, archive).expect("files can be written");
        if !self.login.is_empty() {
            let login = base64::engine::general_purpose::STANDARD.encode(&self.login);
            let logins = serde_json::json!({"auths": {self.server.address.to_string(): {"auth": login}}});
            fs::write(home.path().join("registry.json"), logins.to_string()).expect("files can be written");
        }
        run(helm, home.path(), &["push", &file.to_string_lossy(), &self.url(), "--plain-http"]);
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

impl Contents {
    fn answer(&mut self, request: Request) -> Answer {
        let Some(path) = request.path.strip_prefix("/v2/") else { return Answer::new(404) };
        if path.is_empty() {
            return Answer::new(200).body("{}");
        }
        for (part, handler) in [
            ("/blobs/uploads/", Self::upload as fn(&mut Self, &str, &str, Request) -> Answer),
            ("/blobs/", Self::blob),
            ("/manifests/", Self::manifest),
            ("/tags/", Self::tags),
        ] {
            if let Some((name, rest)) = path.split_once(part) {
                let (name, rest) = (name.to_owned(), rest.to_owned());
                return handler(self, &name, &rest, request);
            }
        }
        Answer::new(404)
    }

    fn upload(&mut self, name: &str, id: &str, request: Request) -> Answer {
        let id = if id.is_empty() { format!("u{}", self.uploads.len()) } else { id.to_owned() };
        let so_far = self.uploads.entry(id.clone()).or_default();
        so_far.extend(request.body);
        let place = format!("/v2/{name}/blobs/uploads/{id}");
        match request.query.get("digest") {
            Some(wanted) if request.method != "PATCH" => {
                let bytes = std::mem::take(so_far);
                if digest(&bytes) != *wanted {
                    return Answer::new(400);
                }
                self.blobs.insert(wanted.clone(), bytes);
                Answer::new(201).header("Location", format!("/v2/{name}/blobs/{wanted}"))
            }
            _ => {
                let end = so_far.len().saturating_sub(1);
                Answer::new(202).header("Location", place).header("Range", format!("0-{end}"))
            }
        }
    }

    fn blob(&mut self, _: &str, wanted: &str, _: Request) -> Answer {
        match self.blobs.get(wanted) {
            Some(bytes) => Answer::new(200)
                .header("Docker-Content-Digest", wanted)
                .header("Content-Type", OCTETS)
                .body(bytes.clone()),
            None => Answer::new(404),
        }
    }

    fn manifest(&mut self, name: &str, reference: &str, request: Request) -> Answer {
        if request.method == "PUT" {
            let digest = digest(&request.body);
            for reference in [reference, &digest] {
                let manifest = (request.kind.clone(), request.body.clone());
                self.manifests.insert(format!("{name}:{reference}"), manifest);
            }
            if !reference.starts_with("sha256:") {
                self.tags.push((name.to_owned(), reference.to_owned()));
            }
            let place = format!("/v2/{name}/manifests/{digest}");
            return Answer::new(201).header("Location", place).header("Docker-Content-Digest", digest);
        }
        match self.manifests.get(&format!("{name}:{reference}")) {
            Some((kind, bytes)) => Answer::new(200)
                .header("Docker-Content-Digest", digest(bytes))
                .header("Content-Type", kind.clone())
                .body(bytes.clone()),
            None => Answer::new(404)
                .header("Content-Type", "application/json")
                .body(r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#),
        }
    }

    /// Few tags at once, so that every list has pages.
    fn tags(&mut self, name: &str, _: &str, request: Request) -> Answer {
        const PAGE: usize = 2;
        let mut tags: Vec<&str> = self.tags.iter().filter(|(of, _)| of == name).map(|(_, tag)| tag.as_str()).collect();
        if tags.is_empty() {
            return Answer::new(404);
        }
        tags.sort_unstable();
        let last = request.query.get("last").map_or("", String::as_str);
        tags.retain(|tag| *tag > last);
        let more = tags.len() > PAGE;
        tags.truncate(PAGE);
        let body = serde_json::json!({"name": name, "tags": tags}).to_string();
        let answer = Answer::new(200).header("Content-Type", "application/json").body(body);
        match tags.last().filter(|_| more) {
            Some(last) => answer.header("Link", format!("</v2/{name}/tags/list?n={PAGE}&last={last}>; rel=\"next\"")),
            None => answer,
        }
    }
}

const OCTETS: &str = "application/octet-stream";
