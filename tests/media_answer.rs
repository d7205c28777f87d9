//! Answer files: whole golden files, the lint's complaints, and the answer CD.

use support::media;
use support::tree;

use std::fs;
use std::path::Path;
use std::time::Duration;

use support::media::{have, put, run, text};
use winimg::answer::{self, Facts, LintFacts};
use winimg_base::diag::{Diagnostics, Severity};
use winimg_base::text::{Secret, Source};
use winimg_formats::iso;
use winimg_formats::udf::Medium;
use winimg_formats::wim::{Arch, Image, MediaFacts, Release, WimImages};
use winimg_recipe::recipe::{
    Address, DiskBus, Firmware, MachineSpec, Media, Origin, ProofSpec, SetupSpec,
};

fn facts(release: Release, firmware: Firmware, eval: bool) -> Facts {
    Facts {
        release,
        firmware,
        image_name: format!("Windows Server {} SERVERDATACENTERCORE", release.year()),
        eval,
        product_key: answer::product_key((!eval).then(kms).as_ref(), release, "datacenter", eval)
            .unwrap(),
        language: "en-US".into(),
        time_zone: "UTC".into(),
        computer_name: "*".into(),
        administrator_password: Secret::new("Winimg-Build-1!"),
        drivers: vec!["viostor".into(), "NetKVM".into(), "vioserial".into()],
        tpm: false,
    }
}

fn located(value: &str) -> winimg_base::text::Located<String> {
    let source = std::sync::Arc::new(Source {
        name: "recipe.toml".into(),
        text: format!("product_key = \"{value}\"\n"),
    });
    winimg_base::text::Located::new(value.into(), winimg_base::text::Place::new(&source, 15..16))
}

fn kms() -> winimg_base::text::Located<String> {
    located("kms")
}

fn images(release: Release, eval: bool) -> WimImages {
    let year = release.year();
    let suffix = if eval { "Eval" } else { "" };
    let image = |index, word: &str, shown: &str, edition: &str, kind: &str| Image {
        index,
        name: format!("Windows Server {year} {word}"),
        display_name: format!("Windows Server {year} {shown}"),
        description: format!("Windows Server {year} {word}"),
        edition_id: format!("{edition}{suffix}"),
        installation_type: kind.into(),
        build: Some(release.build()),
        version: format!("10.0.{}.1", release.build()),
        arch: Some(Arch::X64),
        languages: vec!["en-US".into()],
        size: 1,
    };
    WimImages {
        from: "server.iso:sources/install.wim".into(),
        images: vec![
            image(
                3,
                "SERVERDATACENTERCORE",
                "Datacenter",
                "ServerDatacenter",
                "Server Core",
            ),
            image(
                4,
                "SERVERDATACENTER",
                "Datacenter (Desktop Experience)",
                "ServerDatacenter",
                "Server",
            ),
        ],
    }
}

fn lint(xml: &str, facts: &Facts) -> Diagnostics {
    let images = images(facts.release, facts.eval);
    answer::lint(
        xml,
        &LintFacts {
            name: "Autounattend.xml".into(),
            firmware: facts.firmware,
            release: facts.release,
            eval: facts.eval,
            tpm: facts.tpm,
            images: &images,
            answer_file_on_medium: None,
        },
    )
}

/// One line a complaint: `12:3 message (label) [help]`, and the text that the caret stands under.
fn shown(found: &Diagnostics) -> Vec<String> {
    found
        .0
        .iter()
        .map(|d| {
            let (place, under) =
                d.problem
                    .place
                    .as_ref()
                    .map_or((String::new(), String::new()), |p| {
                        let (line, column) = p.line_column();
                        (
                            format!("{line}:{column} "),
                            p.source.text[p.span.clone()].to_string(),
                        )
                    });
            let warning = match d.severity {
                Severity::Error => "",
                Severity::Warning => "warning: ",
            };
            let label = if d.label.is_empty() {
                String::new()
            } else {
                format!(" ({})", d.label)
            };
            let help: String = d.problem.cures.iter().map(|h| format!(" [{h}]")).collect();
            format!("{place}{warning}{}{label}{help} ^{under}^", d.problem.fact)
        })
        .collect()
}

