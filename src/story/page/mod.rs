//! `report.html`: one page for a build, good or failed, without scripts and without a network.
//!
//! Pure. Everything that it shows may come from the guest or from a publisher: it is foreign text and is escaped; the page's own
//! policy forbids scripts as well. A new section is a function here and a line in `page`.

mod course;
mod failed;
mod images;
mod inputs;
mod machine;
mod made;
mod steps;

use std::fmt::Write as _;

use super::{State, Story};
use crate::page::{self, Page, Section, prose, second, sentence, shown};
use winimg_base::text::duration;

pub fn page(story: &Story) -> Page {
    let sections = [
        ("causes", "Likely causes", failed::causes(story)),
        ("what", "What failed", failed::what(story)),
        ("artifacts", "What came out", made::artifacts(story)),
        ("next", "What to do next", made::next(story)),
        ("again", "Run it again", failed::again(story)),
        ("findings", "Findings", made::findings(story)),
        ("timeline", "How it went", course::timeline(story)),
        ("screens", "Screens", images::screens(story)),
        ("windows", "What Windows says", failed::windows(story)),
        ("output", "The step's output", failed::output(story)),
        ("components", "Components", inputs::components(story)),
        ("steps", "Steps", steps::steps(story)),
        ("usage", "Disk usage", machine::usage(story)),
        ("warnings", "Warnings", course::warnings(story)),
        ("cache", "Cache", course::cache(story)),
        ("machine", "Machine and versions", machine::machine(story)),
        ("files", "Files", machine::files(story)),
    ];
    let sections = sections.map(|(id, title, body)| Section { id, title, body });
    let headline = headline(story);
    let head = format!(
        "<p class=\"build\">{}</p>\n<h1 class=\"{}\">{}</h1>\n{}",
        build(story),
        class(&story.state),
        prose(&headline),
        lead(story)
    );
    let title = format!("{}: {headline}", story.recipe);
    Page::new(title, head, sections)
}

fn class(state: &State) -> &'static str {
    match state {
        State::Built => "good",
        State::Failed(_) => "bad",
        State::Open | State::Interrupted => "unknown",
    }
}

/// The outcome in one sentence without a full stop; of a failed step with its name.
fn headline(story: &Story) -> String {
    match &story.state {
        State::Built => format!("{} is built", story.recipe),
        State::Interrupted => format!("the build of {} was interrupted", story.recipe),
        State::Open => format!("the build of {} has not ended", story.recipe),
        State::Failed(problem) => match &story.failure {
            Some(failure) => {
                let fact = &failure.error.fact;
                match &failure.failed_step {
                    Some(step) => format!("{}: {fact}", sentence(step).trim_end_matches('.')),
                    None => fact.clone(),
                }
            }
            None => problem.message.clone(),
        },
    }
}

/// Which build it was, where it stood, and when.
fn build(story: &Story) -> String {
    let mut text = format!("Build of {}", shown(&story.recipe));
    if story.state != State::Built {
        if let Some(phase) = story.course.phase {
            let _ = write!(text, ", in the phase {phase}");
        }
        let step = story.failure.as_ref().and_then(|f| f.step.as_ref());
        if let Some((number, name)) = step {
            let _ = write!(text, ", at step {number}, {}", shown(name));
        }
    }
    if let Some(time) = story.course.last {
        let _ = write!(text, ". {}", second(time));
    }
    let seconds = story.course.seconds();
    if seconds > 0.0 {
        let _ = write!(text, ", after {}", duration(seconds));
    }
    text
}

/// What follows from the outcome, in a sentence or two.
fn lead(story: &Story) -> String {
    let next = story.failure.as_ref().map_or("", |f| f.next.as_str());
    let text = match &story.state {
        State::Built => made::in_short(story),
        State::Failed(_) if !next.is_empty() => sentence(next),
        State::Failed(_) => return String::new(),
        State::Interrupted => "Nothing of it is left but its layers and this page.".into(),
        State::Open => {
            "It runs still, or its process was killed: no record says how it ended.".into()
        }
    };
    format!("<p class=\"next\">{}</p>\n", prose(&text))
}

impl Story {
    /// A link to a file of the output folder.
    fn linked(&self, file: &str) -> String {
        let to = page::link(&format!("{}{file}", self.base));
        format!("<a href=\"{to}\">{}</a>", shown(file))
    }
}
