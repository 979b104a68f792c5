//! Data sets: a manifest that never changes, and the datapacks that it names.

use std::collections::{BTreeMap, BTreeSet};

use ::datapack::Pack;
use api::dataset::{Dataset, DatasetReport, DatasetRequest, DatasetVersion, Manifest, Member, Split};
use api::evaluation::EvaluationRequest;
use api::{Page, PageQuery};
use model::{DatasetId, ErrorKind, Problem, Result, counted};
use sha2::{Digest, Sha256};
use store::{BoardCase, NewDataset};

use super::download::Download;
use super::injection::blocking;
use super::{App, page_of};

/// Version of the manifest's form.
const FORMAT: u32 = 1;
const OPEN: &str = "open";
const HELD_OUT: &str = "held_out";

impl App {
    /// # Errors
    /// `dataset.exists`, `dataset.name_malformed`, `dataset.license_missing`, `dataset.split_out_of_range`,
    /// `dataset.empty`, `datapack.unknown`, `datapack.checksum_mismatch`.
    pub async fn create_dataset(&self, request: &DatasetRequest) -> Result<Dataset> {
        check(request)?;
        let scope = EvaluationRequest {
            packs: request.packs.clone(),
            system: request.system.clone(),
            group_id: request.group_id.clone(),
            ..EvaluationRequest::default()
        };
        let cases: Vec<BoardCase> = self.scope(&scope).await?.into_iter().filter(|case| case.built).collect();
        if cases.is_empty() {
            return Err(Problem::new(ErrorKind::Invalid, "dataset.empty", "no datapack of these has been built")
                .fix("`aegisctl datapack list` shows which there are"));
        }
        let mut members = Vec::with_capacity(cases.len());
        for case in &cases {
            members.push(self.member(case, request).await?);
        }
        members.sort_by(|a, b| a.name.cmp(&b.name));
        let manifest = Manifest {
            format: FORMAT,
            name: request.name.clone(),
            version: request.version.clone(),
            description: request.description.clone(),
            license: request.license.clone(),
            origin: self.cluster().info().kind,
            split: Split { by: "system and point".to_owned(), held_out: request.held_out, seed: request.split_seed },
            members,
        };
        let new = NewDataset {
            name: request.name.clone(),
            version: request.version.clone(),
            description: request.description.clone(),
            digest: digest(&canonical(&manifest)?),
            manifest: serde_json::to_value(&manifest)
                .map_err(|error| Problem::internal("dataset.manifest", error.to_string()))?,
            members: cases.iter().map(|case| case.injection).collect(),
        };
        self.store().add_dataset(&new).await?;
        self.dataset(&request.name).await
    }

    /// A datapack that is what was built, with its checksum.
    async fn member(&self, case: &BoardCase, request: &DatasetRequest) -> Result<Member> {
        let pack = self.pack(&case.name).await?;
        let sha256 = blocking(move || {
            pack.verify()?;
            Ok(pack.digest())
        })
        .await
        .map_err(|problem| problem.place(case.name.clone()))?;
        let points = points(case);
        let part = if is_held_out(case.system.as_str(), &points, request) { HELD_OUT } else { OPEN };
        Ok(Member {
            name: case.name.clone(),
            system: case.system.to_string(),
            fault_type: case.fault_name.clone(),
            part: part.to_owned(),
            sha256,
        })
    }

    /// # Errors
    /// `page.out_of_range`.
    pub async fn datasets(&self, query: PageQuery) -> Result<Page<Dataset>> {
        let mut by_name: BTreeMap<String, Vec<store::Dataset>> = BTreeMap::new();
        for dataset in self.store().datasets().await? {
            by_name.entry(dataset.name.clone()).or_default().push(dataset);
        }
        page_of(query, by_name.into_values().collect(), |versions| dataset(&versions))
    }

    /// A data set by name or number, with all of its versions.
    ///
    /// # Errors
    /// `dataset.unknown`.
    pub async fn dataset(&self, name: &str) -> Result<Dataset> {
        Ok(dataset(&self.versions(name).await?))
    }

    /// # Errors
    /// `dataset.unknown`.
    pub async fn dataset_versions(&self, name: &str) -> Result<Page<DatasetVersion>> {
        page_of(PageQuery::default(), self.versions(name).await?, |stored| version(&stored))
    }

    /// The manifest of a version, `name` (the newest) or `name:version`.
    ///
    /// # Errors
    /// `dataset.unknown`, `dataset.version_unknown`.
    pub async fn manifest(&self, name: &str) -> Result<Manifest> {
        manifest(&self.find_dataset(name).await?)
    }

    /// Compares every datapack with the manifest, and the manifest with its digest.
    ///
    /// # Errors
    /// `dataset.unknown`, `dataset.version_unknown`.
    pub async fn verify_dataset(&self, name: &str) -> Result<DatasetReport> {
        let stored = self.find_dataset(name).await?;
        let manifest = manifest(&stored)?;
        let mut findings = BTreeMap::new();
        if stored.digest.as_deref() != Some(digest(&canonical(&manifest)?).as_str()) {
            findings.insert("manifest".to_owned(), "it is not what was stored".to_owned());
        }
        for member in &manifest.members {
            if let Err(problem) = self.intact(member).await {
                findings.insert(member.name.clone(), problem.to_string());
            }
        }
        Ok(DatasetReport {
            name: manifest.name,
            version: manifest.version,
            ok: findings.is_empty(),
            packs: super::scores::int(manifest.members.len()),
            findings,
        })
    }

