//! Looking at a chart before it is installed: fetched, compared with its digest, rendered, and judged.

use ::chart::{Archive, Scene, Severity, check, render};
use ::store::Version;
use api::chart::{ChartFinding, ChartReport, CheckState, RenderCheck, VerifyRequest};
use model::{Problem, Result, SystemCode};
use sha2::{Digest, Sha256};

use super::super::App;
use super::super::release::{leaves, newest, release};
use super::pedestal_versions;

/// Most rendered charts that are remembered: those of a few versions of each system.
const MOST_SEEN: usize = 64;

impl App {
    /// # Errors
    /// `system.unknown`, `version.unknown`, `system.layer_not_ready`. What is wrong with the chart is in the report.
    pub async fn verify_chart(&self, name: &str, request: &VerifyRequest) -> Result<ChartReport> {
        let stored = self.find_system(name).await?;
        let code = stored.code.as_str();
        let version = self.pedestal_version(code, request.version.as_deref()).await?;
        let Some(chart) = version.chart.clone() else { return Err(no_chart(code)) };
        let mut steps = Vec::new();
        let (problem, check) = match self.obtain(&chart).await {
            Ok(obtained) => {
                steps.push(obtained.words);
                let sight = Sight {
                    code: &stored.code,
                    version: &version,
                    bytes: &obtained.bytes,
                    archive: &obtained.archive,
                    slots: first_slots(self.slot_count(&stored).await?),
                };
                (None, self.look(&sight).await?)
            }
            Err(mut problem) => {
                problem.fix.get_or_insert_with(|| self.chart_fix(&stored, &chart));
                let reason = format!("the archive of {} {} is not at hand", chart.name, chart.version);
                (Some(told(&problem, Severity::Error)), not_checked(reason))
            }
        };
        let version = self.pedestal_version(code, Some(&version.name)).await?;
        let used = self.pedestal_version(code, None).await.is_ok_and(|used| used.id == version.id);
        let chart = self.chart_item(&version, used).ok_or_else(|| no_chart(code))?;
        Ok(ChartReport { system: code.to_owned(), chart, steps, problem, check })
    }

    /// What is found in what a version renders to whose archive is kept; nothing is fetched. `None` while none is kept.
    ///
    /// # Errors
    /// Those of the kept archive, and what composing finds.
    pub(in super::super) async fn look_at_kept(
        &self,
        stored: &::store::System,
        version: &Version,
    ) -> Result<Option<RenderCheck>> {
        let digest = version.chart.as_ref().and_then(|chart| chart.archive_digest.as_ref());
        let Some(digest) = digest else { return Ok(None) };
        let (bytes, archive) = self.read_kept(digest).await?;
        let slots = first_slots(self.slot_count(stored).await?);
        let sight = Sight { code: &stored.code, version, bytes: &bytes, archive: &archive, slots };
        let Some(key) = self.seen_key(&sight) else { return Ok(Some(self.look(&sight).await?)) };
        if let Some(known) = self.seen().lock().expect("no holder of this lock panics").get(&key) {
            return Ok(Some(known.clone()));
        }
        let check = self.look(&sight).await?;
        if check.state != CheckState::NotChecked {
            let mut seen = self.seen().lock().expect("no holder of this lock panics");
            if seen.len() >= MOST_SEEN {
                seen.clear();
            }
            seen.insert(key, check.clone());
        }
        Ok(Some(check))
    }

    /// What a rendered chart depends on: the same again gives the same, so that it need not be rendered. `None` where there is
    /// no program to ask.
    fn seen_key(&self, sight: &Sight<'_>) -> Option<String> {
        let helm = self.helm().ok()?;
        let about = std::fs::metadata(helm.program()).ok()?;
        // Mirror rules and platforms are those of this process.
        let all = format!(
            "{:?} {:?} {} {} {:?} {:?} {}",
            helm.program(),
            about.modified().ok()?,
            about.len(),
            sight.code,
            sight.slots,
            sight.version,
            sight.archive.digest
        );
        Some(hex::encode(Sha256::digest(all)))
    }

