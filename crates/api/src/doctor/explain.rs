//! From what an operator reads somewhere to the checks that are about it.

use super::table::{ROWS, Row};

/// The checks that a text leads to, the nearest first; none when nothing known is in it.
///
/// A row's phrase is in the text when its parts (between `*`) are there in this order, whatever case and quotes they have. The
/// more letters of the text a row's phrases account for, the nearer it is.
pub fn explain(text: &str) -> Vec<&'static Row> {
    let text = plain(text);
    let weight = |row: &Row| row.says.iter().filter(|phrase| is_in(phrase, &text)).map(|phrase| phrase.len()).sum();
    let mut found: Vec<(usize, &Row)> = ROWS.iter().map(|row| (weight(row), row)).filter(|(n, _)| *n > 0).collect();
    found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    found.into_iter().map(|(_, row)| row).collect()
}

fn is_in(phrase: &str, text: &str) -> bool {
    let mut rest = text;
    plain(phrase).split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Lower case, without quotes, every white space one blank.
fn plain(text: &str) -> String {
    let text: String = text.to_lowercase().chars().filter(|c| !matches!(c, '`' | '"' | '\'' | '“' | '”')).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::doctor::table::Runs;

    /// What operators read, and the check that is about it.
    const SAID: &[(&str, &str)] = &[
        ("system missing from the guided flow", "systems.enabled"),
        (r#"500: system "ts0" does not match any registered namespace pattern"#, "systems.namespaces_match"),
        ("loaded 8 systems (0 enabled)", "settings.adopted"),
        ("already seeded, skipping", "store.seeded"),
        ("mismatched system type hotelreservation for pedestal hs", "systems.named_by_code"),
        (r#"runc exec: "": executable file not found in $PATH"#, "containers.commands_set"),
        ("container exists but has type pedestal, not benchmark", "containers.names_distinct"),
        ("failed to locate chart, local chart archive not found", "charts.archived"),
        ("repository not valid, no index.yaml", "charts.addressed"),
        ("missing registry client", "charts.addressed"),
        ("another operation in progress: pending-install", "charts.become_ready"),
        (r#"exec: "./frontend": no such file or directory"#, "charts.commands_found"),
        (r#"namespaces "ts3" not found"#, "systems.targets_known"),
        ("Back-off pulling image: ImagePullBackOff", "charts.images_mirrored"),
        ("datapack.no_anomaly", "telemetry.under_namespace"),
    ];

    #[test]
    fn every_literal_message_leads_to_its_check() {
        for (text, id) in SAID {
            let first = explain(text).first().map(|row| row.id);
            assert_eq!(first, Some(*id), "{text}");
        }
        assert!(explain("hello").is_empty());
    }

    /// The known failures as people describe them, number and words.
    #[test]
    fn every_known_failure_has_a_check_and_its_words_lead_there() {
        let listed = include_str!("symptoms.tsv").lines().map(|line| line.split_once('\t').expect("number and words"));
        let mut count = 0;
        for (number, words) in listed {
            let number: u8 = number.parse().unwrap();
            let checks: Vec<&Row> = ROWS.iter().filter(|row| row.symptoms.contains(&number)).collect();
            assert!(!checks.is_empty(), "no check is about {number}: {words}");
            let found = explain(words);
            assert!(found.first().is_some_and(|row| row.symptoms.contains(&number)), "{number} {words}: {:?}", {
                found.iter().map(|row| row.id).collect::<Vec<_>>()
            });
            count += 1;
        }
        assert_eq!(count, 46);
    }

    #[test]
    fn ids_are_unique_and_what_a_check_waits_for_stands_before_it() {
        let mut seen = HashSet::new();
        for row in ROWS {
            assert!(row.after.iter().all(|id| seen.contains(id)), "{}", row.id);
            assert!(seen.insert(row.id), "{} twice", row.id);
            assert!(row.id.split('.').count() == 2 && !row.why.is_empty(), "{}", row.id);
        }
        // What needs a cluster says so and nothing else does.
        let cluster = ROWS.iter().filter(|row| row.runs == Runs::OnKubernetes).map(|row| row.symptoms);
        assert_eq!(cluster.flatten().copied().collect::<Vec<u8>>(), [40, 43, 44]);
    }
}