    async fn intact(&self, member: &Member) -> Result<()> {
        let pack = self.pack(&member.name).await?;
        let expected = member.sha256.clone();
        blocking(move || {
            pack.verify()?;
            let found = pack.digest();
            if found == expected {
                return Ok(());
            }
            Err(Problem::new(
                ErrorKind::Failed,
                "dataset.datapack_changed",
                "the datapack was changed or built anew since",
            )
            .found(found)
            .expected(expected))
        })
        .await
    }

    /// One version as an archive: the manifest, and each datapack in the public layout. Datapacks that changed since are
    /// refused.
    ///
    /// # Errors
    /// `dataset.unknown`, `dataset.version_unknown`, `dataset.part_unknown`, `dataset.part_empty`,
    /// `dataset.datapack_changed`.
    pub async fn dataset_archive(&self, name: &str, part: Option<&str>) -> Result<Download> {
        self.archive_of(self.find_dataset(name).await?, part).await
    }

    /// As [`Self::dataset_archive`], of the version with this name or number.
    ///
    /// # Errors
    /// As for [`Self::dataset_archive`].
    pub async fn dataset_version_archive(&self, name: &str, version: &str, part: Option<&str>) -> Result<Download> {
        let mut versions = self.versions(name).await?;
        let is_it = |one: &store::Dataset| one.version == version || one.id.to_string() == version;
        match versions.iter().position(is_it) {
            Some(place) => self.archive_of(versions.swap_remove(place), part).await,
            None => Err(version_unknown(name, version, &versions)),
        }
    }

    async fn archive_of(&self, stored: store::Dataset, part: Option<&str>) -> Result<Download> {
        let manifest = manifest(&stored)?;
        let wanted = match part {
            Some(part) => Some(self::part(Some(&stored), part)?),
            None => None,
        };
        if wanted.as_ref().is_some_and(BTreeSet::is_empty) {
            let part = part.unwrap_or_default();
            return Err(Problem::new(ErrorKind::NotFound, "dataset.part_empty", "no datapack is in this part")
                .place(format!("{}:{}", manifest.name, manifest.version))
                .found(format!("0 of {} in `{part}`", counted(manifest.members.len(), "datapack")))
                .fix("`aegisctl dataset show` tells the part of each; whole points are held out, never single runs"));
        }
        let mut packs: Vec<Pack> = Vec::new();
        for member in &manifest.members {
            if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&member.name)) {
                continue;
            }
            self.intact(member).await.map_err(|problem| problem.place(member.name.clone()))?;
            packs.push(self.pack(&member.name).await?);
        }
        let text = canonical(&manifest)?;
        let file_name = format!("{}-{}.zip", manifest.name, manifest.version);
        Ok(Download::new("application/zip", file_name, None, move |sink| {
            ::datapack::zip_all(&packs, &[("manifest.json", text.as_bytes())], sink)
        }))
    }

    /// A version by `name` (the newest), `name:version`, or its number.
    ///
    /// # Errors
    /// `dataset.unknown`, `dataset.version_unknown`.
    pub(super) async fn find_dataset(&self, text: &str) -> Result<store::Dataset> {
        if let Ok(number) = text.parse() {
            let all = self.store().datasets().await?;
            if let Some(found) = all.into_iter().find(|dataset| dataset.id == DatasetId(number)) {
                return Ok(found);
            }
        }
        let (name, version) = match text.split_once(':') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let mut versions = self.versions(name).await?;
        let Some(version) = version else { return Ok(versions.swap_remove(versions.len() - 1)) };
        match versions.iter().position(|dataset| dataset.version == version) {
            Some(place) => Ok(versions.swap_remove(place)),
            None => Err(version_unknown(name, version, &versions)),
        }
    }

    /// All versions of a data set, oldest first; never none.
    async fn versions(&self, name: &str) -> Result<Vec<store::Dataset>> {
        let all = self.store().datasets().await?;
        let of_number = name.parse().ok().and_then(|number| all.iter().find(|one| one.id == DatasetId(number)));
        let name = of_number.map_or(name, |one| one.name.as_str());
        let names: BTreeSet<&str> = all.iter().map(|dataset| dataset.name.as_str()).collect();
        if !names.contains(name) {
            return Err(Problem::unknown("dataset.unknown", "data set", name, names));
        }
        let name = name.to_owned();
        Ok(all.into_iter().filter(|dataset| dataset.name == name).collect())
    }
}

