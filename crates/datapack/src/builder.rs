//! Building a datapack: write, measure, validate, lint, seal; then publish, all or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use model::{ErrorKind, Problem, Result, Role, Verdict, Window};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::disk::{create_folder, digest, sha256, sync_folder, write_durably};
use crate::export::{Export, Exported, trace_id_ts};
use crate::input::{PackInput, Source};
use crate::inventory;
use crate::leak::{self, ENV_KEYS, Lexicon};
use crate::manifest::{Checksums, Content, FORMAT, Manifest, Provenance, canonical, check_truth, public_ground_truth};
use crate::meter::Meter;
use crate::pack::{MANIFEST_FILE, OPEN, Pack, SEALED, SUMS_FILE, TRUTH_FILE};
use crate::parquet_file::FileRecord;
use crate::quality::{Evidence, Quality, assess};
use crate::schema::Signal;
use crate::staging::Staging;
use crate::visible::{Visibility, visibility};
use crate::{ENV_FILE, INJECTION_FILE, K8S_FILE};

/// Why a pack was not built. Nothing of it was published.
#[derive(Debug)]
pub struct Refusal {
    pub problem: Problem,
    /// What was measured before it was refused, if it came that far.
    pub quality: Option<Box<Quality>>,
}

impl Refusal {
    /// The verdict of the run when the telemetry itself is to blame; nothing when a second try may succeed (a full disk)
    /// or the failure is ours.
    pub fn verdict(&self) -> Option<Verdict> {
        match (self.problem.kind, self.problem.code.as_ref()) {
            (ErrorKind::Failed, "datapack.empty_signal") => Some(Verdict::NoData),
            (ErrorKind::Failed, code) if code.starts_with("datapack.") => Some(Verdict::Invalid),
            _ => None,
        }
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self { problem, quality: None }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        refusal.problem
    }
}

/// Builds one pack.
pub struct Builder {
    packs: PathBuf,
    input: PackInput,
    name: String,
}

impl Builder {
    /// `packs` is the folder of published packs; building happens in a hidden folder inside it.
    ///
    /// # Errors
    /// `datapack.truth_missing` when faults were injected and no service is the root of them, `datapack.truth_service_twice`.
    pub fn new(packs: &Path, input: PackInput) -> Result<Self> {
        let rooted = input.truth.entries.iter().any(|entry| entry.role == Role::Root && !entry.service.is_empty());
        if rooted == input.faults.is_empty() {
            let message = "the ground truth does not belong to the faults";
            return Err(Problem::new(ErrorKind::Failed, "datapack.truth_missing", message)
                .found(format!("{} faults, {} truth entries", input.faults.len(), input.truth.entries.len()))
                .expected("a root service when there are faults, none for a control without faults"));
        }
        check_truth(&input.truth)?;
        let name = input.name();
        Ok(Self { packs: packs.to_path_buf(), input, name })
    }

    /// The neutral name under which the pack will be published.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Builds and checks the pack in a hidden folder. Uses several threads; blocks.
    ///
    /// # Errors
    /// `datapack.empty_signal`, `datapack.window_not_covered`, `datapack.too_few_root_spans`, `datapack.leak`, and what the
    /// batches themselves have wrong: `datapack.column_missing`, `datapack.column_type`, `datapack.null_value`,
    /// `datapack.row_outside_window`, `datapack.id_malformed`, `datapack.value_unknown`, `datapack.attributes_malformed`;
    /// besides those of the source and of the disk.
    pub fn build(self, source: &dyn Source) -> Result<Staged, Refusal> {
        let staging = Staging::begin(&self.packs)?;
        let root = staging.folder().join(&self.name);
        let (open, sealed) = (root.join(OPEN), root.join(SEALED));
        create_folder(&open)?;
        create_folder(&sealed)?;
        let lexicon = Lexicon::new(&self.input.forbidden);
        let exported = self.export(&open, source, &lexicon)?;
        let mut files = self.write_documents(&open)?;
        for window in Window::BOTH {
            let traces =
                exported.iter().find(|one| (one.0, one.1) == (window, Signal::Traces)).expect("always exported");
            files.push(trace_id_ts(&open, window, &traces.2.meter)?);
        }
        files.extend(exported.iter().map(|(_, _, exported)| exported.file.clone()));
        files.sort_by(|a, b| a.name.cmp(&b.name));

        let (tallies, meters): (Vec<_>, BTreeMap<_, _>) = exported
            .into_iter()
            .map(|(window, signal, one)| ((window, signal, one.tally), ((window.as_str(), signal), one.meter)))
            .unzip();
        let quality = self.assess(source, &meters)?;
        let mut leaks = leak::lint_documents(&open, &lexicon)?;
        leaks.extend(lexicon.judge(&tallies));
        if let Some(problem) = quality.problem().or_else(|| leak::problem(&leaks)) {
            return Err(Refusal { problem, quality: Some(Box::new(quality)) });
        }
        let visibility = visibility(&open, &self.input.windows, &self.input.truth)?;
        let manifest = self.seal(&root, files, quality, visibility)?;
        for folder in [&open, &sealed, &root] {
            sync_folder(folder)?;
        }
        Ok(Staged { staging, packs: self.packs, name: self.name, manifest })
    }

    /// The files that are read from the source, in parallel; the largest first.
    fn export(
        &self,
        open: &Path,
        source: &dyn Source,
        lexicon: &Lexicon,
    ) -> Result<Vec<(Window, Signal, Exported)>, Problem> {
        let jobs: Vec<(Window, Signal)> =
            Signal::SOURCED.into_iter().flat_map(|signal| Window::BOTH.map(|window| (window, signal))).collect();
        let export = |&(window, signal): &(Window, Signal)| {
            let bounds = self.input.windows.bounds(window);
            let exported = Export { folder: open, source, lexicon, window, signal, bounds }.run()?;
            Ok((window, signal, exported))
        };
        jobs.par_iter().with_max_len(1).map(export).collect()
    }

