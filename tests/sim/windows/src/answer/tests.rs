//! A good answer file with one fault each, and the screen that stops Setup. The whole table is compared with
//! `answers/refusals.txt`.

use winimg_test_support::tree::snapshot;

use super::{Answer, Pass, document, plan, schema, search};
use crate::dialog::{self, Dialog};
use crate::layout::DiskFacts;
use crate::machine::Firmware;
use crate::medium::{Image, Medium};

const UEFI: &str = include_str!("../../answers/uefi.xml");
const BIOS: &str = include_str!("../../answers/bios.xml");
const EXPECTED: &str = include_str!("../../answers/refusals.txt");
const CASES: &str = include_str!("../../answers/cases.txt");

fn medium(evaluation: bool) -> Medium {
    medium_of(2022, 20348, evaluation)
}

fn medium_of(year: u32, build: u32, evaluation: bool) -> Medium {
    let suffix = if evaluation { "Eval" } else { "" };
    let image = |index, name: &str, edition: &str| Image {
        index,
        name: format!("Windows Server {year} {name}"),
        description: format!("Windows Server {year} {name}"),
        display_name: format!("Windows Server {year} {edition}"),
        edition_id: format!("Server{edition}{suffix}"),
    };
    let images = vec![
        image(1, "SERVERSTANDARDCORE", "Standard"),
        image(2, "SERVERSTANDARD", "Standard"),
        image(3, "SERVERDATACENTERCORE", "Datacenter"),
        image(4, "SERVERDATACENTER", "Datacenter"),
    ];
    Medium {
        build,
        evaluation,
        languages: vec!["en-US".into()],
        images,
    }
}

fn judge(
    text: &str,
    firmware: Firmware,
    evaluation: bool,
    disks: &[DiskFacts],
) -> Result<plan::Install, Dialog> {
    let candidate = search::Candidate {
        path: r"E:\Autounattend.xml".into(),
        bytes: text.as_bytes().to_vec(),
    };
    let found = search::choose([candidate], Pass::WindowsPe);
    let answer =
        found.map_err(|(path, why)| dialog::invalid_file(&path, Pass::WindowsPe.name(), why))?;
    judge_on(&medium(evaluation), answer.as_ref(), firmware, disks)
}

fn judge_on(
    medium: &Medium,
    answer: Option<&Answer>,
    firmware: Firmware,
    disks: &[DiskFacts],
) -> Result<plan::Install, Dialog> {
    let answer = plan::start(answer, medium)?;
    for pass in [Pass::Specialize, Pass::OobeSystem] {
        schema::check(answer, pass)
            .map_err(|why| dialog::unknown_setting(&answer.path, pass.name(), why))?;
    }
    plan::install(answer, medium, firmware, disks)
}

fn disk() -> DiskFacts {
    DiskFacts {
        bytes: 64 << 30,
        partitioned: false,
    }
}

/// One case of cases.txt: `name | base | old | new`, where the base is uefi, bios, uefi-retail, uefi-as-bios,
/// bios-as-uefi, uefi-no-disk or uefi-small-disk. `\n` in old and new is a line feed.
fn outcome(line: &str) -> String {
    let fields: Vec<&str> = line.split(" | ").collect();
    let [name, base, old, new] = fields[..] else {
        panic!("cases.txt: {line}")
    };
    let (old, new) = (
        old.replace(r"\n", "\n"),
        new.replace(r"\n", "\n").replace("<empty>", ""),
    );
    let source = if base.starts_with("uefi") { UEFI } else { BIOS };
    assert!(
        source.contains(&old),
        "cases.txt: {name}: {old:?} is not in the answer file"
    );
    let firmware = if matches!(base, "bios" | "uefi-as-bios") {
        Firmware::Bios
    } else {
        Firmware::Uefi
    };
    let disks = match base {
        "uefi-no-disk" => vec![],
        "uefi-small-disk" => vec![DiskFacts {
            bytes: 8 << 30,
            partitioned: false,
        }],
        "uefi-used-disk" => vec![DiskFacts {
            bytes: 64 << 30,
            partitioned: true,
        }],
        _ => vec![disk()],
    };
    let text = source.replacen(&old, &new, 1);
    let said = match judge(&text, firmware, base != "uefi-retail", &disks) {
        Ok(install) => format!(
            "installs image {} to partition {}",
            install.image, install.partition
        ),
        Err(dialog) => format!("{}\n    {}", dialog.text.replace('\n', " / "), dialog.why),
    };
    format!("{name}\n    {said}\n")
}

