//! The append-only journal of effects: each effect once, whatever dies in between.
//!
//! An effect's entry is first part of its slot's state, written in one piece with the effect itself. The line in the
//! journal comes after it. Whoever takes the folder's lock next puts a missing line there before anything else, so at
//! most one can be missing, and a torn last line is cut off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

use cluster::JournalEntry;
use model::{DataTime, Problem};

use crate::state::{Folder, SlotState};

/// Longer than any entry.
const TAIL: u64 = 64 * 1024;

/// Every entry, oldest first, after repair.
///
/// # Errors
/// Those of the folder.
pub fn read(folder: &Folder) -> Result<Vec<JournalEntry>, Problem> {
    let _guard = folder.lock()?;
    repair(folder)?;
    let path = folder.journal_path();
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).map_err(|error| folder.unusable(error))?;
    text.lines().map(|line| parse(folder, line)).collect()
}

/// Completes the file after a death in the middle of a write.
///
/// # Errors
/// Those of the folder.
pub fn mend(folder: &Folder) -> Result<(), Problem> {
    let _guard = folder.lock()?;
    repair(folder).map(drop)
}

/// Writes the state together with the effect that led to it, then the journal's line.
///
/// # Errors
/// Those of the folder. When the state was written, the effect has happened.
pub fn record(folder: &Folder, state: &mut SlotState, effect: &str, object: &str, at: DataTime) -> Result<(), Problem> {
    let _guard = folder.lock()?;
    let entry = JournalEntry {
        number: repair(folder)? + 1,
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

/// Cuts off a torn line and adds the one that may be missing; the number of the last entry.
fn repair(folder: &Folder) -> Result<u64, Problem> {
    let mut last = match OpenOptions::new().read(true).write(true).open(folder.journal_path()) {
        Ok(file) => {
            let line = last_line(file).map_err(|error| folder.unusable(error))?;
            if line.is_empty() { 0 } else { parse(folder, &line)?.number }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(folder.unusable(error)),
    };
    let effects = folder.read_all()?.into_iter().filter_map(|state| state.last_effect);
    if let Some(missing) = effects.into_iter().find(|entry| entry.number > last) {
        append(folder, &missing)?;
        last = missing.number;
    }
    Ok(last)
}

/// The last whole line; what follows it is cut off. Reads no more than the end of the file.
fn last_line(mut file: File) -> io::Result<String> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    if whole < tail.len() {
        file.set_len(from + whole as u64)?;
    }
    let text = String::from_utf8_lossy(&tail[..whole]);
    Ok(text.lines().last().unwrap_or_default().to_owned())
}

fn parse(folder: &Folder, line: &str) -> Result<JournalEntry, Problem> {
    serde_json::from_str(line).map_err(|error| {
        Problem::internal("cluster.journal_damaged", "a line of the journal cannot be read")
            .place(folder.journal_path().display().to_string())
            .found(line.to_owned())
            .expected("the JSON that this program writes")
            .fix("restore the file from a backup, or take this line out of it")
            .cause(error)
    })
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
