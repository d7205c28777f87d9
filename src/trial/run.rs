//! A trial from its request to `try/TARGET.json` and its page.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::io;
use winimg_formats::disk::Disk;
use winimg_formats::disk::gpt::{self, Style};
use winimg_machine::vm::Needs;
use winimg_recipe::recipe::Firmware;
use winimg_recipe::recipe::target::Target;

use super::clone::Clone;
use super::hardware;
use super::page::{self, Pictures};
use super::request::{Prepared, Request};
use super::{compare, metadata, result};
use crate::page::picture;
use crate::record::manifest::{Artifact, Tool, rfc3339};
use crate::verify::Report;

/// Tries the image and writes `TARGET.json` into the folder. A clone that does not come up as it should is no error: the result says so.
pub fn run(request: &Request) -> Result<result::Trial> {
    let started = SystemTime::now();
    let hardware = hardware::on_qemu(request.target, request.firmware, request.built_on())?;
    let needs = Needs {
        firmware: hardware.firmware,
        secure_boot: hardware.secure_boot,
        tpm: hardware.tpm,
    };
    request.hypervisor.check_host(&needs, request.cancel)?;
    let prepared = Prepared { request, hardware };
    let mut trial = begun(&prepared, started)?;
    for remark in &trial.remarks {
        request
            .sink
            .note(format!("{}: {remark}", request.target.name));
    }
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
    let file = |extension| file(request.target, request.folder, extension);
    io::write_atomically(&file("json"), trial.to_json().as_bytes())?;
    let page = page::page(&trial, &pictures(request, &trial));
    io::write_atomically(&file("html"), page.as_bytes())?;
    Ok(trial)
}

/// The result of an earlier trial says nothing of one that begins.
pub fn remove_earlier(target: &Target, folder: &Path) -> Result<()> {
    for extension in ["json", "html"] {
        io::remove_if_there(&file(target, folder, extension))?;
    }
    io::remove_folder_if_there(&folder.join(&target.name))
}

/// `TARGET.json`, the result, or `TARGET.html`, its page.
fn file(target: &Target, folder: &Path, extension: &str) -> PathBuf {
    folder.join(format!("{}.{extension}", target.name))
}

/// The page of a trial.
pub fn page_of(target: &Target, folder: &Path) -> PathBuf {
    file(target, folder, "html")
}

/// The clones' last screens, by the names that the result has for them.
fn pictures(request: &Request, trial: &result::Trial) -> Pictures {
    let boots = trial.clones.iter().flat_map(|clone| &clone.boots);
    let screens = boots.filter_map(|boot| boot.screen.as_ref());
    let shown = |name: &String| Some((name.clone(), picture(&request.folder.join(name))?));
    screens.filter_map(shown).collect()
}

/// The error of an image whose clones did not come up as these targets need it; its findings were reported before.
pub fn failed(targets: &[&Target], folder: &Path) -> Error {
    let names: Vec<String> = targets.iter().map(|t| format!("`{}`", t.name)).collect();
    let need = if names.len() == 1 { "needs" } else { "need" };
    let fact = format!(
        "the image does not come up as {} {need} it",
        names.join(" and ")
    );
    let at = match targets {
        [one] => file(one, folder, "json"),
        _ => folder.to_owned(),
    };
    let pages = targets.iter().map(|target| page_of(target, folder));
    Error::new(Kind::Trial, fact)
        .at(at.display())
        .lines(pages.map(|page| format!("details: {}", page.display())))
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
    let form = request.target.metadata.by;
    let mut remarks = hardware.remarks.clone();
    remarks.extend(metadata::remark(form).map(str::to_owned));
    remarks.extend(given(request));
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
        platform: request.target.into(),
        hardware: result::Hardware {
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
        verdict: result::Verdict::Good,
    })
}

/// What a person gave the clones that a clone of the platform need not have.
fn given(request: &Request) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(data) = request.user_data {
        remarks.push(format!(
            "the clones were given {} bytes of user data (`--user-data`), which may write any file: what a `[[clone]]` says is missing was not looked for",
            data.len()
        ));
    }
    if request.network == result::Network::Nat {
        remarks.push(format!(
            "the clones reached the host, and what it reaches outside {} (`--network nat`)",
            metadata::NETWORK
        ));
    }
    remarks
}

/// Findings are events, as those of `verify`; the count is the work's progress.
fn report(request: &Request, what: &str, report: &Report) {
    for finding in &report.findings {
        request.sink.emit(&finding.event());
    }
    request.sink.emit(&Event::Progress {
        phase: Phase::Try,
        text: format!(
            "{}, {what}: {}",
            request.target.name,
            result::summary(report)
        ),
    });
}
