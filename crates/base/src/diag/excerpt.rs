//! The line of a source shown in a diagnostic.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Origin, Snippet};

use crate::text::{self, Place};

/// Longest line that is quoted, in bytes; in a longer one the marked part would be hard to find.
const MAX_LINE_LENGTH: usize = 2000;

/// The first line of a span: underlining twenty lines of script would not help.
pub(super) struct Excerpt<'p> {
    name: &'p str,
    line: usize,
    column: usize,
    /// The text of the line and the bytes to mark, if it may be shown.
    text: Option<(String, Range<usize>)>,
}

impl<'p> Excerpt<'p> {
    pub fn from_place(place: &'p Place) -> Self {
        let (line, column) = place.line_column();
        let all = place.line_range();
        let is_shown = place.source.is_quotable() && all.len() <= MAX_LINE_LENGTH;
        Self {
            name: &place.source.name,
            line,
            column,
            text: is_shown.then(|| {
                let text = &place.source.text[all.clone()];
                (
                    text::mask_secrets(text),
                    shown_span(text, &place.span, all.start),
                )
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

/// Clamps a span to the line that starts at `start`, in bytes of the line, at character boundaries.
fn shown_span(line: &str, span: &Range<usize>, start: usize) -> Range<usize> {
    let from = floor_boundary(line, span.start.saturating_sub(start));
    from..floor_boundary(line, span.end.saturating_sub(start)).max(from)
}

/// Returns the last character boundary of `line` up to `offset`.
fn floor_boundary(line: &str, offset: usize) -> usize {
    let mut at = offset.min(line.len());
    while !line.is_char_boundary(at) {
        at -= 1;
    }
    at
}
