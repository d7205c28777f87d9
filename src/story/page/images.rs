//! The film strip: the last screen large, the earlier ones small and in order; each links to its file.

use super::super::{Screen, Story};
use crate::page::{figure, shown};
use winimg_base::text::duration;

pub fn screens(story: &Story) -> String {
    let Some((last, earlier)) = story.screens.split_last() else {
        return String::new();
    };
    let mut out = format!("<div class=\"end\">\n{}</div>\n", one(story, last));
    let strip: String = earlier.iter().map(|screen| one(story, screen)).collect();
    if !strip.is_empty() {
        out += &format!(
            "<div class=\"strip\" tabindex=\"0\" role=\"group\" aria-label=\"Earlier screens\">\n{strip}</div>\n"
        );
    }
    out
}

fn one(story: &Story, screen: &Screen) -> String {
    let name = screen.file.rsplit('/').next().unwrap_or(&screen.file);
    let after = |seconds| format!("{} after power-on", duration(seconds));
    let caption = [
        Some(name.to_owned()),
        screen.stage.clone(),
        screen.after.map(after),
        screen.time.clone(),
    ];
    let caption: Vec<String> = caption.into_iter().flatten().map(|s| shown(&s)).collect();
    let alt = match &screen.stage {
        Some(stage) => format!("The machine's screen: {}", shown(stage)),
        None => "The machine's screen".into(),
    };
    let file = format!("{}{}", story.base, screen.file);
    figure(&file, screen.png.as_deref(), &alt, &caption.join(", "))
}
