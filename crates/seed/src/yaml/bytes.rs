//! From bytes to text: size, encoding, and what a tab does in front of a line.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Finding, Spot};

/// Largest file of a seed. The real ones have some 40 KiB.
pub(crate) const LARGEST: usize = 4 * 1024 * 1024;

/// The text of a file without its byte order mark.
pub(crate) fn text<'a>(file: &Arc<str>, content: &'a [u8]) -> Result<&'a str, Finding> {
    let whole = Spot::whole(file);
    if content.len() > LARGEST {
        return Err(too_large(&whole, content.len() as u64));
    }
    if content.starts_with(&[0xFF, 0xFE]) || content.starts_with(&[0xFE, 0xFF]) {
        return Err(Finding::error("yaml.not_utf8", &whole, "the file is not UTF-8")
            .found("UTF-16")
            .fix("save the file as UTF-8"));
    }
    if let Some(position) = content.iter().position(|byte| *byte == 0) {
        return Err(Finding::error("yaml.binary", &at_byte(file, content, position), "the file is binary")
            .found("a zero byte")
            .expected("YAML text"));
    }
    let content = content.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(content);
    let text = std::str::from_utf8(content).map_err(|error| {
        let position = error.valid_up_to();
        Finding::error("yaml.not_utf8", &at_byte(file, content, position), "the file is not UTF-8")
            .found(format!("byte 0x{:02x}", content[position]))
            .fix("save the file as UTF-8")
    })?;
    if text.trim().is_empty() { Err(empty(file)) } else { Ok(text) }
}

pub(crate) fn too_large(at: &Spot, size: u64) -> Finding {
    Finding::error("seed.file_too_large", at, "a file of the seed is too large")
        .found(format!("{size} bytes"))
        .expected(format!("at most {LARGEST} bytes"))
}

pub(super) fn empty(file: &str) -> Finding {
    Finding::error("yaml.empty", &Spot::whole(file), "the file is empty")
        .found("no value")
        .fix("fill it, or remove it; an empty map is written `{}`")
}

fn at_byte(file: &Arc<str>, content: &[u8], position: usize) -> Spot {
    let before = &content[..position];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    Spot::new(file, u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// Width of the leading white space of each line that has a tab in it, by line number.
pub(super) fn tab_indents(text: &str) -> HashMap<u32, u32> {
    let mut tabs = HashMap::new();
    for (line, number) in text.lines().zip(1u32..) {
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        if indent.contains('\t') {
            tabs.insert(number, u32::try_from(indent.len()).unwrap_or(u32::MAX));
        }
    }
    tabs
}
