//! What the plan expects of the finished disk, with the digests that only fetched inputs have.
//!
//! Reads no file: all were hashed when they were admitted.

use super::Inputs;
use super::payload::{self, missing};
use winimg_base::error::Result;
use winimg_formats::archive::Filter;
use winimg_recipe::plan::check::{Bytes, Check, Expected, Inf, Manifest, Payload, Planned};
use winimg_recipe::plan::{Plan, keep_what_lasts};
use winimg_recipe::recipe::GuestPath;

/// One element for each step of the plan, in its order.
pub fn resolve(plan: &Plan, inputs: &Inputs) -> Result<Vec<Expected>> {
    let mut steps = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let mut checks = Vec::new();
        for check in &step.expects {
            checks.extend(resolved(check, plan, inputs)?);
        }
        steps.push(Expected {
            step: step.name.clone(),
            place: step.place.to_string(),
            checks,
        });
    }
    keep_what_lasts(steps.iter_mut().map(|step| &mut step.checks));
    Ok(steps)
}

fn resolved(check: &Planned, plan: &Plan, inputs: &Inputs) -> Result<Vec<Check>> {
    let file = |path: GuestPath, from: &payload::File| Check::File {
        path,
        content: Bytes {
            size: from.size,
            sha256: from.sha256.hex(),
        },
    };
    Ok(match check {
        Check::File { path, content } => match *content {
            Payload::File(entry) => {
                let all = brought(entry, plan, inputs)?;
                all.iter().map(|from| file(path.clone(), from)).collect()
            }
            Payload::Tree(entry) => {
                let all = brought(entry, plan, inputs)?;
                let below = all.iter().map(|from| file(path.join(&from.path), from));
                below.collect()
            }
        },
        Check::Driver { driver } => {
            let all = brought(driver.entry, plan, inputs)?;
            let only = Filter {
                strip: 0,
                only: driver.only.clone(),
            };
            all.iter()
                .filter(|from| is_wanted_inf(&from.path, &only))
                .map(|from| Check::Driver {
                    driver: Inf {
                        inf: from.path.rsplit('/').next().unwrap_or_default().to_owned(),
                        sha256: from.sha256.hex(),
                    },
                })
                .collect()
        }
        Check::ContainerImage { image, root } => {
            let found = inputs.image(&image.0).ok_or_else(|| missing(&image.0))?;
            vec![Check::ContainerImage {
                image: Manifest {
                    reference: found.reference.clone(),
                    digest: found.manifest.blob.digest().to_string(),
                },
                root: root.clone(),
            }]
        }
        other => other.without_inputs().into_iter().collect(),
    })
}

/// The plan has judged the patterns.
fn is_wanted_inf(path: &str, only: &Filter) -> bool {
    path.to_ascii_lowercase().ends_with(".inf") && only.takes(path).unwrap_or(false)
}

fn brought<'i>(number: u32, plan: &Plan, inputs: &'i Inputs) -> Result<Vec<payload::File<'i>>> {
    let number = number as usize;
    let entry = plan.payload.get(number);
    let entry = entry.ok_or_else(|| missing(&format!("payload entry {number}")))?;
    payload::files(number, entry, inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chooses_drivers_by_folder() {
        let filter = |only: &[&str]| Filter {
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
