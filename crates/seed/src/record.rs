//! Records of a seed: declared once, read strictly, and listed again leaf by leaf.
//!
//! [`record!`] turns a list of keys into a struct whose reader reports unknown keys, wrong types and missing keys with
//! their place, and goes on, so that one reading finds everything. The same list walks the values back out, so a key
//! that is declared cannot be read and then lost.

use std::ops::Deref;

use crate::yaml::{Kind, Node, Scalar};
use crate::{Finding, Findings, Spot};

/// A value and the place where the seed declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub at: Spot,
}

impl<T> Deref for Located<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// One scalar that a seed declares: where it stands in the document, what is written there, and in which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedLeaf {
    /// `containers[4].versions[0].name`.
    pub path: String,
    /// The source text without quotes.
    pub text: String,
    pub at: Spot,
}

/// Something that one node of the tree holds.
pub(crate) trait Read: Sized {
    /// `None` after it reported why.
    fn read(node: &Node, report: &mut Findings) -> Option<Self>;
    fn leaves(&self, path: &str, out: &mut Vec<SeedLeaf>);
}

/// Something that a key of a record holds: required, optional or a list.
pub(crate) trait Field: Sized {
    fn field(fields: &Fields<'_>, key: &'static str, report: &mut Findings) -> Option<Self>;
    fn walk(&self, path: String, out: &mut Vec<SeedLeaf>);
}

/// A type that is written as one scalar.
pub(crate) trait FromScalar: Sized {
    const EXPECTED: &'static str;
    fn from_scalar(scalar: &Scalar) -> Option<Self>;
    fn text(&self) -> String;
}

/// The entries of one mapping, after its keys were checked against the declared ones.
pub(crate) struct Fields<'a> {
    at: &'a Spot,
    entries: &'a [(crate::yaml::Key, Node)],
}

impl<'a> Fields<'a> {
    pub(crate) fn open(node: &'a Node, record: &str, known: &[&str], report: &mut Findings) -> Option<Self> {
        let Kind::Map(entries) = &node.kind else {
            report.push(wrong_type(node, record));
            return None;
        };
        for (key, _) in entries {
            if !known.contains(&key.text()) {
                report.push(unknown_key(key, record, known));
            }
        }
        Some(Self { at: &node.at, entries })
    }

    /// The value of a key; a key without a value counts as absent.
    fn get(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(name, _)| name.text() == key).map(|(_, node)| node).filter(|node| !node.is_null())
    }

    fn required(&self, key: &str, report: &mut Findings) -> Option<&'a Node> {
        let node = self.get(key);
        if node.is_none() {
            report.push(
                Finding::error("seed.missing_key", self.at, "a required key is missing")
                    .expected(format!("`{key}` with a value")),
            );
        }
        node
    }
}

fn unknown_key(key: &crate::yaml::Key, record: &str, known: &[&str]) -> Finding {
    let finding = Finding::error("seed.unknown_key", &key.at, format!("unknown key in {record}"))
        .found(format!("`{}`", key.text()));
    if key.text() == "password" {
        return finding.expected("no password in a seed").fix("remove it; passwords are set by `aegisctl auth`");
    }
    finding.expected(known.join(", ")).nearest(key.text(), known.iter().copied())
}

fn wrong_type(node: &Node, expected: &str) -> Finding {
    Finding::error("seed.wrong_type", &node.at, "a value has the wrong type").found(node.describe()).expected(expected)
}

impl<T: FromScalar> Read for Located<T> {
    fn read(node: &Node, report: &mut Findings) -> Option<Self> {
        let value = match &node.kind {
            Kind::Scalar(scalar) if !scalar.is_null() => T::from_scalar(scalar),
            _ => None,
        };
        if value.is_none() {
            report.push(wrong_type(node, T::EXPECTED));
        }
        Some(Self { value: value?, at: node.at.clone() })
    }

    fn leaves(&self, path: &str, out: &mut Vec<SeedLeaf>) {
        out.push(SeedLeaf { path: path.to_owned(), text: self.value.text(), at: self.at.clone() });
    }
}

