//! `aegis demo`: a whole benchmark round by one command, and what it leaves behind.

use std::collections::BTreeSet;

use testkit::process::Site;

use crate::round::{seeds, text};
use crate::world;

/// What the demo asks for, and the five trivial baselines.
const ALGORITHMS: [&str; 7] = ["baro", "nsigma", "constant", "loudest-metric", "max-change", "most-frequent", "random"];

#[test]
fn the_demo_prints_a_board_and_leaves_a_folder_that_can_be_served() {
    let site = Site::new();
    let (seeds, data) = (seeds(), site.data());
    let ran = site.aegis(&["demo", "--seeds", seeds.to_str().unwrap(), "--data", data.to_str().unwrap()]).ok();
    println!("{}", ran.out);
    for algorithm in ALGORITHMS {
        let shown = ran.out.lines().any(|line| line.contains("ranking") && line.contains(algorithm));
        assert!(shown, "no line of {algorithm} on the board:\n{}", ran.out);
    }

    let _daemon = site.serve(&[]);
    let board = site.ctl(&["board"]).ok().json();
    let rows = board["rows"].as_array().unwrap();
    let ranking: Vec<_> = rows.iter().filter(|row| row["row"] == "ranking").collect();
    let names: BTreeSet<String> = ranking.iter().map(|row| text(&row["algorithm"])).collect();
    assert_eq!(names, ALGORITHMS.map(str::to_owned).into());
    for row in ranking {
        assert!(row["packs"].as_i64() >= Some(6) && row["failures"] == 0, "{row:#}");
        assert_eq!(row["ac1"]["interval"], "exact", "few packs get an exact interval: {row:#}");
        assert_eq!(row["mrr"]["interval"], "n too small", "{row:#}");
        assert_eq!(
            (&row["missing"], &row["baseline"]),
            (&0.into(), &(!ALGORITHMS[..2].contains(&text(&row["algorithm"]).as_str())).into())
        );
    }
    assert_eq!((&board["controls"]["packs"], &board["controls"]["false_alarms"]), (&1.into(), &0.into()));
    let runs = site.ctl(&["run", "list", "--all"]).ok().json();
    let runs = runs["items"].as_array().unwrap();
    let kinds: BTreeSet<String> = runs.iter().map(|run| text(&run["fault_type"])).collect();
    let sown: BTreeSet<u64> = runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert!(kinds.len() >= 7 && sown.len() == runs.len(), "{kinds:?} with seeds {sown:?}");
    world::until_clean(&site);
}
