//! `winimg report`: regenerates a build's page from the records in its output folder.

use std::path::Path;

use crate::build_report;
use crate::cli;
use crate::page::REPORT;
use winimg_base::error::Result;

use super::{CommandContext, print};

pub fn run(args: &cli::ReportArgs, context: &CommandContext) -> Result<()> {
    let to = args
        .output
        .clone()
        .unwrap_or_else(|| args.folder.join(REPORT));
    build_report::write(&args.folder, &to, &context.recording)?;
    print(&format!("{}\n", to.display()))
}

/// Updates the page. Failure is only a warning, as the change that it shows has succeeded.
pub fn update_page(folder: &Path, context: &CommandContext) {
    if let Err(e) = build_report::write(folder, &folder.join(REPORT), &context.recording) {
        context
            .sink
            .warn(format!("cannot write the build's page: {e}"));
    }
}