/// What the built-in template gives for every release, firmware and kind of medium, with its name.
fn rendered() -> Vec<(String, Facts, String)> {
    let mut all = Vec::new();
    for release in Release::ALL {
        for (firmware, name) in [(Firmware::Uefi, "uefi"), (Firmware::Bios, "bios")] {
            for (eval, kind) in [(true, "eval"), (false, "volume")] {
                let facts = facts(release, firmware, eval);
                let xml = answer::render(&answer::built_in(), &facts).unwrap();
                let file = format!("{}-{name}-{kind}", release.year());
                all.push((file, facts, xml.expose().to_owned()));
            }
        }
    }
    all
}

#[test]
fn whole_answer_files() {
    for (file, facts, xml) in rendered() {
        insta::assert_snapshot!(file.as_str(), xml);
        assert!(xml.is_ascii());
        assert_eq!(shown(&lint(&xml, &facts)), [""; 0], "{file}");
    }
}

/// An independent reader of XML agrees that the files are well-formed.
#[test]
fn xmllint_accepts_the_answer_files() {
    if !have(&["xmllint"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (file, _, xml) in rendered() {
        put(dir.path(), &file, xml.as_bytes());
        run("xmllint", &["--noout", text(&dir.path().join(&file))]);
    }
}

/// BitLocker in an image is fatal: sysprep refuses it, and no clone could read its disk.
#[test]
fn with_a_tpm_windows_is_kept_from_encrypting_its_disk() {
    let plain = facts(Release::Server2025, Firmware::Uefi, true);
    let tpm = Facts {
        tpm: true,
        ..plain.clone()
    };
    let rendered = |facts| answer::render(&answer::built_in(), facts).unwrap();
    let (without, with) = (rendered(&plain), rendered(&tpm));
    let command = r#"        <RunSynchronousCommand wcm:action="add">
          <Order>2</Order>
          <Path>reg.exe add HKLM\SYSTEM\CurrentControlSet\Control\BitLocker /v PreventDeviceEncryption /t REG_DWORD /d 1 /f</Path>
          <Description>winimg: no device encryption in an image</Description>
          <WillReboot>Never</WillReboot>
        </RunSynchronousCommand>
      </RunSynchronous>
"#;
    let end = "      </RunSynchronous>\n";
    assert_eq!(with.expose(), without.expose().replacen(end, command, 1));
    assert_eq!(shown(&lint(with.expose(), &tpm)), [""; 0]);
    // A team's own answer file has to do it, too.
    let found = shown(&lint(without.expose(), &tpm));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0]
            .contains("the machine has a TPM, and nothing keeps Windows from encrypting its disk"),
        "{found:?}"
    );
}

/// Setup of 2025 shrinks C: for a recovery partition of its own where none in front has room for it.
#[test]
fn an_answer_file_for_2025_without_a_recovery_partition_in_front_is_warned_of() {
    for (firmware, place) in [(Firmware::Uefi, "51:14"), (Firmware::Bios, "41:14")] {
        let facts = facts(Release::Server2025, firmware, true);
        let xml = answer::render(&answer::built_in(), &facts).unwrap();
        let small = xml.expose().replace("<Size>1024<", "<Size>550<");
        assert_eq!(
            shown(&lint(&small, &facts)),
            [format!(
                "{place} warning: Setup of Server 2025 puts its recovery partition behind C:, which then cannot grow on \
                 a clone [create a recovery partition of 800 MB or more in front: TypeID \
                 DE94BBA4-06D1-4D40-A16A-BFD50179D6AC (GPT) or 0x27 (MBR)] ^CreatePartition^"
            )]
        );
        let older = Facts {
            release: Release::Server2022,
            image_name: "Windows Server 2022 SERVERDATACENTERCORE".into(),
            ..facts
        };
        let small = small.replace("Server 2025", "Server 2022");
        assert_eq!(shown(&lint(&small, &older)), [""; 0]);
    }
}

/// `winimg verify` refuses an image with one behind C:.
#[test]
fn a_recovery_partition_behind_windows_counts_for_nothing() {
    let facts = facts(Release::Server2025, Firmware::Bios, true);
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    let windows = xml.expose().find("<InstallTo>").expect("InstallTo");
    let (before, after) = xml.expose().split_at(windows);
    let first = after.replacen("<PartitionID>2<", "<PartitionID>1<", 1);
    let said = shown(&lint(&format!("{before}{first}"), &facts));
    let warning = "warning: Setup of Server 2025 puts its recovery partition behind C:";
    assert!(said.iter().any(|s| s.contains(warning)), "{said:?}");
}

