//! What the lint says of answer files that Windows Setup would not take.

use winimg::answer::{self, AnswerFacts, LintFacts};
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::Firmware;

use super::{facts, images, lint, shown};

/// One change of a good file, and the complaints that it has to bring, whole.
struct Broken {
    from: &'static str,
    to: &'static str,
    firmware: Firmware,
    eval: bool,
    says: &'static [&'static str],
}

const UEFI: Broken = Broken {
    from: "",
    to: "",
    firmware: Firmware::Uefi,
    eval: true,
    says: &[],
};
const BIOS: Broken = Broken {
    firmware: Firmware::Bios,
    ..UEFI
};
const VOLUME: Broken = Broken {
    eval: false,
    ..UEFI
};

#[test]
fn every_rule_finds_its_break() {
    let mut failures = Vec::new();
    for case in include!("broken.rs") {
        let facts = facts(WindowsRelease::Server2022, case.firmware, case.eval);
        let good = answer::render(&answer::built_in(), &facts).unwrap();
        let good = good.expose();
        assert!(good.contains(case.from), "nothing to break: {}", case.from);
        let bad = good.replacen(case.from, case.to, 1);
        let found = shown(&lint(&bad, &facts));
        if found != case.says {
            failures.push(format!("{:?} -> {:?}\n{found:#?}", case.from, case.to));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// What teams write differently, and Windows accepts.
#[test]
fn other_good_answer_files_are_accepted() {
    let create = |order: u32, kind: &str, rest: &str| {
        format!(
            "<CreatePartition wcm:action=\"add\"><Order>{order}</Order><Type>{kind}</Type>{rest}</CreatePartition>"
        )
    };
    let modify = |order: u32, id: u32, rest: &str| {
        format!(
            "<ModifyPartition wcm:action=\"add\"><Order>{order}</Order><PartitionID>{id}</PartitionID>{rest}</ModifyPartition>"
        )
    };
    let layout = |created: &[String], modified: &[String]| {
        format!(
            "<CreatePartitions>{}</CreatePartitions><ModifyPartitions>{}</ModifyPartitions>",
            created.concat(),
            modified.concat()
        )
    };
    let between = |xml: &str, from: &str, to: &str, new: &str| {
        let start = xml.find(from).unwrap();
        let end = start + xml[start..].find(to).unwrap() + to.len();
        format!("{}{new}{}", &xml[..start], &xml[end..])
    };
    let facts_of = |firmware| facts(WindowsRelease::Server2022, firmware, true);
    let render = |f: &AnswerFacts| answer::render(&answer::built_in(), f).unwrap();

    // A recovery partition first, and the MSR named without a change.
    let uefi = facts_of(Firmware::Uefi);
    let xml = between(
        render(&uefi).expose(),
        "<CreatePartitions>",
        "</ModifyPartitions>",
        &layout(
            &[
                create(1, "Primary", "<Size>500</Size>"),
                create(2, "EFI", "<Size>100</Size>"),
                create(3, "MSR", "<Size>128</Size>"),
                create(4, "Primary", "<Extend>true</Extend>"),
            ],
            &[
                modify(
                    1,
                    1,
                    "<Format>NTFS</Format><TypeID>DE94BBA4-06D1-4D40-A16A-BFD50179D6AC</TypeID>",
                ),
                modify(2, 2, "<Format>FAT32</Format>"),
                modify(3, 3, ""),
                modify(4, 4, "<Format>NTFS</Format><Letter>C</Letter>"),
            ],
        ),
    )
    .replace(
        "<PartitionID>3</PartitionID>\n          </InstallTo>",
        "<PartitionID>4</PartitionID></InstallTo>",
    )
    .replace("/IMAGE/NAME", "/IMAGE/INDEX")
    .replace("Windows Server 2022 SERVERDATACENTERCORE", "3");
    assert_eq!(shown(&lint(&xml, &uefi)), [""; 0]);

    // A system partition of its own under BIOS, a local account, and commands at the first logon.
    let bios = facts_of(Firmware::Bios);
    let xml = between(
        render(&bios).expose(),
        "<CreatePartitions>",
        "</ModifyPartitions>",
        &layout(
            &[create(1, "Primary", "<Size>350</Size>"), create(2, "Primary", "<Extend>true</Extend>")],
            &[
                modify(1, 1, "<Format>NTFS</Format><Label>System Reserved</Label><Active>true</Active>"),
                modify(2, 2, "<Format>NTFS</Format><Letter>C</Letter>"),
            ],
        ),
    )
    .replace("<PartitionID>1</PartitionID>\n          </InstallTo>", "<PartitionID>2</PartitionID></InstallTo>")
    .replace(
        "<OOBE>",
        "<AutoLogon><Enabled>true</Enabled><LogonCount>1</LogonCount></AutoLogon><FirstLogonCommands>\
         <SynchronousCommand wcm:action=\"add\"><Order>1</Order><CommandLine>cmd.exe /c ver</CommandLine></SynchronousCommand>\
         </FirstLogonCommands><OOBE>",
    );
    assert_eq!(shown(&lint(&xml, &bios)), [""; 0]);
    let long = xml.replace("cmd.exe /c ver", &"x".repeat(260));
    let found = shown(&lint(&long, &bios));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("CommandLine has 260 characters; the limit is 259"));
}

#[test]
fn complaints_never_show_the_password() {
    let facts = facts(WindowsRelease::Server2022, Firmware::Uefi, true);
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    let encoded = "VwBpAG4AaQBtAGcALQBCAHUAaQBsAGQALQAxACEAQQBkAG0AaQBuAGkAcwB0AHIAYQB0AG8AcgBQAGEAcwBzAHcAbwByAGQA";
    assert!(xml.expose().contains(encoded));
    for bad in [
        xml.expose().replace("<PlainText>false", "<PlainText>maybe"),
        xml.expose().replace("</UserAccounts>", ""),
    ] {
        let found = lint(&bad, &facts);
        assert!(found.has_errors());
        for d in &found.0 {
            let source = &d.problem.place.as_ref().unwrap().source;
            assert!(!source.text.contains(encoded));
            assert_eq!(source.text.len(), bad.len());
        }
    }
    assert_eq!(format!("{facts:?}").matches("Winimg-Build").count(), 0);
}

#[test]
fn an_answer_file_on_the_medium_is_refused() {
    let facts = facts(WindowsRelease::Server2022, Firmware::Uefi, true);
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    let images = images(WindowsRelease::Server2022, true);
    let found = answer::lint(
        xml.expose(),
        &LintFacts {
            name: "Autounattend.xml".into(),
            firmware: Firmware::Uefi,
            release: WindowsRelease::Server2022,
            eval: true,
            tpm: false,
            images: &images.images,
            answer_file_on_medium: Some("Autounattend.xml"),
        },
    );
    assert_eq!(
        shown(&found),
        [
            "the install medium already contains an answer file: Autounattend.xml [Setup could use that one instead: use an unmodified medium] ^^"
        ]
    );
}
