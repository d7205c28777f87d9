//! `winimg report`: makes a build's page again from the records in its output folder.

use std::path::Path;

use crate::cli;
use crate::page::REPORT;
use crate::story;
use winimg_base::error::Result;

use super::{Context, print};

pub fn run(args: &cli::Report, context: &Context) -> Result<()> {
    let to = args.output.clone();
    let to = to.unwrap_or_else(|| args.folder.join(REPORT));
    story::write(&args.folder, &to, &context.recording)?;
    print(&format!("{}\n", to.display()))
}

/// Writes the page after what it shows has changed. What changed it was done, so that a page which cannot be written is a warning.
pub fn keep_current(folder: &Path, context: &Context) {
    if let Err(e) = story::write(folder, &folder.join(REPORT), &context.recording) {
        let text = format!("the build's page could not be written: {e}");
        context.sink.warn(text);
    }
}
