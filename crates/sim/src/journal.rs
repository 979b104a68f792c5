//! The append-only journal of effects: each effect once, whatever dies in between.
//!
//! An effect's entry is first part of its slot's state, written in one piece with the effect itself. The line in the
//! journal comes after it. Whoever takes the folder's lock next puts a missing line there before anything else, so at
//! most one can be missing, and a torn last line is cut off.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use cluster::JournalEntry;
use model::{DataTime, Problem};

use crate::state::{Folder, SlotState};

/// Every entry, oldest first, after repair.
///
/// # Errors
/// Those of the folder.
pub fn read(folder: &Folder) -> Result<Vec<JournalEntry>, Problem> {
    let _guard = folder.lock()?;
    repaired(folder)
}

/// Writes the state together with the effect that led to it, then the journal's line.
///
/// # Errors
/// Those of the folder. When the state was written, the effect has happened.
pub fn record(folder: &Folder, state: &mut SlotState, effect: &str, object: &str, at: DataTime) -> Result<(), Problem> {
    let _guard = folder.lock()?;
    let entries = repaired(folder)?;
    let entry = JournalEntry {
        number: entries.last().map_or(1, |entry| entry.number + 1),
        effect: effect.to_owned(),
        object: object.to_owned(),
        slot: state.slot.namespace(),
        fence: state.fence,
        at,
    };
    state.last_effect = Some(entry.clone());
    folder.write(state)?;
    append(folder, &entry)
}

/// The journal as it should be: a torn line cut off, the one missing line added.
fn repaired(folder: &Folder) -> Result<Vec<JournalEntry>, Problem> {
    let path = folder.journal_path();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(folder.unusable(error)),
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        let cut = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(whole as u64));
        cut.map_err(|error| folder.unusable(error))?;
    }
    let mut entries = Vec::new();
    for line in text[..whole].lines() {
        entries.push(serde_json::from_str::<JournalEntry>(line).map_err(|error| {
            Problem::internal("cluster.journal_damaged", "a line of the journal cannot be read")
                .place(path.display().to_string())
                .found(line.to_owned())
                .cause(error)
        })?);
    }
    let last = entries.last().map_or(0, |entry| entry.number);
    let missing =
        folder.read_all()?.into_iter().filter_map(|state| state.last_effect).find(|entry| entry.number > last);
    if let Some(entry) = missing {
        append(folder, &entry)?;
        entries.push(entry);
    }
    Ok(entries)
}

fn append(folder: &Folder, entry: &JournalEntry) -> Result<(), Problem> {
    let mut line = serde_json::to_string(entry)
        .map_err(|error| Problem::internal("cluster.journal_unwritable", "an entry has no JSON form").cause(error))?;
    line.push('\n');
    let written = (|| {
        let mut file = OpenOptions::new().create(true).append(true).open(folder.journal_path())?;
        file.write_all(line.as_bytes())?;
        file.sync_data()
    })();
    written.map_err(|error| folder.unusable(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Slot, SystemCode};

    #[test]
    fn a_line_that_is_missing_or_torn_is_put_right_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let mut state = SlotState::new(Slot::new(SystemCode::parse("ts").unwrap(), 0));
        for effect in ["one", "two"] {
            record(&folder, &mut state, effect, "object", DataTime(1)).unwrap();
        }
        // The process died after the state and before the line.
        let text = fs::read_to_string(folder.journal_path()).unwrap();
        let first = text.find('\n').unwrap() + 1;
        for kept in [first, first + 10] {
            fs::write(folder.journal_path(), &text[..kept]).unwrap();
            for _ in 0..2 {
                let effects: Vec<String> = read(&folder).unwrap().into_iter().map(|entry| entry.effect).collect();
                assert_eq!(effects, ["one", "two"]);
            }
            assert_eq!(fs::read_to_string(folder.journal_path()).unwrap(), text);
        }
    }
}
