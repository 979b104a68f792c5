//! A board as Markdown.

use std::fmt::Write;

use super::{figure, funnel, views};
use crate::board::{EnvironmentBoard, Row, Slice, View};
use crate::case::Rule;
use crate::estimate::Estimate;
use crate::ranking::{Metric, Scores};

/// The metrics of the main table.
const MAIN: [Metric; 6] = [Metric::Ac1, Metric::Ac3, Metric::Ac5, Metric::Avg3, Metric::Avg5, Metric::Mrr];
/// The metrics for packs with several roots.
const SEVERAL: [Metric; 4] = [Metric::Precision3, Metric::Precision5, Metric::Recall3, Metric::Recall5];
/// Comparisons that are printed: the clearest ones.
const MOST_COMPARISONS: usize = 30;

/// The board with its funnel, all views and cuts, and its notes.
pub fn markdown(board: &EnvironmentBoard, rule: Rule) -> String {
    let mut page = Page(String::new());
    page.line(&format!("# Board: {} packs", board.environment.as_str()));
    page.line(&format!("Hit: `{}`. Onset known. Funnel: {}.", rule.as_str(), funnel(board)));
    page.detector(board);
    for (name, view) in views(board) {
        page.view(name, view);
    }
    page.cut("Families", &board.ranking.rows, |row| &row.by_family);
    page.cut("Systems", &board.ranking.rows, |row| &row.by_system);
    page.cut("Difficulty", &board.ranking.rows, |row| &row.by_difficulty);
    page.several(board);
    for level in &board.levels {
        page.line(&format!("## Level {} ({} packs)", level.level.as_str(), level.packs));
        page.table(
            &["algorithm", "AC@1", "AC@3", "AC@5", "Avg@5", "MRR"],
            level.rows.iter().map(|slice| {
                let scores = [Metric::Ac1, Metric::Ac3, Metric::Ac5, Metric::Avg5, Metric::Mrr];
                let figures = scores.into_iter().map(|metric| figure(slice.scores.get(metric)));
                std::iter::once(slice.name.clone()).chain(figures).collect()
            }),
        );
    }
    page.robustness(board);
    page.comparisons(board);
    page.flips(board);
    page.line("## Notes");
    for note in &board.notes {
        page.item(note);
    }
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        writeln!(self.0, "{text}\n").expect("text takes everything");
    }

    fn item(&mut self, text: &str) {
        writeln!(self.0, "- {text}").expect("text takes everything");
    }

    fn table(&mut self, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        // A name may hold the sign that parts the cells.
        let cells =
            |cells: &[String]| cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | ");
        writeln!(self.0, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len())).expect("text takes everything");
        for row in rows {
            writeln!(self.0, "| {} |", cells(&row)).expect("text takes everything");
        }
        self.0.push('\n');
    }

    fn detector(&mut self, board: &EnvironmentBoard) {
        if let Some(controls) = &board.controls {
            let mark = controls.false_alarms.note.as_deref().map(|note| format!(" ({note})")).unwrap_or_default();
            let alarms = figure(&Estimate { note: None, ..controls.false_alarms.clone() });
            self.line(&format!("Detector, false alarms on {} no-fault controls: {alarms}{mark}.", controls.packs));
        }
        if let Some(misses) = &board.misses {
            self.line(&format!("Detector, misses on {} packs with a fault: {}.", misses.packs, figure(&misses.missed)));
        }
    }

    fn view(&mut self, name: &str, view: &View) {
        self.line(&format!("## Row {name} ({} packs, {} clusters, {} cells)", view.packs, view.clusters, view.cells));
        let head = ["algorithm", "failed", "missing", "AC@1", "AC@3", "AC@5", "Avg@3", "Avg@5", "MRR", "s", "MiB"];
        let rows = view.rows.iter().map(|row| {
            let mut cells = vec![marked(row), row.failed.to_string(), row.missing.to_string()];
            cells.extend(MAIN.iter().map(|metric| figure(row.scores.get(*metric))));
            cells.push(row.seconds.map(|seconds| format!("{seconds:.3}")).unwrap_or_default());
            cells.push(row.peak_memory.map(|bytes| (bytes >> 20).to_string()).unwrap_or_default());
            cells
        });
        self.table(&head, rows.chain(std::iter::once(by_chance(&view.chance))));
    }

    fn cut(&mut self, title: &str, rows: &[Row], slices: impl Fn(&Row) -> &[Slice]) {
        let Some(first) = rows.first() else { return };
        self.line(&format!("## {title}, Avg@5"));
        let head: Vec<String> = slices(first).iter().map(|slice| format!("{} ({})", slice.name, slice.packs)).collect();
        let head: Vec<&str> = std::iter::once("algorithm").chain(head.iter().map(String::as_str)).collect();
        let cells = |row: &Row| {
            let figures = slices(row).iter().map(|slice| figure(slice.scores.get(Metric::Avg5)));
            std::iter::once(marked(row)).chain(figures).collect()
        };
        self.table(&head, rows.iter().map(cells));
    }

    fn several(&mut self, board: &EnvironmentBoard) {
        let of = |row: &Row| row.by_roots.iter().find(|slice| slice.name == "several roots").cloned();
        let rows: Vec<(&Row, Slice)> = board.ranking.rows.iter().filter_map(|row| Some((row, of(row)?))).collect();
        let Some((_, first)) = rows.first() else { return };
        self.line(&format!("## Several roots ({} packs)", first.packs));
        self.table(
            &["algorithm", "P@3", "P@5", "R@3", "R@5"],
            rows.iter().map(|(row, slice)| {
                let figures = SEVERAL.iter().map(|metric| figure(slice.scores.get(*metric)));
                std::iter::once(marked(row)).chain(figures).collect()
            }),
        );
    }

    fn robustness(&mut self, board: &EnvironmentBoard) {
        if board.robustness.is_empty() {
            return;
        }
        self.line("## Start of the fault as it is told, Avg@5");
        let told = |estimate: &Option<Estimate>| estimate.as_ref().map(figure).unwrap_or_default();
        self.table(
            &["algorithm", "known", "15 s early", "15 s late", "from the detector"],
            board.robustness.iter().map(|row| {
                vec![row.algorithm.clone(), figure(&row.known), told(&row.early), told(&row.late), told(&row.detected)]
            }),
        );
    }

    fn comparisons(&mut self, board: &EnvironmentBoard) {
        let mut list: Vec<_> = board.comparisons.iter().collect();
        if list.is_empty() {
            return;
        }
        list.sort_by(|a, b| a.p.total_cmp(&b.p).then(b.difference.abs().total_cmp(&a.difference.abs())));
        self.line(&format!(
            "## Comparisons, Avg@5 (the clearest {} of {})",
            list.len().min(MOST_COMPARISONS),
            board.comparisons.len()
        ));
        self.table(
            &["first", "second", "difference", "p", "p (Holm)", "win / tie / loss"],
            list.into_iter().take(MOST_COMPARISONS).map(|pair| {
                vec![
                    pair.first.clone(),
                    pair.second.clone(),
                    format!("{:+.3}", pair.difference),
                    format!("{:.4}", pair.p),
                    format!("{:.4}", pair.p_holm),
                    format!("{} / {} / {}", pair.win, pair.tie, pair.loss),
                ]
            }),
        );
    }

    fn flips(&mut self, board: &EnvironmentBoard) {
        if board.flips.is_empty() {
            return;
        }
        self.line("## Cases that flip between the two best");
        self.table(
            &["pack", "system", "family", "right", "wrong"],
            board.flips.iter().map(|flip| {
                [&flip.pack, &flip.system, &flip.family, &flip.right, &flip.wrong].map(String::clone).to_vec()
            }),
        );
    }
}

/// The name with what a reader has to know about it.
fn marked(row: &Row) -> String {
    let mut name = row.algorithm.clone();
    for (set, mark) in
        [(row.baseline, " (baseline)"), (row.in_house, " (in-house)"), (row.unconfined > 0, " (not isolated)")]
    {
        if set {
            name.push_str(mark);
        }
    }
    name
}

fn by_chance(chance: &Scores) -> Vec<String> {
    let mut cells = vec!["*by chance*".to_owned(), String::new(), String::new()];
    cells.extend(MAIN.iter().map(|metric| format!("{:.2}", chance.get(*metric))));
    cells.extend([String::new(), String::new()]);
    cells
}