#[test]
fn without_drivers_there_is_no_driver_path() {
    let mut facts = facts(Release::Server2022, Firmware::Uefi, true);
    facts.drivers.clear();
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    assert!(!xml.expose().contains("DriverPaths"));
    assert_eq!(shown(&lint(xml.expose(), &facts)), [""; 0]);
}

#[test]
fn values_are_escaped_and_made_ascii() {
    let mut facts = facts(Release::Server2022, Firmware::Uefi, true);
    facts.time_zone = "<a & \"b\" \u{fc}\u{1f600}>".into();
    let template = Source {
        name: "own.xml".into(),
        text: "<t>{{time_zone}}</t>".into(),
    };
    assert_eq!(
        answer::render(&template, &facts).unwrap().expose(),
        "<t>&lt;a &amp; &quot;b&quot; &#252;&#128512;&gt;</t>"
    );
}

#[test]
fn a_wrong_template_names_its_line() {
    let facts = facts(Release::Server2022, Firmware::Uefi, true);
    let say = |text: &str| {
        let template = Source {
            name: "own.xml".into(),
            text: text.into(),
        };
        answer::render(&template, &facts).unwrap_err().to_string()
    };
    assert_eq!(
        say("<a>\n  <b>{{compter_name}}</b>\n</a>"),
        "\
the answer file template uses \"compter_name\", which is not there to use
  at: own.xml:2:6
  cure: the names to use are listed at the head of the built-in template, unattend/autounattend.xml"
    );
    assert_eq!(
        say("<a>\n{{#if uefi}}x</a>"),
        "\
the answer file template is no valid Handlebars: invalid handlebars syntax
  at: own.xml:2:18
  cure: the names to use are listed at the head of the built-in template, unattend/autounattend.xml"
    );
}

#[test]
fn product_keys_follow_the_medium() {
    let key = |given: Option<&str>, release, edition, eval| {
        answer::product_key(given.map(located).as_ref(), release, edition, eval)
            .map_err(|e| e.to_string())
    };
    let (r19, r25) = (Release::Server2019, Release::Server2025);
    assert_eq!(key(None, r19, "standard", true), Ok(None));
    assert_eq!(
        key(Some("kms"), r25, "standard", false),
        Ok(Some("TVRH6-WHNXV-R9WG3-9XRFY-MY832".into()))
    );
    assert_eq!(
        key(
            Some("AAAAA-BBBBB-CCCCC-DDDDD-12345"),
            r25,
            "standard",
            false
        ),
        Ok(Some("AAAAA-BBBBB-CCCCC-DDDDD-12345".into()))
    );
    assert_eq!(
        key(Some("kms"), r19, "standard", true).unwrap_err(),
        "\
evaluation media take no product key
  recipe: recipe.toml:1:16
  cure: remove product_key, or use the medium of your volume licence"
    );
    assert_eq!(
        key(None, r19, "standard", false).unwrap_err(),
        "\
this medium is not for evaluation, so Windows Setup asks for a product key
  cure: add product_key = \"kms\" to [media], or give a key of yours"
    );
    assert_eq!(
        key(Some("kms"), r19, "azureedition", false).unwrap_err(),
        "\
no public KMS client key is known for Windows Server 2019, edition \"azureedition\"
  recipe: recipe.toml:1:16
  cure: give the key itself"
    );
    let slip = key(Some("aaaaa-bbbbb"), r19, "standard", false).unwrap_err();
    assert!(slip.starts_with("this is not a product key\n"));
    assert!(
        !slip.contains("aaaaa"),
        "a key with a slip in it is not shown"
    );
}

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
    for case in include!("answer/broken.rs") {
        let facts = facts(Release::Server2022, case.firmware, case.eval);
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
    let facts_of = |firmware| facts(Release::Server2022, firmware, true);
    let render = |f: &Facts| answer::render(&answer::built_in(), f).unwrap();

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
    assert!(found[0].contains("CommandLine has 260 characters; Windows takes 259"));
}

