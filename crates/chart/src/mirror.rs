//! Where a chart or an image is really fetched from: rules that put one prefix in the place of another.

use serde::Deserialize;

/// One rule of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    /// What a reference begins with: `https://…` and `oci://…` are chart repositories, everything else images.
    pub from: String,
    /// What stands in its place.
    pub to: String,
    /// The registry speaks HTTP without TLS; for charts in a registry.
    #[serde(default)]
    pub plain_http: bool,
    /// The nodes follow the mirror by themselves, so an image's reference may stay as it is.
    #[serde(default)]
    pub transparent: bool,
}

impl Mirror {
    fn is_chart(&self) -> bool {
        self.from.contains("://")
    }

    /// Whether both sides are of one kind: repositories over HTTP, registries of charts, or images.
    pub fn is_meant(&self) -> bool {
        let kind = |address: &str| match address.split_once("://") {
            Some(("http" | "https", rest)) => (!rest.is_empty()).then_some("classic"),
            Some(("oci", rest)) => (!rest.is_empty()).then_some("registry"),
            Some(_) => None,
            None => (!address.is_empty()).then_some("image"),
        };
        let (from, to) = (kind(&self.from), kind(&self.to));
        from.is_some() && from == to
    }
}

/// What the rules say of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageRule {
    /// It is a mirror's, or its nodes follow one by themselves.
    Reachable,
    /// It should be written like this.
    Rewrite(String),
    /// No rule knows its registry.
    Unknown,
}

/// All rules; the longest prefix wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirrors {
    rules: Vec<Mirror>,
}

impl Mirrors {
    pub fn new(mut rules: Vec<Mirror>) -> Self {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.from.len()));
        Self { rules }
    }

    /// The address that a chart repository, or a file of one, is fetched from, and whether that is spoken to without TLS.
    pub fn chart(&self, address: &str) -> (String, bool) {
        let rule =
            self.rules.iter().filter(|rule| rule.is_chart()).find_map(|rule| Some((rule, rest(address, &rule.from)?)));
        match rule {
            Some((rule, rest)) => (join(&rule.to, rest), rule.plain_http),
            None => (address.to_owned(), false),
        }
    }

    /// Whether a rule says where this chart repository is really.
    pub fn names_chart(&self, address: &str) -> bool {
        self.rules.iter().any(|rule| rule.is_chart() && rest(address, &rule.from).is_some())
    }

    /// Whether there is a rule for images at all.
    pub fn know_images(&self) -> bool {
        self.rules.iter().any(|rule| !rule.is_chart())
    }

    /// The prefixes of images that nodes can reach.
    pub fn images(&self) -> Vec<&str> {
        let rules = self.rules.iter().filter(|rule| !rule.is_chart());
        rules.map(|rule| if rule.transparent { rule.from.as_str() } else { rule.to.as_str() }).collect()
    }

    pub fn image(&self, reference: &str) -> ImageRule {
        let full = full_reference(reference);
        let rules = || self.rules.iter().filter(|rule| !rule.is_chart());
        if rules().any(|rule| rest(&full, &rule.to).is_some()) {
            return ImageRule::Reachable;
        }
        match rules().find_map(|rule| Some((rule, rest(&full, &rule.from)?))) {
            Some((rule, _)) if rule.transparent => ImageRule::Reachable,
            Some((rule, rest)) => ImageRule::Rewrite(join(&rule.to, rest)),
            None => ImageRule::Unknown,
        }
    }
}

/// What follows a prefix that ends where a part of the address ends.
pub(crate) fn rest<'a>(address: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = address.strip_prefix(prefix.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with(['/', ':', '@'])).then_some(rest)
}

fn join(to: &str, rest: &str) -> String {
    format!("{}{rest}", to.trim_end_matches('/'))
}

/// An image with its registry, as container runtimes read it: `nginx` is `docker.io/library/nginx`.
pub(crate) fn full_reference(reference: &str) -> String {
    match reference.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => reference.to_owned(),
        Some(_) => format!("docker.io/{reference}"),
        None => format!("docker.io/library/{reference}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrors() -> Mirrors {
        let rule =
            |from: &str, to: &str| Mirror { from: from.into(), to: to.into(), plain_http: false, transparent: false };
        Mirrors::new(vec![
            rule("https://charts.example", "http://127.0.0.1:1/all/"),
            rule("https://charts.example/stable/", "http://127.0.0.1:1/stable"),
            Mirror { plain_http: true, ..rule("oci://reg.example/charts", "oci://127.0.0.1:2/c") },
            rule("docker.io", "mirror.local/hub"),
            Mirror { transparent: true, ..rule("quay.io", "mirror.local/quay") },
        ])
    }

    #[test]
    fn the_longest_prefix_wins_and_ends_where_a_part_ends() {
        let mirrors = mirrors();
        let chart = |address: &str| mirrors.chart(address);
        assert_eq!(chart("https://charts.example/x"), ("http://127.0.0.1:1/all/x".into(), false));
        assert_eq!(chart("https://charts.example/stable/x.tgz"), ("http://127.0.0.1:1/stable/x.tgz".into(), false));
        assert_eq!(chart("https://charts.example.org/x"), ("https://charts.example.org/x".into(), false));
        assert_eq!(chart("oci://reg.example/charts/shop"), ("oci://127.0.0.1:2/c/shop".into(), true));
        assert!(mirrors.names_chart("oci://reg.example/charts") && !mirrors.names_chart("oci://reg.example/chart"));
    }

    #[test]
    fn an_image_is_read_as_runtimes_read_it() {
        let mirrors = mirrors();
        let rewritten = |image: &str, to: &str| assert_eq!(mirrors.image(image), ImageRule::Rewrite(to.into()));
        rewritten("nginx:1.27", "mirror.local/hub/library/nginx:1.27");
        rewritten("bitnami/redis", "mirror.local/hub/bitnami/redis");
        rewritten("docker.io/a/b@sha256:00", "mirror.local/hub/a/b@sha256:00");
        for there in ["mirror.local/hub/library/nginx:1.27", "quay.io/a/b:1"] {
            assert_eq!(mirrors.image(there), ImageRule::Reachable, "{there}");
        }
        for unknown in ["gcr.io/a/b:1", "docker.io.example/a", "localhost:5000/a"] {
            assert_eq!(mirrors.image(unknown), ImageRule::Unknown, "{unknown}");
        }
    }
}
