//! A board as one picture: intervals, a heat map of algorithms by families, and the cases that flip.

use std::fmt::Write;

use super::funnel;
use crate::board::{EnvironmentBoard, Row};
use crate::case::Rule;
use crate::ranking::Metric;

/// Widths and heights in pixels.
const NAMES: f64 = 220.0;
const PLOT: f64 = 520.0;
const LINE: f64 = 22.0;
const HEAD: f64 = 46.0;
const EDGE: f64 = 16.0;
/// Cases that flip which are drawn; how many there are is said.
const MOST_FLIPS: usize = 40;

/// The row `ranking` of a board.
pub fn svg(board: &EnvironmentBoard, rule: Rule) -> String {
    let mut picture = Picture { body: String::new(), y: EDGE };
    let title = format!("{} packs, hit = {}, onset known", board.environment.as_str(), rule.as_str());
    picture.heading(&title, &funnel(board));
    picture.intervals(&board.ranking.rows, Metric::Ac1, board.ranking.chance.get(Metric::Ac1));
    picture.intervals(&board.ranking.rows, Metric::Avg5, board.ranking.chance.get(Metric::Avg5));
    picture.heat(&board.ranking.rows);
    picture.flips(board);
    let (width, height) = (NAMES + PLOT + 2.0 * EDGE, picture.y + EDGE);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
        picture.body
    )
}

struct Picture {
    body: String,
    /// Where the next part begins.
    y: f64,
}

impl Picture {
    fn put(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    fn text(&mut self, x: f64, y: f64, attributes: &str, text: &str) {
        let mut element = String::new();
        write!(element, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>", escaped(text))
            .expect("text takes everything");
        self.put(&element);
    }

    fn heading(&mut self, title: &str, below: &str) {
        self.text(EDGE, self.y + 16.0, "font-size=\"16\" font-weight=\"bold\"", title);
        self.text(EDGE, self.y + 34.0, "fill=\"#555555\"", below);
        self.y += 50.0;
    }

    /// Each algorithm's value with its 95 % interval; the broken line is chance.
    fn intervals(&mut self, rows: &[Row], metric: Metric, chance: f64) {
        self.text(EDGE, self.y + 16.0, "font-weight=\"bold\"", &format!("{} with 95 % intervals", metric.as_str()));
        let (left, top) = (EDGE + NAMES, self.y + HEAD);
        let bottom = top + rows.len() as f64 * LINE;
        for tenth in (0..=10).step_by(2) {
            let x = left + PLOT * f64::from(tenth) / 10.0;
            self.put(&format!(
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#dddddd\"/>",
                top - 6.0
            ));
            let label = format!("{:.1}", f64::from(tenth) / 10.0);
            self.text(x, top - 10.0, "text-anchor=\"middle\" fill=\"#555555\"", &label);
        }
        let x = left + PLOT * chance;
        self.put(&format!(
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#888888\" stroke-dasharray=\"4 3\">\
             <title>chance {chance:.3}</title></line>",
            top - 6.0
        ));
        for (row, number) in rows.iter().zip(0..) {
            let y = top + (f64::from(number) + 0.5) * LINE;
            let estimate = row.scores.get(metric);
            let colour = colour_of(row);
            self.text(left - 8.0, y + 4.0, "text-anchor=\"end\"", &row.algorithm);
            if row.not_run() {
                self.text(left, y + 4.0, "fill=\"#555555\"", "not run");
                continue;
            }
            if let (Some(low), Some(high)) = (estimate.low, estimate.high) {
                self.put(&format!(
                    "<line x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"2\">\
                     <title>{low:.3} to {high:.3}</title></line>",
                    left + PLOT * low,
                    left + PLOT * high
                ));
            }
            self.put(&format!(
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"><title>{:.3}, {} packs</title></circle>",
                left + PLOT * estimate.value,
                estimate.value,
                row.packs
            ));
        }
        self.y = bottom + LINE;
    }

    /// Avg@5 of each algorithm in each family.
    fn heat(&mut self, rows: &[Row]) {
        let Some(first) = rows.first() else { return };
        self.text(EDGE, self.y + 16.0, "font-weight=\"bold\"", "Avg@5 by fault family");
        let (left, top) = (EDGE + NAMES, self.y + HEAD);
        let width = PLOT / first.by_family.len().max(1) as f64;
        for (slice, number) in first.by_family.iter().zip(0..) {
            let x = left + (f64::from(number) + 0.5) * width;
            let label = format!("{} ({})", slice.name, slice.packs);
            self.text(x, top - 10.0, "text-anchor=\"middle\" font-size=\"10\" fill=\"#555555\"", &label);
        }
        for (row, line) in rows.iter().zip(0..) {
            let y = top + f64::from(line) * LINE;
            self.text(left - 8.0, y + 15.0, "text-anchor=\"end\"", &row.algorithm);
            if row.not_run() {
                self.text(left, y + 15.0, "fill=\"#555555\"", "not run");
                continue;
            }
            for (slice, number) in row.by_family.iter().zip(0..) {
                let value = slice.scores.avg5.value;
                let x = left + f64::from(number) * width;
                self.put(&format!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                    width - 1.0,
                    LINE - 1.0,
                    shade(value)
                ));
                let ink = if value > 0.6 { "#ffffff" } else { "#222222" };
                let attributes = format!("text-anchor=\"middle\" font-size=\"11\" fill=\"{ink}\"");
                self.text(x + width / 2.0, y + 15.0, &attributes, &format!("{value:.2}"));
            }
        }
        self.y = top + rows.len() as f64 * LINE + LINE;
    }

    fn flips(&mut self, board: &EnvironmentBoard) {
        let Some(first) = board.flips.first() else { return };
        let title = format!(
            "Cases that flip between {} and {}: {}{}",
            first.right.as_str().min(&first.wrong),
            first.right.as_str().max(&first.wrong),
            board.flips.len(),
            if board.flips.len() > MOST_FLIPS { ", the first are shown" } else { "" }
        );
        self.text(EDGE, self.y + 16.0, "font-weight=\"bold\"", &title);
        self.y += 24.0;
        for flip in board.flips.iter().take(MOST_FLIPS) {
            let y = self.y + 14.0;
            self.text(EDGE, y, "", &format!("{} ({}, {})", flip.pack, flip.system, flip.family));
            self.text(EDGE + NAMES + 60.0, y, "fill=\"#1b7837\"", &format!("{} right", flip.right));
            self.text(EDGE + NAMES + 300.0, y, "fill=\"#b2182b\"", &format!("{} wrong", flip.wrong));
            self.y += LINE;
        }
    }
}

/// Baselines are grey, methods of this project's own stand out.
const fn colour_of(row: &Row) -> &'static str {
    match (row.baseline, row.in_house) {
        (true, _) => "#888888",
        (_, true) => "#b35806",
        _ => "#2166ac",
    }
}

/// White at 0, dark blue at 1.
fn shade(value: f64) -> String {
    let part = |from: f64, to: f64| (from + (to - from) * value.clamp(0.0, 1.0)).round();
    format!("rgb({},{},{})", part(247.0, 8.0), part(251.0, 48.0), part(255.0, 107.0))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
