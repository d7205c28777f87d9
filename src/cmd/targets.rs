//! `winimg targets`: lists the targets in the current folder, in `WINIMG_RECIPES` and built into
//! winimg.

use serde_json::json;

use super::{CommandContext, print, print_json, target_specs};
use crate::cli;
use winimg_base::error::Result;
use winimg_recipe::target;

pub fn run(args: &cli::TargetsArgs, context: &CommandContext) -> Result<()> {
    let targets = target_specs::read_targets(context)?;
    match &args.name {
        None if args.json => print_json(&json!({ "schema": 1, "targets": targets })),
        None => print(&target::list(&targets)),
        Some(name) => {
            let one = target_specs::find_target(name, &targets)?;
            if args.json {
                print_json(&json!({ "schema": 1, "target": one }))
            } else {
                print(&target::render_target(one))
            }
        }
    }
}