impl<T: FromScalar> Field for Located<T> {
    fn field(fields: &Fields<'_>, key: &'static str, report: &mut Findings) -> Option<Self> {
        Self::read(fields.required(key, report)?, report)
    }

    fn walk(&self, path: String, out: &mut Vec<SeedLeaf>) {
        self.leaves(&path, out);
    }
}

impl<T: Read> Field for Option<T> {
    fn field(fields: &Fields<'_>, key: &'static str, report: &mut Findings) -> Option<Self> {
        match fields.get(key) {
            Some(node) => T::read(node, report).map(Some),
            None => Some(None),
        }
    }

    fn walk(&self, path: String, out: &mut Vec<SeedLeaf>) {
        if let Some(value) = self {
            value.leaves(&path, out);
        }
    }
}

impl<T: Read> Field for Vec<T> {
    fn field(fields: &Fields<'_>, key: &'static str, report: &mut Findings) -> Option<Self> {
        let Some(node) = fields.get(key) else { return Some(Vec::new()) };
        let Kind::List(items) = &node.kind else {
            report.push(wrong_type(node, "a list"));
            return None;
        };
        let read: Vec<Option<T>> = items.iter().map(|item| T::read(item, report)).collect();
        read.into_iter().collect()
    }

    fn walk(&self, path: String, out: &mut Vec<SeedLeaf>) {
        for (number, item) in self.iter().enumerate() {
            item.leaves(&format!("{path}[{number}]"), out);
        }
    }
}

impl FromScalar for String {
    const EXPECTED: &'static str = "a text";

    fn from_scalar(scalar: &Scalar) -> Option<Self> {
        Some(scalar.text.clone())
    }

    fn text(&self) -> String {
        self.clone()
    }
}

impl FromScalar for bool {
    const EXPECTED: &'static str = "`true` or `false`, without quotes";

    fn from_scalar(scalar: &Scalar) -> Option<Self> {
        match (scalar.plain, scalar.text.as_str()) {
            (true, "true") => Some(true),
            (true, "false") => Some(false),
            _ => None,
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl FromScalar for f64 {
    const EXPECTED: &'static str = "a number, without quotes";

    fn from_scalar(scalar: &Scalar) -> Option<Self> {
        let digits = scalar.text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
        if !scalar.plain || !digits {
            return None;
        }
        scalar.text.parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// Declares a record: `"key" => field: type`, where the type says whether the key is required.
///
/// `Located<T>` and records are required, `Option<_>` may be absent, an absent `Vec<_>` is empty.
macro_rules! record {
    ($(#[$meta:meta])* $label:literal $name:ident { $($(#[$doc:meta])* $key:literal => $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            pub at: $crate::Spot,
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::record::Read for $name {
            fn read(node: &$crate::yaml::Node, report: &mut $crate::Findings) -> Option<Self> {
                let fields = $crate::record::Fields::open(node, $label, &[$($key),*], report)?;
                $(let $field = <$type as $crate::record::Field>::field(&fields, $key, report);)*
                Some(Self { at: node.at.clone(), $($field: $field?,)* })
            }

            fn leaves(&self, path: &str, out: &mut Vec<$crate::SeedLeaf>) {
                let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
                $($crate::record::Field::walk(&self.$field, format!("{prefix}{}", $key), out);)*
            }
        }
    };
}

/// Declares an enumeration that a seed writes as a number; its name is accepted as well.
macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $code:literal $word:literal $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// The number that stands in a seed and on the wire.
            pub const fn code(self) -> i32 {
                match self { $(Self::$variant => $code,)* }
            }

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::record::FromScalar for $name {
            const EXPECTED: &'static str = concat!("one of" $(, " ", stringify!($code), " (", $word, ")")*);

            fn from_scalar(scalar: &$crate::yaml::Scalar) -> Option<Self> {
                match scalar.text.as_str() {
                    $(stringify!($code) | $word => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn text(&self) -> String {
                self.code().to_string()
            }
        }
    };
}

pub(crate) use {codes, record};