#[test]
fn complaints_never_show_the_password() {
    let facts = facts(Release::Server2022, Firmware::Uefi, true);
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
    let facts = facts(Release::Server2022, Firmware::Uefi, true);
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    let images = images(Release::Server2022, true);
    let found = answer::lint(
        xml.expose(),
        &LintFacts {
            name: "Autounattend.xml".into(),
            firmware: Firmware::Uefi,
            release: Release::Server2022,
            eval: true,
            tpm: false,
            images: &images,
            answer_file_on_medium: Some("Autounattend.xml"),
        },
    );
    assert_eq!(
        shown(&found),
        [
            "the install medium has an answer file of its own, Autounattend.xml [Setup could take that one: use an untouched medium] ^^"
        ]
    );
}

/// A virtio-win medium in small.
fn virtio(dir: &Path) -> Medium {
    let root = dir.join("virtio");
    for driver in ["viostor", "NetKVM", "vioserial", "Balloon"] {
        for release in ["2k19", "2k22", "2k25", "w11"] {
            for file in ["x.inf", "x.sys", "x.cat", "x.pdb", "help.txt"] {
                put(
                    &root,
                    &format!("{driver}/{release}/amd64/{file}"),
                    format!("{driver} {release} {file}").as_bytes(),
                );
            }
        }
    }
    put(&root, "guest-agent/qemu-ga-x86_64.msi", b"an MSI");
    let iso = dir.join("virtio-win.iso");
    run(
        "genisoimage",
        &[
            "-quiet",
            "-J",
            "-R",
            "-V",
            "virtio-win",
            "-o",
            text(&iso),
            text(&root),
        ],
    );
    Medium::open(&iso).unwrap()
}

#[test]
fn the_answer_cd_holds_what_setup_and_the_first_hooks_need() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let virtio = virtio(dir.path());
    let own = dir.path().join("drivers");
    put(&own, "NetKVM/netkvm.inf", b"our own");
    put(&own, "NetKVM/README.md", b"not a driver");
    let facts = facts(Release::Server2022, Firmware::Uefi, true);
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    let tree = answer::disc(&facts, &xml, Some(&virtio), Some(&own)).unwrap();
    assert_eq!(
        tree.paths().collect::<Vec<_>>(),
        [
            "Autounattend.xml",
            "drv/NetKVM/netkvm.inf",
            "drv/vioserial/x.cat",
            "drv/vioserial/x.inf",
            "drv/vioserial/x.sys",
            "drv/viostor/x.cat",
            "drv/viostor/x.inf",
            "drv/viostor/x.sys",
            "winimg/ErrorHandler.cmd",
            "winimg/SetupComplete.cmd",
            "winimg/agent.cmd",
            "winimg/driver.cmd",
            "winimg/payload.cmd",
            "winimg/qemu-ga-x86_64.msi",
            "winimg/stage.cmd",
        ]
    );
    let path = dir.path().join("answer.iso");
    iso::write(&tree, &path).unwrap();
    let cd = Medium::open(&path).unwrap();
    answer::check_disc(&cd).unwrap();
    let read = |p: &str| cd.read(&cd.find(p).unwrap().unwrap(), 1 << 20).unwrap();
    assert_eq!(read("autounattend.xml"), xml.expose().as_bytes());
    assert_eq!(read("drv/viostor/x.sys"), b"viostor 2k22 x.sys");
    assert_eq!(read("drv/netkvm/netkvm.inf"), b"our own");
    let complete = String::from_utf8(read("winimg/SetupComplete.cmd")).unwrap();
    assert!(
        complete.contains(
            "for %%d in (viostor NetKVM vioserial) do call C:\\winimg\\driver.cmd %%d\r\n"
        )
    );
    assert_eq!(
        complete.matches("\r\n").count(),
        complete.matches('\n').count()
    );
    assert!(
        !format!("{tree:?}").contains("VwBpAG4AaQBtAGc"),
        "the tree shows no password"
    );
}

