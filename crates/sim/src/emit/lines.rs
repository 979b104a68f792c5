//! Log lines as patterns: parsed once, chosen per request, filled in at export.

use system::{Level, LogLine, Logs, Moment, ServiceTelemetry};

use super::defaults;
use super::stack::Ends;
use crate::plan::ServicePlan;
use crate::rng::{Stream, join};

/// A value that a line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Var {
    Uuid,
    Uuid2,
    Id,
    Hex8,
    User,
    N,
    K,
    Count,
    Ms,
    Seconds,
    Status,
    Method,
    Path,
    Route,
    Operation,
    Peer,
    Error,
    Class,
    Date,
    Price,
    Nanos,
    Nanos3,
    Iso,
    Clf,
    SlashClock,
    Epoch,
    EpochS,
    EpochMs,
    Pod,
    Ip,
    Agent,
    RequestBytes,
    ResponseBytes,
    Product,
    Product4,
    Category,
    Lat,
    Lon,
    Trace,
    Span,
    Took,
}

const VARS: [(&str, Var); 41] = [
    ("uuid", Var::Uuid),
    ("uuid2", Var::Uuid2),
    ("id", Var::Id),
    ("hex8", Var::Hex8),
    ("user", Var::User),
    ("n", Var::N),
    ("k", Var::K),
    ("count", Var::Count),
    ("ms", Var::Ms),
    ("seconds", Var::Seconds),
    ("status", Var::Status),
    ("method", Var::Method),
    ("path", Var::Path),
    ("route", Var::Route),
    ("operation", Var::Operation),
    ("peer", Var::Peer),
    ("error", Var::Error),
    ("class", Var::Class),
    ("date", Var::Date),
    ("price", Var::Price),
    ("nanos", Var::Nanos),
    ("nanos3", Var::Nanos3),
    ("iso", Var::Iso),
    ("clf", Var::Clf),
    ("slash_clock", Var::SlashClock),
    ("epoch", Var::Epoch),
    ("epoch_s", Var::EpochS),
    ("epoch_ms", Var::EpochMs),
    ("pod", Var::Pod),
    ("ip", Var::Ip),
    ("agent", Var::Agent),
    ("request_bytes", Var::RequestBytes),
    ("response_bytes", Var::ResponseBytes),
    ("product", Var::Product),
    ("product4", Var::Product4),
    ("category", Var::Category),
    ("lat", Var::Lat),
    ("lon", Var::Lon),
    ("trace", Var::Trace),
    ("span", Var::Span),
    ("took", Var::Took),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Value(Var),
}

/// A line as it is written: level, text, and who writes it.
#[derive(Debug)]
pub struct Pattern {
    pub level: Level,
    pub pieces: Vec<Piece>,
    /// Class or module of the code that writes it.
    pub logger: String,
    /// An exception comes with it.
    pub throws: bool,
}

/// A line that may be written at a moment, with the share of the occasions on which it is. Lines of one group exclude
/// each other: one of them is chosen.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    pub pattern: u32,
    pub share: f64,
}

/// All patterns of a run.
#[derive(Debug, Default)]
pub struct Book {
    pub patterns: Vec<Pattern>,
}

/// A line of a stack's own, before it is parsed.
pub struct Draft {
    pub level: Level,
    pub text: String,
    pub logger: String,
    pub share: f64,
    pub throws: bool,
}

impl Book {
    /// Lines about a call: those of the system's data for the moment, or the usual ones of the stack.
    pub fn of_call(&mut self, ends: &Ends<'_>, moment: Moment) -> Vec<Choice> {
        let (service, profile) = match moment {
            Moment::CallFailed => (ends.from, ends.caller),
            _ => (ends.to, ends.callee),
        };
        if profile.logs == Logs::None {
            return Vec::new();
        }
        let mut given = profile.lines.iter().filter(|line| line.at == moment).peekable();
        if given.peek().is_some() {
            let fits =
                |line: &&LogLine| line.operation.as_ref().is_none_or(|operation| *operation == ends.operation.name);
            let logger = defaults::logger(service, profile.stack, ends);
            return given.filter(fits).map(|line| self.given(line, &logger)).collect();
        }
        let drafts = defaults::of_call(service, profile.stack, ends, moment);
        drafts.into_iter().map(|draft| self.add(draft)).collect()
    }

    /// Lines about a process.
    pub fn of_service(&mut self, service: &ServicePlan, profile: &ServiceTelemetry, moment: Moment) -> Vec<Choice> {
        if profile.logs == Logs::None {
            return Vec::new();
        }
        let given: Vec<&LogLine> = profile.lines.iter().filter(|line| line.at == moment).collect();
        if given.is_empty() {
            let drafts = defaults::of_process(service, profile.stack, moment);
            return drafts.into_iter().map(|draft| self.add(draft)).collect();
        }
        given.into_iter().map(|line| self.given(line, &service.name)).collect()
    }

    fn given(&mut self, line: &LogLine, logger: &str) -> Choice {
        let (text, logger) = (line.text.clone(), logger.to_owned());
        self.add(Draft { level: line.level, text, logger, share: line.share.unwrap_or(1.0), throws: false })
    }

    fn add(&mut self, draft: Draft) -> Choice {
        let Draft { level, text, logger, share, throws } = draft;
        self.patterns.push(Pattern { level, pieces: parse(&text), logger, throws });
        Choice { pattern: self.patterns.len() as u32 - 1, share }
    }
}

/// The lines of a moment that are written on this occasion.
pub fn chosen(choices: &[Choice], key: u64) -> impl Iterator<Item = u32> + '_ {
    let written = move |(at, choice): (usize, &Choice)| {
        let always = choice.share >= 1.0;
        (always || Stream::new(key, "line").at(at as u64).chance(choice.share)).then_some(choice.pattern)
    };
    choices.iter().enumerate().filter_map(written)
}

/// `{name}` becomes a value where the name is known; all else is text.
fn parse(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(open) = rest.find('{') {
        plain.push_str(&rest[..open]);
        let inside = &rest[open + 1..];
        let known = inside.find('}').and_then(|close| {
            VARS.iter().find(|(name, _)| *name == &inside[..close]).map(|&(_, var)| (var, &inside[close + 1..]))
        });
        match known {
            Some((var, after)) => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Value(var));
                rest = after;
            }
            None => {
                plain.push('{');
                rest = inside;
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    pieces
}

/// Catalogue numbers of the demo shops.
pub const PRODUCTS: [&str; 9] = [
    "OLJCESPC7Z",
    "66VCHSJNUP",
    "1YMWWN1N4O",
    "L9ECAV7KIM",
    "2ZYFJ3GM2N",
    "0PUK6V6EV0",
    "LS4PSXUNUM",
    "9SIQT8TOJO",
    "6E92ZMYYFZ",
];

pub const CATEGORIES: [&str; 6] = ["accessories", "clothing", "footwear", "telescopes", "travel", "kitchen"];

/// A value of a request that stays the same wherever the request shows it.
pub fn number(trace: u64, salt: u64) -> u64 {
    join(trace, 0x1065 ^ salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_values() {
        let text = |piece: &str| Piece::Text(piece.to_owned());
        assert_eq!(parse(r#"{"a":{k},"b":{}}"#), [text(r#"{"a":"#), Piece::Value(Var::K), text(r#","b":{}}"#)]);
        assert_eq!(parse("plain {what"), [text("plain {what")]);
        assert_eq!(parse("{uuid}{uuid2}"), [Piece::Value(Var::Uuid), Piece::Value(Var::Uuid2)]);
    }
}
