//! What a build needs of an answer file of the user's own.

use std::fs;
use std::path::Path;

use winimg::answer;
use winimg_base::diag::Diagnostic;
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::{self as recipe, Recipe};

const STAGE: &str = r"cmd.exe /c for %i in (D E F G H) do if exist %i:\winimg\stage.cmd call %i:\winimg\stage.cmd %i:";

/// A recipe whose machine has a virtio disk, with this answer file.
fn recipe(folder: &Path, machine: &str, xml: &str) -> Recipe {
    let text = format!(
        "schema = 1\nname = \"a\"\n[media]\nimage = \"datacenter-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\n\
         unverified = \"test\"\n[media.virtio]\nurl = \"https://example.com/v.iso\"\nunverified = \"test\"\n\
         [machine]\n{machine}[setup]\nanswer_file = \"own.xml\"\n[outputs]\nraw = {{}}\n"
    );
    let path = folder.join("recipe.toml");
    fs::write(&path, text).expect("the recipe");
    fs::write(folder.join("own.xml"), xml).expect("the answer file");
    let (read, said) = recipe::read(&path, &recipe::ReadOptions::default());
    read.unwrap_or_else(|| panic!("{}", said.render(false)))
}

fn check(machine: &str, xml: &str, platform: Option<HypervisorKind>) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(folder.path(), machine, xml);
    let own = recipe.setup.answer_file.as_ref().expect("it has one");
    let template = answer::read_template(own).expect("it is text");
    answer::check_contract(&template, &recipe, platform).expect("it is rendered")
}

/// The complaints in two words.
fn lacks(machine: &str, xml: &str, platform: Option<HypervisorKind>) -> Vec<&'static str> {
    let found = check(machine, xml, platform).into_iter();
    found
        .map(|d| match d.problem.fact {
            fact if fact.contains("stage.cmd") => "stage",
            fact if fact.contains("driver folder") => "driver",
            fact => panic!("{fact}"),
        })
        .collect()
}

fn built_in() -> String {
    answer::built_in().text.clone()
}

/// The built-in template with another command in the place of its own.
fn with_command(command: &str) -> String {
    let xml = built_in();
    assert!(xml.contains(STAGE));
    xml.replace(STAGE, &command.replace('&', "&amp;"))
}

fn without(xml: &str, from: &str, to: &str) -> String {
    let start = xml.find(from).expect("where it begins");
    let end = start + xml[start..].find(to).expect("where it ends") + to.len();
    format!("{}{}", &xml[..start], &xml[end..])
}

fn without_drivers(xml: &str) -> String {
    without(xml, "{{#if driver_paths}}", "{{/if}}\n")
}