#[test]
fn a_driver_that_is_not_there_lists_those_that_are() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let virtio = virtio(dir.path());
    let say = |drivers: &[&str], virtio: Option<&Medium>| {
        let mut facts = facts(Release::Server2022, Firmware::Uefi, true);
        facts.drivers = drivers.iter().map(|d| (*d).to_string()).collect();
        answer::disc(&facts, &Secret::new("<x/>"), virtio, None)
            .unwrap_err()
            .to_string()
            .replace(text(dir.path()), "")
    };
    assert_eq!(
        say(&["viostore"], Some(&virtio)),
        "\
the virtio-win medium has no driver viostore for Windows Server 2022
  at: /virtio-win.iso:viostore/2k22/amd64
  found: drivers for 2k22: Balloon, NetKVM, vioserial, viostor
  cure: did you mean \"viostor\"?"
    );
    assert_eq!(
        say(&["viostor"], None),
        "\
there is nothing to take the driver viostor from
  cure: add [media.virtio] to the recipe, or put the driver into drivers/viostor/ beside the recipe"
    );
    assert_eq!(
        say(&["..\\x"], Some(&virtio)),
        "\"..\\x\" is no driver folder: only letters, digits, - and _"
    );
}

#[test]
fn an_answer_cd_without_joliet_is_refused() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    put(&root, "Autounattend.xml", b"<x/>");
    let iso = dir.path().join("a.iso");
    run("genisoimage", &["-quiet", "-o", text(&iso), text(&root)]);
    assert_eq!(
        answer::check_disc(&Medium::open(&iso).unwrap())
            .unwrap_err()
            .fact(),
        "the answer CD is ISO 9660; Windows Setup needs Joliet to see Autounattend.xml"
    );
    put(&root, "unattend.xml", b"<x/>");
    run(
        "genisoimage",
        &["-quiet", "-J", "-o", text(&iso), text(&root)],
    );
    assert_eq!(
        answer::check_disc(&Medium::open(&iso).unwrap())
            .unwrap_err()
            .fact(),
        "the answer CD must have exactly one answer file at its root, Autounattend.xml; it has [\"Autounattend.xml\", \"unattend.xml\"]"
    );
}

/// The parts of a recipe that an answer file is made from.
fn recipe(image: &str, key: Option<&str>, language: &str) -> (Media, MachineSpec, SetupSpec) {
    let nowhere = Origin::new(
        located("").map(|_| Address::Local("server.iso".into())),
        ProofSpec::Unverified {
            reason: located("a test"),
        },
    );
    (
        Media {
            iso: nowhere,
            virtio: None,
            image: located(image),
            product_key: key.map(located),
            language: located(language),
            time_zone: located("UTC"),
        },
        MachineSpec {
            firmware: Firmware::Uefi,
            secure_boot: false,
            disk_bus: DiskBus::Virtio,
            disk_size: 64 << 30,
            cpus: 2,
            memory: 4 << 30,
            network: false,
            tpm: false,
        },
        SetupSpec {
            answer_file: None,
            lint_is_advice: false,
            computer_name: "WINIMG-BUILD".into(),
            timeout: Duration::from_secs(3600),
            still_limit: Duration::from_secs(600),
            drivers: vec!["viostor".into(), "vioserial".into()],
            own_drivers: None,
        },
    )
}

