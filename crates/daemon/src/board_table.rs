//! A board as a table for people, where no `aegisctl` stands between.

use api::board::{Board, BoardRow, Figure};

/// The board with its funnel and notes, line by line. A view that counts the same packs as `ranking`, with the same figures, is
/// one line that says so.
pub fn lines(board: &Board) -> Vec<String> {
    let head = ["AC@1", "AC@3", "AC@5", "AVG@5", "MRR"].map(str::to_owned);
    let mut lines = vec![line("ROW", "ALGORITHM", "PACKS", "FAIL", &head)];
    let of = |view: &str| -> Vec<&BoardRow> { board.rows.iter().filter(|row| row.row == view).collect() };
    for view in &board.views {
        let rows = of(&view.row);
        if view.row != "ranking" && figures(&rows) == figures(&of("ranking")) {
            lines.push(format!("{:<13} as `ranking`: the same {} packs count", view.row, view.packs));
            continue;
        }
        for row in rows {
            let figures = [&row.ac1, &row.ac3, &row.ac5, &row.avg5, &row.mrr].map(Figure::to_string);
            lines.push(line(&row.row, &row.algorithm, &row.packs.to_string(), &row.failures.to_string(), &figures));
        }
        let chance = view.chance;
        let figures = [chance.ac1, chance.ac3, chance.ac5, chance.avg5, chance.mrr].map(|value| format!("{value:.2}"));
        lines.push(line(&view.row, "(chance)", &view.packs.to_string(), "", &figures));
    }
    let funnel = board.funnel;
    lines.push(format!(
        "injections with a fault: {} submitted, {} completed, {} exposed, {} valid, {} scored",
        funnel.submitted, funnel.completed, funnel.exposed, funnel.valid, funnel.scored
    ));
    let controls = &board.controls;
    lines.push(format!("controls without a fault: {}, false alarms: {}", controls.packs, controls.false_alarms));
    lines.extend(
        board.excluded.iter().map(|excluded| format!("not counted: {} packs, {}", excluded.packs, excluded.reason)),
    );
    lines.extend(board.notes.iter().map(|note| format!("note: {note}")));
    lines
}

fn line(row: &str, algorithm: &str, packs: &str, failed: &str, figures: &[String; 5]) -> String {
    let cells: String = figures.iter().map(|cell| format!("{cell:<20}")).collect();
    format!("{row:<13} {algorithm:<20} {packs:>5} {failed:>4}  {}", cells.trim_end())
}

fn figures<'a>(rows: &[&'a BoardRow]) -> Vec<(&'a str, i32, &'a Figure, &'a Figure)> {
    rows.iter().map(|row| (row.algorithm.as_str(), row.packs, &row.ac1, &row.mrr)).collect()
}
