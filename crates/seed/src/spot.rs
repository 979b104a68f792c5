//! Where something stands in a file.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// File, line and column; line and column count from 1, columns in characters. Line 0 means the whole file.
///
/// Written as `data.yaml:12:5`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Spot {
    file: Arc<str>,
    line: u32,
    column: u32,
}

impl Spot {
    pub(crate) fn new(file: &Arc<str>, line: u32, column: u32) -> Self {
        Self { file: Arc::clone(file), line, column }
    }

    /// The file as a whole.
    pub fn whole(file: &str) -> Self {
        Self { file: Arc::from(file), line: 0, column: 0 }
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    pub fn line(&self) -> u32 {
        self.line
    }

    pub fn column(&self) -> u32 {
        self.column
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}:{}", self.file, self.column),
        }
    }
}

impl From<Spot> for String {
    fn from(spot: Spot) -> Self {
        spot.to_string()
    }
}

impl From<String> for Spot {
    /// A text without two numbers at its end is the name of a file.
    fn from(text: String) -> Self {
        let mut parts = text.rsplitn(3, ':');
        let column = parts.next().and_then(|part| part.parse().ok());
        let line = parts.next().and_then(|part| part.parse().ok());
        match (parts.next(), line, column) {
            (Some(file), Some(line), Some(column)) => Self { file: Arc::from(file), line, column },
            _ => Self::whole(&text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_survives_its_text_form() {
        for text in ["data.yaml:12:5", "C:/seeds/data.yaml:1:1", "ts.yaml", "odd:name"] {
            assert_eq!(Spot::from(text.to_owned()).to_string(), text);
        }
        assert_eq!(Spot::from("a:b:3:4".to_owned()), Spot::new(&Arc::from("a:b"), 3, 4));
    }
}