/// From the install medium and the recipe to the CD in the drive.
#[test]
fn a_medium_and_a_recipe_make_an_answer_cd() {
    if !have(&["genisoimage", "wimlib-imagex", "mkfs.vfat"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let iso = dir.path().join("server.iso");
    media::windows(dir.path(), &iso);
    let medium = MediaFacts::read(&Medium::open(&iso).unwrap()).unwrap();
    let settle = |image, key, language| {
        let (media, machine, setup) = recipe(image, key, language);
        Facts::new(
            &medium,
            &media,
            &machine,
            &setup,
            answer::generate_password().unwrap(),
        )
    };
    let facts = settle("standard-core", None, "en-us").unwrap();
    assert_eq!(facts.image_name, "Windows Server 2022 SERVERSTANDARDCORE");
    assert!(facts.eval);
    assert_eq!(facts.language, "en-US");
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    let found = answer::lint(
        xml.expose(),
        &LintFacts::new("Autounattend.xml", &facts, &medium),
    );
    assert_eq!(shown(&found), [""; 0]);
    let tree = answer::disc(&facts, &xml, Some(&virtio(dir.path())), None).unwrap();
    let path = dir.path().join("answer.iso");
    iso::write(&tree, &path).unwrap();
    answer::check_disc(&Medium::open(&path).unwrap()).unwrap();

    let say = |image, key, language| {
        settle(image, key, language)
            .unwrap_err()
            .to_string()
            .replace(text(dir.path()), "")
    };
    assert_eq!(
        say("standard", None, "de-DE"),
        "\
Windows Server 2022 SERVERSTANDARD has no language de-DE
  recipe: recipe.toml:1:16
  expected: en-US
  cure: use one of these, or the medium of that language"
    );
    assert_eq!(
        say("standard", Some("kms"), "en-US")
            .lines()
            .next()
            .unwrap(),
        "evaluation media take no product key"
    );
    assert_eq!(
        say("7", None, "en-US").lines().next().unwrap(),
        "the medium has no image \"7\""
    );
}

/// The bootstrap files keep to what every cmd.exe does alike: no blocks, full paths, labels that exist.
#[test]
fn bootstrap_files_are_plain_batch() {
    let folder = tree::root().join("unattend/bootstrap");
    let words = [
        "@echo", "rem", "set", "if", "for", "goto", "copy", "exit", "call", "echo",
    ];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let script = fs::read_to_string(&path).unwrap();
        assert!(script.is_ascii() && !script.contains('\t'), "{name}");
        let lower = script.to_lowercase();
        for (n, line) in lower.lines().enumerate().map(|(n, l)| (n + 1, l)) {
            if line.starts_with("rem ") || line.starts_with("{{") {
                continue;
            }
            assert!(
                line.len() < 500 && !line.ends_with(['(', '^', ' ']),
                "{name}:{n}"
            );
            for (at, _) in line.match_indices("goto ") {
                let label = line[at + 5..].split(' ').next().unwrap();
                assert!(
                    lower.lines().any(|l| l == format!(":{label}")),
                    "{name}:{n}: no :{label}"
                );
            }
            // The command itself, after conditions, loops and a leading redirection.
            let first = line.trim_start_matches('>').split(' ').next().unwrap();
            let command = line
                .split(' ')
                .find(|w| w.contains(".exe"))
                .filter(|w| !w.contains("\\qga") && !w.contains("qemu-ga"));
            if let Some(program) = command {
                assert!(
                    program.starts_with("%systemroot%\\system32\\"),
                    "{name}:{n}: {program}"
                );
            } else {
                let known = words.contains(&first)
                    || first.starts_with(':')
                    || first.starts_with("c:\\winimg\\")
                    || first == "\\\\.\\com1";
                assert!(
                    known || first.starts_with("%systemroot%"),
                    "{name}:{n}: {first}"
                );
            }
        }
    }
}

/// `winimg validate` has no medium: what any medium could make right is left to the build.
#[test]
fn a_template_is_judged_before_its_medium_is_known() {
    let dir = tempfile::tempdir().unwrap();
    put(
        dir.path(),
        "recipe.toml",
        br#"schema = 1
name = "x"
[media]
image = "datacenter-core"
[media.iso]
url = "server.iso"
unverified = "a test"
[outputs]
raw = {}
"#,
    );
    let (recipe, _) =
        winimg_recipe::recipe::read(&dir.path().join("recipe.toml"), &Default::default());
    let recipe = recipe.unwrap();
    let judge = |from: &str, to: &str| {
        let built_in = answer::built_in();
        assert!(built_in.text.contains(from), "{from}");
        let template = Source {
            name: "own.xml".into(),
            text: built_in.text.replacen(from, to, 1),
        };
        answer::check_template(&template, &recipe)
            .map(|found| {
                found
                    .0
                    .into_iter()
                    .map(|d| d.problem.fact)
                    .collect::<Vec<_>>()
            })
            .map_err(|e| e.fact().to_string())
    };
    assert_eq!(judge("<unattend", "<unattend"), Ok(vec![]));
    // Good for media that take a key.
    let key = "{{#if product_key}}\n          <Key>{{product_key}}</Key>\n{{/if}}";
    let own = "<Key>VDYBN-27WPP-V4HQT-9VMD4-VMK7H</Key>";
    assert_eq!(judge(key, own), Ok(vec![]));
    assert_eq!(
        judge("<AcceptEula>true", "<AcceptEula>yes"),
        Ok(vec![
            "AcceptEula is true or false, not \"yes\"".to_string(),
            "AcceptEula has to be true: Setup waits for it".to_string(),
        ])
    );
    assert_eq!(
        judge("{{language}}", "{{langauge}}"),
        Err("the answer file template uses \"langauge\", which is not there to use".to_string())
    );
}
