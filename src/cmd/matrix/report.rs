//! `winimg matrix report`: the page over all variants, from the records in their output folders.

use std::path::{Path, PathBuf};

use crate::cli::{self, MatrixArgs};
use crate::matrix::{PAGE, Row, page};
use crate::story;
use winimg_base::error::Result;
use winimg_base::io;

use super::super::{Context, print};

pub fn run(args: &cli::MatrixReport, context: &Context) -> Result<()> {
    let matrix = super::matrix(&args.matrix.file, context)?;
    let names = matrix.variants.into_iter().map(|v| v.name.value);
    let names: Vec<String> = names.collect();
    write(&args.matrix, &names, context)?;
    print(&format!("{}\n", page_path(&args.matrix).display()))
}

pub fn page_path(args: &MatrixArgs) -> PathBuf {
    args.output.join(PAGE)
}

/// Writes the page after a variant has ended. A page that cannot be written is a warning.
pub fn keep_current(args: &MatrixArgs, names: &[String], context: &Context) {
    if let Err(e) = write(args, names, context) {
        let text = format!("the page of the matrix could not be written: {e}");
        context.sink.warn(text);
    }
}

fn write(args: &MatrixArgs, names: &[String], context: &Context) -> Result<()> {
    let row = |name: &String| {
        let folder = args.output.join(name);
        let story = story::of(&folder, &context.recording)?;
        Ok(Row {
            name: name.clone(),
            story,
        })
    };
    let rows: Result<Vec<Row>> = names.iter().map(row).collect();
    let rows = rows?;
    let path = page_path(args);
    let folder = io::folder_of(&path);
    std::fs::create_dir_all(folder)
        .map_err(|e| winimg_base::error::Error::io("make", folder, e))?;
    let called = Path::new(args.file.file_name().unwrap_or_default());
    let page = page(&called.display().to_string(), &rows);
    io::write_atomically(&path, page.html().as_bytes())
}
