//! `winimg bundle`: recipe, lock and every input in one file.

use crate::cli;
use crate::error::Result;

use super::{Context, recipe};

pub fn run(args: &cli::Bundle, context: &Context) -> Result<()> {
    let _opened = recipe::open(&args.recipe, &args.lock, context)?;
    Ok(())
}
