//! `winimg doctor --hypervisor hyperv`: what a Windows host has of what Hyper-V builds need, a line each. Changes nothing.

use crate::cli;
use winimg_base::error::Result;
use winimg_machine::vm::Accel;
use winimg_machine::vm::hyperv::{HyperV, Need};

use super::{Context, end, reader};

pub fn run(args: &cli::Doctor, context: &Context) -> Result<()> {
    let mut text = String::new();
    let mut lacking = 0;
    let wish: Accel = args.accel.into();
    match HyperV::find().and_then(|found| found.examine(wish, &context.cancel)) {
        Ok(found) => {
            text += &format!("{}\n", found.host);
            for need in &found.needs {
                text += &match need {
                    Need::Has(what) => format!("{what}\n"),
                    Need::Lacks { what, cure } => {
                        lacking += 1;
                        format!("missing: {what}; {cure}\n")
                    }
                };
            }
            for remark in &found.remarks {
                text += &format!("  {remark}\n");
            }
        }
        Err(error) => {
            lacking += 1;
            text += &format!("Hyper-V: {error}\n");
        }
    }
    text += &reader();
    end(&text, lacking)
}
