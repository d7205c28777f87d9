//! `winimg report`: makes a build's page again from the records in its output folder.

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