/// The names of the datapacks in one part of a data set.
///
/// # Errors
/// `dataset.part_unknown`, `dataset.part_without_set`.
pub fn part(dataset: Option<&store::Dataset>, part: &str) -> Result<BTreeSet<String>> {
    let Some(dataset) = dataset else {
        return Err(Problem::new(ErrorKind::Invalid, "dataset.part_without_set", "only a data set has parts")
            .fix("name the data set as well"));
    };
    if ![OPEN, HELD_OUT].contains(&part) {
        let problem = Problem::unknown("dataset.part_unknown", "part", part, [OPEN, HELD_OUT]);
        return Err(Problem { kind: ErrorKind::Invalid, ..problem });
    }
    let members = manifest(dataset)?.members.into_iter();
    Ok(members.filter(|member| member.part == part).map(|member| member.name).collect())
}

fn version_unknown(name: &str, version: &str, known: &[store::Dataset]) -> Problem {
    let names = known.iter().map(|dataset| dataset.version.as_str());
    Problem::unknown("dataset.version_unknown", "version", version, names).place(name.to_owned())
}

fn check(request: &DatasetRequest) -> Result<()> {
    let wrong =
        |code, message: &str, place: &str| Problem::new(ErrorKind::Invalid, code, message).place(place.to_owned());
    for (place, text) in [("name", &request.name), ("version", &request.version)] {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=64).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with('.');
        // A number would be taken for an id.
        if !fits || (place == "name" && text.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(wrong("dataset.name_malformed", "this cannot be the name or the version of a data set", place)
                .found(format!("`{text}`"))
                .expected("1 to 64 letters, digits, dots, hyphens and underscores; a name is more than a number"));
        }
    }
    if request.license.trim().is_empty() {
        return Err(wrong("dataset.license_missing", "a data set says under which license it may be used", "license")
            .expected("an SPDX identifier, for example CC-BY-4.0"));
    }
    if !(0.0..1.0).contains(&request.held_out) {
        return Err(wrong("dataset.split_out_of_range", "this share cannot be held out", "held_out")
            .found(request.held_out.to_string())
            .expected("0 or more, and less than 1"));
    }
    Ok(())
}

/// Follows from the seed and the group alone: the same group falls into the same part in every version.
fn is_held_out(system: &str, points: &str, request: &DatasetRequest) -> bool {
    let text = format!("{}\n{system}\n{points}", request.split_seed);
    let hash = Sha256::digest(text.as_bytes());
    let number = hash[..8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
    let place = number as f64 / u64::MAX as f64;
    place < request.held_out
}

/// The points of a datapack's faults. A control belongs to none; its name keeps it apart from the others.
fn points(case: &BoardCase) -> String {
    let faults = case.faults.as_array().into_iter().flatten();
    let mut points: Vec<&str> = faults.filter_map(|fault| fault["point"].as_str()).collect();
    points.sort_unstable();
    if points.is_empty() { case.name.clone() } else { points.join("+") }
}

fn canonical(manifest: &Manifest) -> Result<String> {
    serde_json::to_string_pretty(manifest)
        .map(|text| text + "\n")
        .map_err(|error| Problem::internal("dataset.manifest", error.to_string()))
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

fn manifest(stored: &store::Dataset) -> Result<Manifest> {
    let Some(manifest) = stored.manifest.clone() else {
        return Err(Problem::new(ErrorKind::Missing, "dataset.without_manifest", "the data set has no manifest")
            .place(format!("{}:{}", stored.name, stored.version))
            .fix("make a new version of it"));
    };
    serde_json::from_value(manifest)
        .map_err(|error| Problem::internal("dataset.manifest_unreadable", error.to_string()))
}

/// One entry for all versions; its number is that of the first one.
fn dataset(versions: &[store::Dataset]) -> Dataset {
    let (first, last) = (&versions[0], &versions[versions.len() - 1]);
    Dataset {
        id: first.id,
        name: first.name.clone(),
        kind: "datapack".to_owned(),
        description: last.description.clone(),
        status: "enabled".to_owned(),
        is_public: true,
        versions: versions.iter().map(version).collect(),
        created_at: first.created_at.to_string(),
        updated_at: last.created_at.to_string(),
    }
}

fn version(stored: &store::Dataset) -> DatasetVersion {
    let members = stored.manifest.as_ref().and_then(|manifest| manifest["members"].as_array());
    let held_out = members.into_iter().flatten().filter(|member| member["part"] == HELD_OUT).count();
    let license = stored.manifest.as_ref().and_then(|manifest| manifest["license"].as_str());
    DatasetVersion {
        id: stored.id,
        name: stored.version.clone(),
        license: license.unwrap_or_default().to_owned(),
        packs: super::scores::int(stored.members.len()),
        held_out: super::scores::int(held_out),
        digest: stored.digest.clone().unwrap_or_default(),
        updated_at: stored.created_at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_follows_from_the_seed_and_the_group_alone() {
        let request = |seed| DatasetRequest { held_out: 0.3, split_seed: seed, ..DatasetRequest::default() };
        let held = |seed| -> Vec<usize> {
            (0..1000).filter(|n| is_held_out("ts", &format!("point-{n}"), &request(seed))).collect()
        };
        assert_eq!(held(1), held(1));
        assert_ne!(held(1), held(2));
        assert!((200..400).contains(&held(1).len()), "{}", held(1).len());
        assert!(!is_held_out("ts", "p", &DatasetRequest::default()), "nothing is held out unless it is asked for");
    }
}
