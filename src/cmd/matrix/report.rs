//! `winimg matrix report`: writes a page about all variants from the records in their output
//! folders.

use std::path::{Path, PathBuf};

use crate::build_report;
use crate::cli::{self, MatrixArgs};
use crate::matrix::{MatrixRow, PAGE, render_page};
use winimg_base::error::Result;
use winimg_base::io;

use super::super::{CommandContext, print};

pub fn run(args: &cli::MatrixReportArgs, context: &CommandContext) -> Result<()> {
    let matrix = super::read_matrix(&args.matrix.file, context)?;
    let names: Vec<String> = matrix.variants.into_iter().map(|v| v.name.value).collect();
    write(&args.matrix, &names, context)?;
    print(&format!("{}\n", page_path(&args.matrix).display()))
}

pub fn page_path(args: &MatrixArgs) -> PathBuf {
    args.output.join(PAGE)
}

/// Updates the page after a variant has ended. Failure is only a warning.
pub fn update_page(args: &MatrixArgs, names: &[String], context: &CommandContext) {
    if let Err(e) = write(args, names, context) {
        context
            .sink
            .warn(format!("cannot write the matrix page: {e}"));
    }
}

fn write(args: &MatrixArgs, names: &[String], context: &CommandContext) -> Result<()> {
    let mut rows = Vec::new();
    for name in names {
        rows.push(MatrixRow {
            name: name.clone(),
            story: build_report::read_if_exists(&args.output.join(name), &context.recording)?,
        });
    }
    let path = page_path(args);
    let folder = io::folder_of(&path);
    std::fs::create_dir_all(folder)
        .map_err(|e| winimg_base::error::Error::io("create", folder, e))?;
    let called = Path::new(args.file.file_name().unwrap_or_default());
    let page = render_page(&called.display().to_string(), &rows);
    io::write_atomically(&path, page.render().as_bytes())
}