    /// `env.json`, `k8s.json`, and `injection.json` with the name only. Gives the records of the first two.
    fn write_documents(&self, open: &Path) -> Result<Vec<FileRecord>> {
        let windows = &self.input.windows;
        let seconds = |time: model::DataTime| time.seconds().to_string();
        let values = [
            self.input.slot.namespace(),
            "UTC".to_owned(),
            seconds(windows.normal_start),
            seconds(windows.abnormal_start),
            seconds(windows.abnormal_start),
            seconds(windows.abnormal_end),
        ];
        let env: serde_json::Map<String, Value> =
            ENV_KEYS.iter().zip(values).map(|(key, value)| ((*key).to_owned(), value.into())).collect();
        let env = format!("{:#}\n", Value::Object(env));
        let k8s = canonical(&Value::Object(self.input.k8s.clone()));
        let injection = canonical(&json!({ "name": self.name }));
        write_durably(&open.join(INJECTION_FILE), injection.as_bytes())?;
        let mut files = Vec::new();
        for (name, text) in [(ENV_FILE, env), (K8S_FILE, k8s)] {
            write_durably(&open.join(name), text.as_bytes())?;
            let (bytes, sha256) = (text.len() as u64, sha256(text.as_bytes()));
            files.push(FileRecord { name: name.to_owned(), rows: None, bytes, sha256 });
        }
        Ok(files)
    }

    fn assess(&self, source: &dyn Source, meters: &BTreeMap<(&'static str, Signal), Meter>) -> Result<Quality> {
        let mut hints = BTreeMap::new();
        for window in Window::BOTH {
            for signal in Signal::SOURCED {
                if meters[&(window.as_str(), signal)].rows == 0
                    && let Some(hint) = source.why_empty(window, signal)?
                {
                    hints.insert((window.as_str(), signal), hint);
                }
            }
        }
        let workloads: BTreeSet<String> = inventory::workloads(&self.input.k8s).into_iter().collect();
        let (windows, profile) = (&self.input.windows, &self.input.profile);
        Ok(assess(&Evidence { windows, profile, workloads: &workloads, meters, hints: &hints }))
    }

    /// Writes the sealed part and the checksums.
    fn seal(
        &self,
        root: &Path,
        files: Vec<FileRecord>,
        quality: Quality,
        visibility: Option<Visibility>,
    ) -> Result<Manifest> {
        let input = &self.input;
        let manifest = Manifest {
            format: FORMAT,
            content: Content {
                system: input.slot.system.clone(),
                slot: input.slot.number,
                namespace: input.slot.namespace(),
                windows: input.windows,
                profile: input.profile.clone(),
                files,
                quality,
            },
            provenance: Provenance {
                name: self.name.clone(),
                faults: input.faults.clone(),
                witness: input.witness.clone(),
                receipt: input.receipt.clone(),
                visibility,
                more: input.provenance.clone(),
            },
        };
        let mut injection = input.injection.clone();
        injection.insert("name".into(), self.name.clone().into());
        injection.insert("ground_truth".into(), public_ground_truth(&input.truth));
        let mut sums = Checksums::default();
        let documents =
            [(MANIFEST_FILE, text(&manifest)?), (INJECTION_FILE, text(&injection)?), (TRUTH_FILE, text(&input.truth)?)];
        for (name, text) in documents {
            let name = format!("{SEALED}/{name}");
            write_durably(&root.join(&name), text.as_bytes())?;
            sums.0.insert(name, sha256(text.as_bytes()));
        }
        for file in &manifest.content.files {
            sums.0.insert(format!("{OPEN}/{}", file.name), file.sha256.clone());
        }
        let name = format!("{OPEN}/{INJECTION_FILE}");
        sums.0.insert(name.clone(), digest(&root.join(name))?.1);
        write_durably(&root.join(SUMS_FILE), sums.to_string().as_bytes())?;
        Ok(manifest)
    }
}

fn text(value: &impl serde::Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| {
        Problem::internal("datapack.document_malformed", "a document of the pack is not JSON").cause(error)
    })?;
    text.push('\n');
    Ok(text)
}

/// A pack that is built and checked and that nobody sees yet. Dropped, it leaves nothing.
pub struct Staged {
    staging: Staging,
    packs: PathBuf,
    name: String,
    manifest: Manifest,
}

impl Staged {
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Makes the pack visible. A published pack of this name with the same open part, content and truth is a success, so
    /// that a repeated step ends as the first one did.
    ///
    /// # Errors
    /// `datapack.already_exists` when a pack of this name differs.
    pub fn publish(self) -> Result<Pack> {
        let place = self.packs.join(&self.name);
        if self.staging.publish(&self.name)? {
            return Pack::open(&place);
        }
        let (there, new) = (Pack::open(&place)?, Pack::open(&self.staging.folder().join(&self.name))?);
        let different = there.differences(&new);
        if different.is_empty() {
            return Ok(there);
        }
        let message = "another datapack of this name is published already";
        Err(Problem::new(ErrorKind::Conflict, "datapack.already_exists", message)
            .place(place.display().to_string())
            .found(format!("it differs in {}", different.join(", ")))
            .expected("the same content, or no pack of this name")
            .fix("remove that pack, or give this one another number"))
    }
}