#[test]
fn every_fault_has_its_screen() {
    let cases = CASES
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let found: String = cases.map(outcome).collect();
    if found != EXPECTED {
        let beside = std::env::temp_dir().join("standin-refusals.txt");
        let _ = std::fs::write(&beside, &found);
        panic!(
            "the screens differ from answers/refusals.txt; what was found is in {}",
            beside.display()
        );
    }
}

#[test]
fn good_files_give_their_layouts() -> Result<(), Dialog> {
    const MIB: u64 = 1 << 20;
    let facts = |install: &plan::Install| {
        let parts = install.layouts[0].partitions.iter();
        parts
            .map(|part| {
                (
                    part.number,
                    part.start / MIB,
                    part.length / MIB,
                    part.active,
                )
            })
            .collect::<Vec<_>>()
    };
    let uefi = judge(UEFI, Firmware::Uefi, true, &[disk()])?;
    assert_eq!(
        facts(&uefi),
        [
            (1, 1, 260, false),
            (2, 261, 16, false),
            (3, 277, 65536 - 1 - 277, false)
        ]
    );
    assert_eq!(
        (uefi.disk, uefi.partition, uefi.system, uefi.image),
        (0, 3, 1, 3)
    );
    let bios = judge(BIOS, Firmware::Bios, true, &[disk()])?;
    assert_eq!(facts(&bios), [(1, 1, 65534, true)]);
    assert_eq!((bios.disk, bios.partition, bios.system), (0, 1, 1));
    Ok(())
}

/// The answer files that winimg's template gives for Server 2025, and one without its recovery partition.
#[test]
fn setup_of_2025_wants_room_for_recovery_in_front() -> Result<(), String> {
    let files = [
        ("2025-uefi-eval", Firmware::Uefi),
        ("2025-bios-eval", Firmware::Bios),
    ];
    let medium = medium_of(2025, 26100, true);
    for (name, firmware) in files {
        let text = &snapshot(&format!(
            "tests/snapshots/winimg__media_answer__{name}.snap"
        ));
        let last = |text: &str| {
            let answer = Answer::parse("E", text.as_bytes())?;
            let install = judge_on(&medium, Some(&answer), firmware, &[disk()])
                .map_err(|dialog| dialog.why)?;
            let last = install.layouts[0].partitions.last().map(|p| p.number);
            Ok::<_, String>(last == Some(install.partition))
        };
        assert!(last(text)?, "{firmware:?}");
        let small = text.replace("<Size>1024</Size>", "<Size>550</Size>");
        assert_ne!(*text, small);
        assert!(!last(&small)?, "{firmware:?}");
    }
    Ok(())
}

#[test]
fn the_cached_copy_loses_only_what_has_run() -> Result<(), String> {
    let after_setup = document::cached(UEFI, &[Pass::WindowsPe])?;
    let answer = Answer::parse("C", after_setup.as_bytes())?;
    assert!(!answer.has(Pass::WindowsPe) && answer.has(Pass::OobeSystem));
    let secret = "<Value>VwBpAG4A";
    assert!(after_setup.contains(secret));
    let after_all = document::cached(
        &after_setup,
        &[Pass::WindowsPe, Pass::Specialize, Pass::OobeSystem],
    )?;
    assert!(
        !after_all.contains(secret)
            && after_all.contains("<Value>*SENSITIVE*DATA*DELETED*</Value>")
    );
    let answer = Answer::parse("C", after_all.as_bytes())?;
    assert!(Pass::ALL.into_iter().all(|pass| !answer.has(pass)));
    // Nothing else was touched.
    let plain = |text: &str| {
        text.replace(" wasPassProcessed=\"true\"", "")
            .replace("*SENSITIVE*DATA*DELETED*", "")
    };
    let value = UEFI
        .split("<Value>")
        .nth(2)
        .and_then(|rest| rest.split("</Value>").next())
        .unwrap_or_default();
    assert_eq!(plain(&after_all), UEFI.replace(value, ""));
    Ok(())
}

#[test]
fn the_first_file_with_the_pass_is_taken() {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let only_setup =
        document::cached(UEFI, &[Pass::Specialize, Pass::OobeSystem]).unwrap_or_default();
    let candidates = || {
        [("C", only_setup.as_str()), ("E", UEFI)].map(|(path, text)| search::Candidate {
            path: path.into(),
            bytes: bytes(text),
        })
    };
    let path = |pass| {
        search::choose(candidates(), pass)
            .ok()
            .flatten()
            .map(|answer| answer.path)
    };
    assert_eq!(path(Pass::WindowsPe).as_deref(), Some("C"));
    assert_eq!(path(Pass::Specialize).as_deref(), Some("E"));
    assert_eq!(path(Pass::Generalize), None);
}
