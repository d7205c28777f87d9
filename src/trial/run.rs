//! Runs a trial, from its request to `try/TARGET.json` and its report.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::io;
use winimg_formats::disk::Disk;
use winimg_formats::disk::gpt::{self, PartitionStyle};
use winimg_machine::vm::HostRequirements;
use winimg_recipe::Firmware;
use winimg_recipe::target::TargetSpec;

use super::clone::TrialClone;
use super::hardware;
use super::page::{self, ScreenImages};
use super::request::{PreparedTrial, TrialRequest};
use super::{compare, metadata, result};
use crate::page::read_png_base64;
use crate::record::manifest::{Tool, format_rfc3339};
use crate::verify::VerifyReport;

/// Tries the image and writes `TARGET.json` into the folder. A clone that does not come up properly
/// is not an error; it is reported in the result.
pub fn run(request: &TrialRequest) -> Result<result::TrialResult> {
    let started = SystemTime::now();
    let hardware = hardware::on_qemu(request.target, request.firmware, request.built_on())?;
    let needs = HostRequirements {
        firmware: hardware.firmware,
        secure_boot: hardware.secure_boot,
        tpm: hardware.tpm,
    };
    request.hypervisor.check_host(&needs, request.cancel)?;
    let prepared = PreparedTrial { request, hardware };
    let mut trial = create_result(&prepared, started)?;
    for remark in &trial.remarks {
        request
            .sink
            .note(format!("{}: {remark}", request.target.name));
    }
    let mut states = Vec::new();
    for number in 1..=2 {
        let outcome = TrialClone::new(&prepared, number)?.run()?;
        let is_good = outcome.report.is_good();
        emit_report(request, &format!("clone {number}"), &outcome.report);
        trial.add_report(Some(number), &outcome.report);
        states.extend(outcome.run.state.clone());
        trial.clones.push(outcome.run);
        if !is_good {
            // The second clone would fail the same way.
            break;
        }
    }
    if let [one, other] = &states[..] {
        trial.compared = compare::compare_clones(one, other);
        let setup = one.setup.get("");
        let generalized = setup.is_ok_and(|setup| setup.generalization_state.is_some());
        let comparison = compare::report(&trial.compared, generalized);
        emit_report(request, "both clones", &comparison);
        trial.add_report(None, &comparison);
    }
    trial.finished = format_rfc3339(SystemTime::now());
    let json = result_path(request.target, request.folder, "json");
    io::write_atomically(&json, trial.to_json().as_bytes())?;
    let page = page::render_page(&trial, &read_screens(request, &trial));
    let html = page_path(request.target, request.folder);
    io::write_atomically(&html, page.as_bytes())?;
    Ok(trial)
}

/// Removes the results of an earlier trial.
pub fn remove_earlier(target: &TargetSpec, folder: &Path) -> Result<()> {
    for extension in ["json", "html"] {
        io::remove_if_exists(&result_path(target, folder, extension))?;
    }
    io::remove_folder_if_exists(&folder.join(&target.name))
}

/// Returns the path of the result, `TARGET.json`, or of its report, `TARGET.html`.
fn result_path(target: &TargetSpec, folder: &Path, extension: &str) -> PathBuf {
    folder.join(format!("{}.{extension}", target.name))
}

/// Returns the path of a trial's report.
pub fn page_path(target: &TargetSpec, folder: &Path) -> PathBuf {
    result_path(target, folder, "html")
}

/// Reads the clones' last screens, by their names in the result.
fn read_screens(request: &TrialRequest, trial: &result::TrialResult) -> ScreenImages {
    trial
        .clones
        .iter()
        .flat_map(|clone| &clone.boots)
        .filter_map(|boot| boot.screen.as_ref())
        .filter_map(|name| Some((name.clone(), read_png_base64(&request.folder.join(name))?)))
        .collect()
}

