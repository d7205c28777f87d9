//! What the plan expects of the finished disk, with the digests that only fetched inputs have.
//!
//! Reads no file: all were hashed when they were admitted.

use super::Inputs;
use super::payload::{encoded, missing};
use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_formats::archive::Filter;
use winimg_recipe::plan::check::{Bytes, Check, Expected, Inf, Manifest, Payload, Planned};
use winimg_recipe::plan::{Entry, Plan, keep_what_lasts};
use winimg_recipe::recipe::GuestPath;

/// A file of a payload entry.
struct Brought {
    /// Relative to the entry, with slashes.
    path: String,
    size: u64,
    sha256: Digest,
}

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
    let file = |path: GuestPath, from: &Brought| Check::File {
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

fn brought(number: u32, plan: &Plan, inputs: &Inputs) -> Result<Vec<Brought>> {
    let number = number as usize;
    let absent = || missing(&format!("payload entry {number}"));
    match plan.payload.get(number).ok_or_else(absent)? {
        Entry::Component { component, file } => {
            let blob = inputs.component(component).ok_or_else(absent)?;
            Ok(vec![Brought {
                path: file.clone(),
                size: blob.size(),
                sha256: blob.digest().clone(),
            }])
        }
        Entry::Tree { .. } => {
            let tree = inputs.trees.get(&number).ok_or_else(absent)?;
            let files = tree.files().iter().map(|f| Brought {
                path: f.path.clone(),
                size: f.size,
                sha256: f.sha256.clone(),
            });
            Ok(files.collect())
        }
        // No step copies the archive of a container image as it is.
        Entry::Image { .. } => Ok(Vec::new()),
        Entry::Local { .. } => {
            let own = inputs.own.get(&number).ok_or_else(absent)?;
            let files = own.files().map(|(path, blob)| Brought {
                path: path.into(),
                size: blob.size(),
                sha256: blob.digest().clone(),
            });
            Ok(files.collect())
        }
        Entry::Text {
            file,
            text,
            encoding,
        } => {
            let bytes = encoded(text, *encoding);
            Ok(vec![Brought {
                path: file.clone(),
                size: bytes.len() as u64,
                sha256: Digest::sha256_of(&bytes),
            }])
        }
    }
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
