//! Containers in the public form. Built-in methods are listed among them: they are run in the same way.

use api::Page;
use api::container::{Container, ContainerDetail, ContainerQuery, ContainerVersion};
use model::{ErrorKind, Problem, Result};
use sha2::{Digest, Sha256};
use store::{ContainerKind, ExecutionFilter};

use super::algorithm::{BUILTIN, DETECTOR};
use super::{App, page_of};
use crate::extract;

/// Numbers of what has no row: above every number that the store gives.
const FIRST_BUILTIN: i32 = 1 << 30;

impl App {
    /// # Errors
    /// `container.kind_unknown`, `page.out_of_range`.
    pub async fn containers(&self, query: &ContainerQuery) -> Result<Page<Container>> {
        let page = api::PageQuery { page: query.page, size: query.size };
        let kind =
            extract::state(query.kind.as_deref(), &ContainerKind::ALL, ContainerKind::as_str, ContainerKind::code)
                .map_err(|mut problem| {
                    problem.code = "container.kind_unknown".into();
                    problem.message = "unknown kind of container".into();
                    problem.place("query: type")
                })?;
        let all = self.all_containers(kind).await?;
        page_of(page, all, |detail| detail.container)
    }

    /// By number, else by name.
    ///
    /// # Errors
    /// `container.unknown`.
    pub async fn container(&self, text: &str) -> Result<ContainerDetail> {
        let all = self.all_containers(None).await?;
        let number: Option<i32> = text.parse().ok();
        let names: Vec<String> = all.iter().map(|detail| detail.container.name.clone()).collect();
        let same = |detail: &ContainerDetail| match number {
            Some(number) => detail.container.id == number,
            None => detail.container.name == text,
        };
        let mut found = all.into_iter().find(same).ok_or_else(|| {
            Problem::unknown("container.unknown", "container", text, names.iter().map(String::as_str))
        })?;
        for version in &mut found.versions {
            version.usage = self.usage(&found.container.name, &version.name).await?;
        }
        Ok(found)
    }

    async fn usage(&self, name: &str, version: &str) -> Result<i32> {
        let filter = ExecutionFilter { algorithm: Some(name.to_owned()), ..ExecutionFilter::default() };
        let all = self.store().executions(&filter, store::Page::ALL).await?.items;
        let count = all.iter().filter(|execution| execution.version == version).count();
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    }

    async fn all_containers(&self, kind: Option<ContainerKind>) -> Result<Vec<ContainerDetail>> {
        let mut all: Vec<ContainerDetail> = self.store().containers(kind).await?.iter().map(stored).collect();
        if kind.is_none_or(|kind| kind == ContainerKind::Algorithm) {
            for name in builtins() {
                let known = all.iter_mut().find(|one| one.container.name == name && one.container.kind == "algorithm");
                match known {
                    Some(one) if one.versions.iter().any(|version| version.name == BUILTIN) => {}
                    Some(one) => one.versions.push(builtin_version(name)),
                    None => all.push(builtin(name)),
                }
            }
        }
        Ok(all)
    }
}

fn builtins() -> impl Iterator<Item = &'static str> {
    std::iter::once(DETECTOR).chain(rca::algorithm::algorithms().iter().map(|method| method.name()))
}

/// The number of a built-in method: it follows from its name, so it never changes and is the same everywhere.
pub fn builtin_number(name: &str) -> i32 {
    let digest = Sha256::digest(name.as_bytes());
    let bits = i32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    FIRST_BUILTIN | (bits & (FIRST_BUILTIN - 1))
}

fn builtin(name: &str) -> ContainerDetail {
    ContainerDetail {
        container: Container {
            id: builtin_number(name),
            name: name.to_owned(),
            kind: ContainerKind::Algorithm.as_str().to_owned(),
            is_public: true,
            status: "enabled".into(),
            created_at: None,
            updated_at: None,
        },
        versions: vec![builtin_version(name)],
    }
}

fn builtin_version(name: &str) -> ContainerVersion {
    let id = builtin_number(&format!("{name}:{BUILTIN}"));
    ContainerVersion { id, name: BUILTIN.into(), image_ref: String::new(), usage: 0, updated_at: None }
}

fn stored(container: &store::Container) -> ContainerDetail {
    ContainerDetail {
        container: Container {
            id: container.id.0,
            name: container.name.clone(),
            kind: container.kind.as_str().to_owned(),
            is_public: container.is_public,
            status: "enabled".into(),
            created_at: Some(container.created_at.to_string()),
            updated_at: Some(container.updated_at.to_string()),
        },
        versions: container
            .versions
            .iter()
            .map(|version| ContainerVersion {
                id: version.id.0,
                name: version.name.clone(),
                image_ref: version.image_ref.clone(),
                usage: 0,
                updated_at: Some(version.created_at.to_string()),
            })
            .collect(),
    }
}

impl App {
    /// Refuses a benchmark that is not registered, or not in that version.
    pub(super) async fn require_benchmark(&self, name: &str, version: Option<&str>) -> Result<()> {
        let all = self.store().containers(Some(ContainerKind::Benchmark)).await?;
        let Some(found) = all.iter().find(|container| container.name == name) else {
            let names = all.iter().map(|container| container.name.as_str());
            return Err(Problem::unknown("benchmark.unknown", "benchmark", name, names).place("benchmark.name"));
        };
        let Some(version) = version.filter(|text| !text.is_empty()) else { return Ok(()) };
        if found.versions.iter().any(|known| known.name == version) {
            return Ok(());
        }
        let versions = found.versions.iter().map(|known| known.name.as_str());
        let mut problem = Problem::unknown("benchmark.version_unknown", "version", version, versions);
        problem.kind = ErrorKind::Invalid;
        Err(problem.place("benchmark.version"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_built_in_method_has_a_number_of_its_own() {
        let numbers: BTreeSet<i32> = builtins().map(builtin_number).collect();
        assert_eq!(numbers.len(), builtins().count());
        assert!(numbers.iter().all(|&number| number >= FIRST_BUILTIN));
    }
}