/// Returns the error for an image whose clones did not come up properly; its findings were reported
/// before.
pub fn failed_trials_error(targets: &[&TargetSpec], folder: &Path) -> Error {
    let names: Vec<String> = targets.iter().map(|t| format!("`{}`", t.name)).collect();
    let need = if names.len() == 1 { "needs" } else { "need" };
    let fact = format!(
        "the image does not come up as {} {need} it",
        names.join(" and ")
    );
    let at = match targets {
        [one] => result_path(one, folder, "json"),
        _ => folder.to_owned(),
    };
    let pages = targets.iter().map(|target| page_path(target, folder));
    Error::new(Kind::Trial, fact)
        .at(at.display())
        .lines(pages.map(|page| format!("details: {}", page.display())))
}

/// Determines the firmware that boots an image. Fails for one without a partition table.
pub fn detect_firmware(image: &Path, disk: &dyn Disk) -> Result<Firmware> {
    match gpt::read_table(disk)?.style {
        PartitionStyle::Gpt => Ok(Firmware::Uefi),
        PartitionStyle::Mbr => Ok(Firmware::Bios),
        PartitionStyle::None => {
            let fact = "the image has no partition table, so no firmware can boot it";
            Err(Error::new(Kind::Trial, fact).at(image.display()))
        }
    }
}

fn create_result(prepared: &PreparedTrial, started: SystemTime) -> Result<result::TrialResult> {
    let (request, hardware) = (prepared.request, &prepared.hardware);
    let size = fs::metadata(request.image).map_err(|e| Error::io("read", request.image, e))?;
    let size = size.len();
    let mut artifacts = request.manifest.iter().flat_map(|m| &m.artifacts);
    let artifact = artifacts.find(|a| request.image.ends_with(&a.file) && a.size == size);
    let form = request.target.metadata.by;
    let mut remarks = hardware.remarks.clone();
    remarks.extend(metadata::describe_difference(form).map(str::to_owned));
    remarks.extend(describe_options(request));
    Ok(result::TrialResult {
        schema: result::TrialSchema::V1,
        tool: Tool::this(),
        image: result::TriedImage {
            sha256: artifact.map(|a| a.sha256.clone()),
            file: artifact.map_or_else(|| request.image.display().to_string(), |a| a.file.clone()),
            size,
        },
        target: request.target.name.clone(),
        started: format_rfc3339(started),
        finished: String::new(),
        platform: request.target.into(),
        hardware: result::TriedHardware {
            hypervisor: request.probe.version.clone(),
            accelerator: request.probe.accel.clone(),
            firmware: hardware.firmware,
            controller: hardware.controller,
            nic: hardware.nic,
            tpm: hardware.tpm,
            secure_boot: hardware.secure_boot,
        },
        metadata: form,
        network: request.network,
        remarks,
        clones: Vec::new(),
        compared: Vec::new(),
        findings: Vec::new(),
        checks: 0,
        verdict: result::TrialVerdict::Good,
    })
}

/// Describes options of the user that make the clones differ from those of the platform.
fn describe_options(request: &TrialRequest) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(data) = request.user_data {
        remarks.push(format!(
            "the clones got {} bytes of user data (`--user-data`), which may write any file: files \
             that must be missing according to a `[[clone]]` were not checked",
            data.len()
        ));
    }
    if request.network == result::TrialNetwork::Nat {
        remarks.push(format!(
            "the clones had access to the host, and through it to addresses outside {} \
             (`--network nat`)",
            metadata::NETWORK
        ));
    }
    remarks
}

/// Emits the findings as events, like `verify`, and their count as progress.
fn emit_report(request: &TrialRequest, what: &str, report: &VerifyReport) {
    for finding in &report.findings {
        request.sink.emit(&finding.to_event());
    }
    request.sink.emit(&Event::Progress {
        phase: Phase::Try,
        text: format!(
            "{}, {what}: {}",
            request.target.name,
            result::summarize_report(report)
        ),
    });
}
