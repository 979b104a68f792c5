//! Spans that were handed over and are filled in again: most of making a span is asking for memory, and the next one needs as
//! much of it.

use telemetry::otlp::trace::Span;

/// Identifies a template within a run; [`NONE`] stands for a span that is no template's any more.
pub type Number = u32;
pub const NONE: Number = Number::MAX;

/// The spans of one scope on their way out, with the numbers of their templates.
#[derive(Default)]
pub struct Group {
    pub spans: Vec<Span>,
    pub templates: Vec<Number>,
}

#[derive(Default)]
pub struct Spares {
    /// Empty ones, by place of the scope.
    pub groups: Vec<Group>,
    /// Any spans.
    mixed: Vec<Span>,
    /// Spans that have the constant attributes of their template, by its number, while one pod is exported.
    kept: Vec<Vec<Span>>,
    /// The numbers of those that may have some.
    used: Vec<Number>,
}

impl Spares {
    /// A span, and whether it has the constant attributes of the template already.
    pub fn take(&mut self, template: Number) -> (Span, bool) {
        match self.kept.get_mut(template as usize).and_then(Vec::pop) {
            Some(span) => (span, true),
            None => (self.mixed.pop().unwrap_or_default(), false),
        }
    }

    pub fn give(&mut self, template: Number, span: Span) {
        if template == NONE {
            return self.mixed.push(span);
        }
        let at = template as usize;
        if self.kept.len() <= at {
            self.kept.resize_with(at + 1, Vec::new);
        }
        if self.kept[at].is_empty() {
            self.used.push(template);
        }
        self.kept[at].push(span);
    }

    /// One pod is done. Other pods have other templates, and what is kept stays as small as what is handed over at one time.
    pub fn mix(&mut self, most: usize) {
        for template in self.used.drain(..) {
            self.mixed.append(&mut self.kept[template as usize]);
        }
        self.mixed.truncate(most);
    }
}
