//! Paths of Helm values: `global.image.tag`, `init[0].image`, `annotations.example\.org/x`, `annotations."example.org/x"`.

use std::fmt;

/// Helm's own bound for an index.
const HIGHEST_INDEX: usize = 65_536;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    Key(String),
    Index(usize),
}

/// A path in the syntax of Helm's `--set`: dots between keys, `[n]` for list elements, `\` before a character that is
/// meant as itself. Beyond that syntax, a key in double quotes is one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyPath(Vec<Segment>);

impl KeyPath {
    /// # Errors
    /// What is wrong with the text, in words.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut segments = Vec::new();
        let mut rest = text.chars().peekable();
        loop {
            segments.push(Segment::Key(key(&mut rest)?));
            while rest.next_if_eq(&'[').is_some() {
                segments.push(Segment::Index(index(&mut rest)?));
            }
            match rest.next() {
                None => return Ok(Self(segments)),
                Some('.') => {}
                Some(_) => return Err("a dot must stand after `]` or a closing quote"),
            }
        }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub(crate) fn of(segments: &[Segment]) -> Self {
        Self(segments.to_vec())
    }

    /// This path and one more key, for walking down a mapping.
    pub(crate) fn then(&self, key: &str) -> Self {
        let mut segments = self.0.clone();
        segments.push(Segment::Key(key.to_owned()));
        Self(segments)
    }

    pub(crate) fn join(&self, other: &Self) -> Self {
        Self([self.0.as_slice(), &other.0].concat())
    }

    pub(crate) fn root() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn key(rest: &mut Chars<'_>) -> Result<String, &'static str> {
    let mut name = String::new();
    if rest.next_if_eq(&'"').is_some() {
        loop {
            match rest.next() {
                None => return Err("a quote is not closed"),
                Some('"') => break,
                Some(c) => name.push(c),
            }
        }
    } else {
        while let Some(c) = rest.next_if(|c| !matches!(c, '.' | '[')) {
            match c {
                '\\' => name.push(rest.next().ok_or("nothing stands after the last `\\`")?),
                '"' => return Err("a quote stands inside of a key; write `\\\"`"),
                ']' => return Err("a `]` has no `[`"),
                _ => name.push(c),
            }
        }
    }
    if name.is_empty() { Err("a key is empty") } else { Ok(name) }
}

fn index(rest: &mut Chars<'_>) -> Result<usize, &'static str> {
    let mut digits = String::new();
    loop {
        match rest.next() {
            Some(']') => break,
            Some(c) if c.is_ascii_digit() => digits.push(c),
            Some(_) => return Err("an index is not a number"),
            None => return Err("a `[` is not closed"),
        }
    }
    match digits.parse() {
        Ok(number) if number <= HIGHEST_INDEX => Ok(number),
        Ok(_) => Err("an index is above 65536"),
        Err(_) => Err("an index is not a number"),
    }
}

impl fmt::Display for KeyPath {
    /// The one canonical spelling of the path; [`KeyPath::parse`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    if number > 0 {
                        f.write_str(".")?;
                    }
                    for c in key.chars() {
                        if matches!(c, '.' | '[' | ']' | '\\' | '"') {
                            f.write_str("\\")?;
                        }
                        write!(f, "{c}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_written_canonically() {
        let cases = [
            ("a.b", "a.b"),
            ("a.b[0].c", "a.b[0].c"),
            ("a[0][12]", "a[0][12]"),
            (r"a\.b.c", r"a\.b.c"),
            (r#"x."example.org/name".y"#, r"x.example\.org/name.y"),
            (r#""a[0]"[1]"#, r"a\[0\][1]"),
            (r"a\\b", r"a\\b"),
        ];
        for (text, canonical) in cases {
            let path = KeyPath::parse(text).unwrap();
            assert_eq!(path.to_string(), canonical);
            assert_eq!(KeyPath::parse(canonical).unwrap(), path);
        }
    }

    #[test]
    fn malformed_paths_are_refused() {
        for text in [
            "", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[-1]", "a[0]b", "a]", "\"a", r"a\", "[0]", "a[65537]",
            "a\"b",
        ] {
            assert!(KeyPath::parse(text).is_err(), "{text}");
        }
    }
}
