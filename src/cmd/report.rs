//! `winimg report`: regenerates a build's page from the records in its output folder.

use crate::build_report::{self, REPORT};
use crate::cli;
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
