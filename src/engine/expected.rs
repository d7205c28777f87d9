//! Resolves the plan's expectations about the finished disk to digests of fetched inputs.
//!
//! Reads no file: all were hashed when they were admitted.

use super::BuildInputs;
use super::payload::{self, report_missing};
use winimg_base::error::Result;
use winimg_formats::archive::ArchiveFilter;
use winimg_recipe::GuestPath;
use winimg_recipe::plan::check::{
    ContainerImageManifest, DriverInf, ExpectedPayload, FileDigest, ImageCheck, PlannedCheck,
    StepChecks,
};
use winimg_recipe::plan::{BuildPlan, keep_what_lasts};

/// Returns one element for each step of the plan, in order.
pub fn resolve(plan: &BuildPlan, inputs: &BuildInputs) -> Result<Vec<StepChecks>> {
    let mut steps = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let mut checks = Vec::new();
        for check in &step.expects {
            checks.extend(resolve_check(check, plan, inputs)?);
        }
        steps.push(StepChecks {
            step: step.name.clone(),
            place: step.place.to_string(),
            checks,
        });
    }
    keep_what_lasts(steps.iter_mut().map(|step| &mut step.checks));
    Ok(steps)
}

fn resolve_check(
    check: &PlannedCheck,
    plan: &BuildPlan,
    inputs: &BuildInputs,
) -> Result<Vec<ImageCheck>> {
    Ok(match check {
        ImageCheck::File { path, content } => match *content {
            ExpectedPayload::File(entry) => find_files(entry, plan, inputs)?
                .iter()
                .map(|from| make_file_check(path.clone(), from))
                .collect(),
            ExpectedPayload::Tree(entry) => find_files(entry, plan, inputs)?
                .iter()
                .map(|from| make_file_check(path.join(&from.path), from))
                .collect(),
        },
        ImageCheck::Driver { driver } => {
            let all = find_files(driver.entry, plan, inputs)?;
            let only = ArchiveFilter {
                strip: 0,
                only: driver.only.clone(),
            };
            all.iter()
                .filter(|from| is_wanted_inf(&from.path, &only))
                .map(|from| ImageCheck::Driver {
                    driver: DriverInf {
                        inf: from.path.rsplit('/').next().unwrap_or_default().to_owned(),
                        sha256: from.sha256.hex(),
                    },
                })
                .collect()
        }
        ImageCheck::ContainerImage { image, root } => {
            let found = inputs
                .find_image(&image.0)
                .ok_or_else(|| report_missing(&image.0))?;
            vec![ImageCheck::ContainerImage {
                image: ContainerImageManifest {
                    reference: found.reference.clone(),
                    digest: found.manifest.blob.digest().to_string(),
                },
                root: root.clone(),
            }]
        }
        other => other.without_inputs().into_iter().collect(),
    })
}

fn make_file_check(path: GuestPath, from: &payload::PayloadFile) -> ImageCheck {
    ImageCheck::File {
        path,
        content: FileDigest {
            size: from.size,
            sha256: from.sha256.hex(),
        },
    }
}

/// Returns true for an INF that the patterns select. The plan has already validated them.
fn is_wanted_inf(path: &str, only: &ArchiveFilter) -> bool {
    path.to_ascii_lowercase().ends_with(".inf") && only.should_include(path).unwrap_or(false)
}

fn find_files<'i>(
    number: u32,
    plan: &BuildPlan,
    inputs: &'i BuildInputs,
) -> Result<Vec<payload::PayloadFile<'i>>> {
    let number = number as usize;
    let entry = plan.payload.get(number);
    let entry = entry.ok_or_else(|| report_missing(&format!("payload entry {number}")))?;
    payload::list_files(number, entry, inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chooses_drivers_by_folder() {
        let filter = |only: &[&str]| ArchiveFilter {
            strip: 0,
            only: only.iter().map(|&text| text.to_owned()).collect(),
        };
        let only = filter(&["vioscsi/2k22/amd64/*"]);
        assert!(is_wanted_inf("vioscsi/2k22/amd64/vioscsi.INF", &only));
        assert!(!is_wanted_inf("vioscsi/2k19/amd64/vioscsi.inf", &only));
        assert!(!is_wanted_inf("vioscsi/2k22/amd64/vioscsi.sys", &only));
        assert!(is_wanted_inf("any.inf", &filter(&[])));
        // As everywhere, a pattern that names a folder takes what is in it.
        assert!(is_wanted_inf(
            "vioscsi/2k22/amd64/vioscsi.inf",
            &filter(&["vioscsi"])
        ));
    }
}