#[test]
fn every_way_to_run_stage_cmd_is_seen() {
    for (command, expected) in [
        (STAGE, &[][..]),
        (r"cmd /c E:\WINIMG\Stage.cmd E:", &[]),
        (r#"cmd /c "D:/winimg/stage.cmd" D:"#, &[]),
        (r"cmd /c pushd E:\winimg && stage.cmd E:", &[]),
        (r"cmd.exe /c ver", &["stage"]),
        (r"cmd.exe /c E:\tools\stage.cmd E:", &["stage"]),
        (r"cmd.exe /c E:\winimg\mystage.cmd", &["stage"]),
        (r"cmd.exe /c E:\winimg-tools\stage.cmd", &["stage"]),
        (r"cmd.exe /c E:\winimg\agent.cmd", &["stage"]),
    ] {
        assert_eq!(
            lacks("", &with_command(command), None),
            expected,
            "{command}"
        );
    }
}

#[test]
fn stage_cmd_counts_only_where_windows_runs_it() {
    let specialize = "<settings pass=\"specialize\">";
    let command = format!("<Path>{STAGE}</Path>");
    for (name, xml) in [
        (
            "another pass",
            built_in().replace(specialize, "<settings pass=\"auditUser\">"),
        ),
        (
            "a comment",
            built_in().replace(
                &command,
                &format!("<Path>cmd /c ver</Path><!-- {command} -->"),
            ),
        ),
        (
            "the first logon",
            with_command("cmd /c ver").replace(
                "<OOBE>",
                &format!(
                    "<FirstLogonCommands><SynchronousCommand><CommandLine>{STAGE}</CommandLine>\
                     </SynchronousCommand></FirstLogonCommands><OOBE>"
                ),
            ),
        ),
        (
            "another architecture",
            built_in().replace(
                "\"Microsoft-Windows-Deployment\" processorArchitecture=\"amd64\"",
                "\"Microsoft-Windows-Deployment\" processorArchitecture=\"x86\"",
            ),
        ),
    ] {
        assert_eq!(lacks("", &xml, None), ["stage"], "{name}");
    }
}

#[test]
fn a_virtio_disk_needs_a_driver_folder_and_others_need_none() {
    let xml = without_drivers(&built_in());
    let qemu = Some(HypervisorKind::Qemu);
    assert_eq!(lacks("", &xml, qemu), ["driver"]);
    assert_eq!(lacks("", &xml, None), ["driver"]);
    // Hyper-V's disks have their driver in Windows.
    assert_eq!(lacks("", &xml, Some(HypervisorKind::HyperV)), [""; 0]);
    for bus in ["nvme", "ahci"] {
        let machine = format!("disk_bus = \"{bus}\"\n");
        assert_eq!(lacks(&machine, &xml, qemu), [""; 0], "{bus}");
    }
    let machine = "disk_bus = \"virtio\"\n";
    assert_eq!(lacks(machine, &xml, qemu), ["driver"]);
    assert_eq!(lacks(machine, &built_in(), qemu), [""; 0]);
    let own_folder = built_in()
        .replace("{{#if driver_paths}}", "{{#if true}}")
        .replace("{{path}}", r"A:\viostor");
    let own_folder = own_folder
        .replace("{{#each driver_paths}}", "")
        .replace("{{/each}}", "");
    let own_folder = own_folder.replace("{{key}}", "1");
    assert_eq!(lacks(machine, &own_folder, qemu), [""; 0]);
    let empty = built_in().replace("{{path}}", "");
    assert_eq!(lacks(machine, &empty, qemu), ["driver"]);
    // The drivers of an installed Windows are no help to Setup.
    let later = built_in().replace("PnpCustomizationsWinPE", "PnpCustomizationsNonWinPE");
    assert_eq!(lacks(machine, &later, qemu), ["driver"]);
}

/// What the complaint says to add, added where it says so, leaves nothing to complain about.
#[test]
fn the_block_to_paste_is_the_cure() {
    let bare = without_drivers(&built_in());
    let component = "<component name=\"Microsoft-Windows-Deployment\"";
    let deployment = without(&bare, component, "</component>\n");
    let specialize = without(&bare, "<settings pass=\"specialize\">", "</settings>\n");
    let emptied = without(&bare, "<RunSynchronous>", "</RunSynchronous>\n");
    let other = bare.replace(STAGE, "cmd /c ver");
    for (name, xml, inside, ends) in [
        (
            "a list of commands",
            &other,
            "to <RunSynchronous> of Microsoft-Windows-Deployment in the specialize pass",
            "</RunSynchronous>",
        ),
        (
            "a component without commands",
            &emptied,
            "to Microsoft-Windows-Deployment in the specialize pass",
            "",
        ),
        ("no component", &deployment, "to the specialize pass", ""),
        ("no pass", &specialize, "to <unattend>", "</unattend>"),
    ] {
        let found = check("", xml, None);
        let mut cured = xml.clone();
        for one in &found {
            let (place, block) = one.problem.cures[0].split_once(":\n").expect("a block");
            let at = match (place, ends) {
                ("add to the windowsPE pass", _) => {
                    end_of(&cured, "<settings pass=\"windowsPE\">", "</settings>")
                }
                (_, "") if inside.ends_with("to the specialize pass") => {
                    end_of(&cured, "<settings pass=\"specialize\">", "</settings>")
                }
                (_, "") => end_of(&cured, component, "</component>"),
                (_, ends) => end_of(&cured, "<unattend ", ends),
            };
            if place.contains("windowsPE") {
                assert_eq!(place, "add to the windowsPE pass", "{name}");
            } else {
                assert_eq!(place, format!("add {inside}"), "{name}");
            }
            cured.insert_str(at, &format!("{block}\n"));
        }
        assert_eq!(found.len(), 2, "{name}");
        assert_eq!(check("", &cured, None), [], "{name}: {cured}");
        let folder = tempfile::tempdir().expect("a folder");
        let recipe = recipe(folder.path(), "", &cured);
        let own = recipe.setup.answer_file.as_ref().expect("it has one");
        let template = answer::read_template(own).expect("it is text");
        let said = answer::check_template(&template, &recipe).expect("it is rendered");
        assert_eq!(said.render(false), "", "{name}");
    }
}

fn end_of(xml: &str, opens: &str, closes: &str) -> usize {
    let start = xml.find(opens).unwrap_or_else(|| panic!("no {opens}"));
    start
        + xml[start..]
            .find(closes)
            .unwrap_or_else(|| panic!("no {closes}"))
}

#[test]
fn the_block_goes_on_counting_and_declares_its_prefix() {
    let commands = |orders: &str| {
        format!(
            "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"><settings pass=\"specialize\">\
             <component name=\"Microsoft-Windows-Deployment\"><RunSynchronous>{orders}</RunSynchronous></component>\
             </settings></unattend>"
        )
    };
    let command = |order: &str| {
        format!("<RunSynchronousCommand><Order>{order}</Order></RunSynchronousCommand>")
    };
    for (orders, expected) in [
        (String::new(), "<Order>1</Order>"),
        (command("1"), "<Order>2</Order>"),
        ([command("7"), command(" 3 ")].concat(), "<Order>8</Order>"),
        ([command("1"), command("x")].concat(), "<Order>2</Order>"),
    ] {
        let found = check("disk_bus = \"nvme\"\n", &commands(&orders), None);
        let cure = &found[0].problem.cures[0];
        assert!(cure.contains(expected), "{cure}");
        let declares =
            "xmlns:wcm=\"http://schemas.microsoft.com/WMIConfig/2002/State\" wcm:action=\"add\"";
        assert!(cure.contains(declares), "{cure}");
    }
}

/// The file that goes onto the answer CD is the same from each encoding that Windows reads.
#[test]
fn an_answer_file_in_utf_16_gives_the_same_file() {
    let text = built_in();
    let facts = super::facts(
        super::WindowsRelease::Server2022,
        super::Firmware::Uefi,
        true,
    );
    let expected = answer::render(&answer::built_in(), &facts).expect("it is rendered");
    let declared = text.replace("encoding=\"utf-8\"", "encoding=\"utf-16\"");
    assert_ne!(text, declared);
    let wide = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{feff}"
            .encode_utf16()
            .chain(declared.encode_utf16())
            .flat_map(unit)
            .collect()
    };
    for (name, bytes) in [
        ("little endian", wide(u16::to_le_bytes)),
        ("big endian", wide(u16::to_be_bytes)),
        (
            "UTF-8 with a mark",
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let recipe = recipe(folder.path(), "", &text);
        fs::write(folder.path().join("own.xml"), bytes).expect("the answer file");
        let own = recipe.setup.answer_file.as_ref().expect("it has one");
        let template = answer::read_template(own).unwrap_or_else(|e| panic!("{name}: {e}"));
        let xml = answer::render(&template, &facts).expect("it is rendered");
        assert_eq!(xml.expose(), expected.expose(), "{name}");
    }
}
