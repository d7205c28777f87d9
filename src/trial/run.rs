//! A trial from its request to `try/TARGET.json`.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Event;
use winimg_base::io;
use winimg_formats::disk::Disk;
use winimg_formats::disk::gpt::{self, Style};
use winimg_recipe::recipe::Firmware;
use winimg_recipe::recipe::target::Target;

use super::clone::Clone;
use super::hardware;
use super::request::{PHASE, Prepared, Request};
use super::{compare, result};
use crate::record::manifest::{Artifact, Tool, rfc3339};
use crate::verify::Report;

/// Tries the image and writes `TARGET.json` into the folder. A clone that does not come up as it should is no error: the result says so.
pub fn run(request: &Request) -> Result<result::Trial> {
    let started = SystemTime::now();
    let hardware = hardware::on_qemu(request.target, request.firmware)?;
    let prepared = Prepared { request, hardware };
    for remark in &prepared.hardware.remarks {
        request
            .sink
            .note(format!("{}: {remark}", request.target.name));
    }
    let mut trial = begun(&prepared, started)?;
    let mut states = Vec::new();
    for number in 1..=2 {
        let lived = Clone::new(&prepared, number)?.live()?;
        let good = lived.report.is_good();
        report(request, &format!("clone {number}"), &lived.report);
        trial.take(Some(number), &lived.report);
        states.extend(lived.run.state.clone());
        trial.clones.push(lived.run);
        if !good {
            // The second would say the same.
            break;
        }
    }
    if let [one, other] = &states[..] {
        trial.compared = compare::clones(one, other);
        let setup = one.setup.get("");
        let generalized = setup.is_ok_and(|setup| setup.generalization_state.is_some());
        let compared = compare::report(&trial.compared, generalized);
        report(request, "both clones", &compared);
        trial.take(None, &compared);
    }
    trial.finished = rfc3339(SystemTime::now());
    let file = request.folder.join(format!("{}.json", request.target.name));
    io::write_atomically(&file, trial.to_json().as_bytes())?;
    Ok(trial)
}

/// The result of an earlier trial says nothing of one that begins.
pub fn remove_earlier(target: &Target, folder: &Path) -> Result<()> {
    let name = &target.name;
    io::remove_if_there(&folder.join(format!("{name}.json")))?;
    io::remove_folder_if_there(&folder.join(name))
}

/// The error of an image whose clones did not come up as they should; its findings were reported before.
pub fn failed(target: &Target, folder: &Path) -> Error {
    let fact = format!("the image does not come up as `{}` needs it", target.name);
    let file = folder.join(format!("{}.json", target.name));
    Error::new(Kind::Trial, fact).at(file.display())
}

/// What starts an image; one without a partition table is refused.
pub fn firmware(image: &Path, disk: &dyn Disk) -> Result<Firmware> {
    match gpt::table(disk)?.style {
        Style::Gpt => Ok(Firmware::Uefi),
        Style::Mbr => Ok(Firmware::Bios),
        Style::None => {
            let fact = "the image has no partition table, so no firmware starts it";
            Err(Error::new(Kind::Trial, fact).at(image.display()))
        }
    }
}

fn begun(prepared: &Prepared, started: SystemTime) -> Result<result::Trial> {
    let (request, hardware) = (prepared.request, &prepared.hardware);
    let size = fs::metadata(request.image).map_err(|e| Error::io("read", request.image, e))?;
    let size = size.len();
    let mut artifacts = request.manifest.iter().flat_map(|m| &m.artifacts);
    let is_it = |a: &&Artifact| request.image.ends_with(&a.file) && a.size == size;
    let artifact = artifacts.find(is_it);
    Ok(result::Trial {
        schema: result::Schema::V1,
        tool: Tool::this(),
        image: result::Image {
            sha256: artifact.map(|a| a.sha256.clone()),
            file: artifact.map_or_else(|| request.image.display().to_string(), |a| a.file.clone()),
            size,
        },
        target: request.target.name.clone(),
        started: rfc3339(started),
        finished: String::new(),
        hardware: result::Hardware {
            hypervisor: request.probe.version.clone(),
            accelerator: request.probe.accel.clone(),
            firmware: hardware.firmware,
            controller: hardware.controller,
            nic: hardware.nic,
            tpm: false,
            secure_boot: hardware.secure_boot,
        },
        metadata: request.target.metadata.by,
        remarks: hardware.remarks.clone(),
        clones: Vec::new(),
        compared: Vec::new(),
        findings: Vec::new(),
        checks: 0,
        verdict: result::Verdict::Good,
    })
}

/// Findings are events, as those of `verify`; the count is the work's progress.
fn report(request: &Request, what: &str, report: &Report) {
    for finding in &report.findings {
        request.sink.emit(&finding.event());
    }
    request.sink.emit(&Event::Progress {
        phase: PHASE,
        text: format!("{}, {what}: {}", request.target.name, report.summary()),
    });
}