    /// A version of a pedestal by its name, or the one that runs install.
    pub(in super::super) async fn pedestal_version(&self, code: &str, name: Option<&str>) -> Result<Version> {
        let layers = self.store().layers(code).await?;
        let Some(name) = name else { return newest(&layers.database).cloned().ok_or_else(|| no_chart(code)) };
        let found = pedestal_versions(&layers.database).find(|version| version.name == name);
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = pedestal_versions(&layers.database).map(|version| version.name.as_str()).collect();
            Problem::unknown("version.unknown", "version of the pedestal", name, known)
        })
    }

    /// Renders an archive with a version's values and judges what came out. What keeps it from that is the reason why nothing
    /// was checked.
    ///
    /// # Errors
    /// What composing finds.
    pub(super) async fn look(&self, sight: &Sight<'_>) -> Result<RenderCheck> {
        let composed = release(sight.version, Some(&sight.archive.values), sight.slots)?;
        let helm = match self.helm() {
            Ok(helm) => helm,
            Err(problem) => return Ok(not_checked(problem.to_string())),
        };
        let program = match helm.version().await {
            Ok(version) => format!("{} {version}", helm.program().display()),
            Err(problem) => return Ok(not_checked(problem.to_string())),
        };
        let mut rendered = Vec::new();
        for &slot in sight.slots {
            let (values, _) = composed.values_for(slot)?;
            match render(&helm, sight.bytes, &values, &format!("{}{slot}", sight.code)).await {
                Ok(manifests) => rendered.push(manifests),
                // A chart that cannot be rendered was looked at: it cannot be installed either.
                Err(problem) if problem.code.starts_with("chart.") => {
                    let findings = vec![told(&problem, Severity::Error)];
                    let state = CheckState::Failed;
                    return Ok(RenderCheck { state, helm: Some(program), findings, ..not_checked(String::new()) });
                }
                Err(problem) => return Ok(not_checked(problem.to_string())),
            }
        }
        let (options, leaves) = (self.chart_options(), leaves(sight.version, &sight.archive.values, sight.slots[0])?);
        let manifests = rendered.first().map_or(&[][..], Vec::as_slice);
        let neighbour = rendered.get(1).map_or(&[][..], Vec::as_slice);
        let scene = Scene { manifests, neighbour, mirrors: &options.mirrors, platforms: &options.platforms };
        let checked = check(&scene);
        let state = match (checked.errors(), checked.findings.len()) {
            (0, 0) => CheckState::Ok,
            (0, _) => CheckState::Warnings,
            _ => CheckState::Failed,
        };
        let told = |finding: &::chart::Finding| {
            let mut told = with_origin(told(&finding.problem, finding.severity), &leaves);
            told.set = set_right(&told, &leaves).into_iter().collect();
            told
        };
        Ok(RenderCheck {
            state,
            reason: None,
            helm: Some(program),
            objects: i32::try_from(manifests.len()).unwrap_or(i32::MAX),
            findings: checked.findings.iter().map(told).collect(),
            skipped: checked.skipped.iter().map(|(code, reason)| format!("{code}: {reason}")).collect(),
        })
    }
}

/// What is looked at.
pub(super) struct Sight<'a> {
    pub code: &'a SystemCode,
    pub version: &'a Version,
    pub bytes: &'a [u8],
    pub archive: &'a Archive,
    /// One slot, or two where the system has as many.
    pub slots: &'a [u32],
}

/// The first slots of a pool, as many as are compared.
pub(super) fn first_slots(count: u32) -> &'static [u32] {
    if count > 1 { &[0, 1] } else { &[0] }
}

/// Says which values an image is made of, so that nobody has to search the chart for them.
fn with_origin(mut finding: ChartFinding, leaves: &[::seed::Leaf]) -> ChartFinding {
    const SHORTEST: usize = 4;
    const MOST: usize = 3;
    if !finding.code.starts_with("chart.image_") {
        return finding;
    }
    let image = finding.found.split('`').nth(1).unwrap_or_default();
    let repository = image.rsplit('/').next().unwrap_or_default().split([':', '@']).next().unwrap_or_default();
    let is_part = |text: &str| text.len() >= SHORTEST && image.contains(text) && text.contains(repository);
    let made_of = leaves.iter().filter(|leaf| !repository.is_empty() && leaf.value.as_str().is_some_and(is_part));
    let made_of: Vec<String> = made_of.take(MOST).map(|leaf| format!("`{}` ({})", leaf.path, leaf.origin)).collect();
    if let (false, Some(fix)) = (made_of.is_empty(), &mut finding.fix) {
        fix.push_str(&format!("; it stands in {}", made_of.join(", ")));
    }
    finding
}

/// The one value with which a finding would not be there, where it is plain which that is.
fn set_right(finding: &ChartFinding, leaves: &[::seed::Leaf]) -> Option<(String, String)> {
    let quoted = |text: &str| text.split('`').nth(1).map(str::to_owned);
    let texts = leaves.iter().filter_map(|leaf| Some((leaf.path.as_str(), leaf.value.as_str()?)));
    let found: Vec<(&str, String)> = match finding.code.as_str() {
        "chart.image_not_mirrored" => {
            let (image, mirrored) = (quoted(&finding.found)?, quoted(finding.expected.as_deref()?)?);
            let repository = image.rsplit('/').next()?.split([':', '@']).next()?.to_owned();
            // The whole reference, or what stands before a tag that is a value of its own.
            let begins = |text: &str| {
                let rest = image.strip_prefix(text).filter(|rest| rest.is_empty() || rest.starts_with([':', '@']))?;
                text.contains(&repository).then(|| mirrored.strip_suffix(rest).map(str::to_owned))?
            };
            texts.filter_map(|(path, text)| Some((path, begins(text)?))).collect()
        }
        "chart.load_balancer" => {
            texts.filter(|(_, text)| *text == "LoadBalancer").map(|(path, _)| (path, "ClusterIP".to_owned())).collect()
        }
        _ => return None,
    };
    match found.as_slice() {
        [(path, value)] => Some(((*path).to_owned(), value.clone())),
        _ => None,
    }
}

pub(super) fn not_checked(reason: String) -> RenderCheck {
    RenderCheck {
        state: CheckState::NotChecked,
        reason: Some(reason).filter(|reason| !reason.is_empty()),
        helm: None,
        objects: 0,
        findings: Vec::new(),
        skipped: Vec::new(),
    }
}

fn told(problem: &Problem, severity: Severity) -> ChartFinding {
    ChartFinding {
        code: problem.code.to_string(),
        severity: severity.as_str().to_owned(),
        message: problem.message.clone(),
        place: problem.place.clone().unwrap_or_default(),
        found: problem.found.clone().unwrap_or_default(),
        expected: problem.expected.clone(),
        fix: problem.fix.clone(),
        set: std::collections::BTreeMap::new(),
    }
}

pub(super) fn no_chart(code: &str) -> Problem {
    Problem::new(model::ErrorKind::Missing, "system.layer_not_ready", "the system has no chart to install")
        .place(format!("system {code}"))
        .fix("apply a seed that declares one")
}
