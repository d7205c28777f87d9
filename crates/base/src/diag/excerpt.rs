//! The line of a source that a complaint shows.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Origin, Snippet};

use crate::text::{self, Place};

/// Longer lines are not shown, bytes: what is wrong in them would be lost among the rest.
const LONGEST_LINE: usize = 2000;

/// The line in which a place begins, as it may be shown: a caret under twenty lines of script helps nobody.
pub(super) struct Excerpt<'p> {
    name: &'p str,
    line: usize,
    column: usize,
    /// The text of the line and the bytes of it to mark, if it may be shown.
    text: Option<(String, Range<usize>)>,
}

impl<'p> Excerpt<'p> {
    pub fn of(place: &'p Place) -> Self {
        let (line, column) = place.line_column();
        let all = place.line();
        let is_shown = place.source.is_quotable() && all.len() <= LONGEST_LINE;
        Self {
            name: &place.source.name,
            line,
            column,
            text: is_shown.then(|| {
                let text = &place.source.text[all.clone()];
                (text::masked(text), shown_span(text, &place.span, all.start))
            }),
        }
    }

    pub fn show<'e>(&'e self, group: Group<'e>, label: &'e str) -> Group<'e> {
        let Some((text, span)) = &self.text else {
            let origin = Origin::path(self.name).line(self.line);
            return group.element(origin.char_column(self.column));
        };
        let mark = AnnotationKind::Primary.span(span.clone());
        let mark = match label {
            "" => mark,
            label => mark.label(label),
        };
        let snippet = Snippet::source(text.as_str()).line_start(self.line);
        group.element(snippet.path(self.name).annotation(mark))
    }
}

/// The part of a span that is in a line which begins at `start`, in bytes of the line, from character to character.
fn shown_span(line: &str, span: &Range<usize>, start: usize) -> Range<usize> {
    let within = |offset: usize| {
        let mut at = offset.saturating_sub(start).min(line.len());
        while !line.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let from = within(span.start);
    from..within(span.end).max(from)
}
