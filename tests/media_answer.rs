//! Answer files: golden files, complete or as differences, the lint's complaints, and the answer
//! CD.

mod contract;
mod disc;
mod lint;

use std::fs;

use support::difference::lines_that_differ;
use support::media::{have, put, run, text};
use support::tree;
use winimg::answer::{self, AnswerFacts, LintFacts};
use winimg_base::diag::{Diagnostics, Severity};
use winimg_base::text::{Secret, SourceText};
use winimg_formats::wim::{WimArch, WimImage, WimImages, WindowsRelease};
use winimg_recipe::Firmware;

fn facts(release: WindowsRelease, firmware: Firmware, eval: bool) -> AnswerFacts {
    AnswerFacts {
        release,
        firmware,
        image_name: format!("Windows Server {} SERVERDATACENTERCORE", release.year()),
        eval,
        product_key: answer::choose_product_key(
            (!eval).then(kms).as_ref(),
            release,
            "datacenter",
            eval,
        )
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
    let source = std::sync::Arc::new(SourceText::new(
        "recipe.toml",
        format!("product_key = \"{value}\"\n"),
    ));
    winimg_base::text::Located::new(value.into(), winimg_base::text::Place::new(&source, 15..16))
}

fn kms() -> winimg_base::text::Located<String> {
    located("kms")
}

fn images(release: WindowsRelease, eval: bool) -> WimImages {
    let year = release.year();
    let suffix = if eval { "Eval" } else { "" };
    let image = |index, word: &str, shown: &str, edition: &str, kind: &str| WimImage {
        index,
        name: format!("Windows Server {year} {word}"),
        display_name: format!("Windows Server {year} {shown}"),
        description: format!("Windows Server {year} {word}"),
        edition_id: format!("{edition}{suffix}"),
        installation_type: kind.into(),
        build: Some(release.build()),
        version: format!("10.0.{}.1", release.build()),
        arch: Some(WimArch::X64),
        languages: vec!["en-US".into()],
        size: 1,
    };
    WimImages {
        part: winimg_formats::wim::WimPart {
            number: 1,
            of: 1,
            guid: [0; 16],
        },
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

fn lint(xml: &str, facts: &AnswerFacts) -> Diagnostics {
    let images = images(facts.release, facts.eval);
    answer::lint(
        xml,
        &LintFacts {
            name: "Autounattend.xml".into(),
            firmware: facts.firmware,
            release: facts.release,
            eval: facts.eval,
            tpm: facts.tpm,
            images: &images.images,
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
fn rendered() -> Vec<(String, AnswerFacts, String)> {
    let mut all = Vec::new();
    for release in WindowsRelease::ALL {
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

/// The answer files with a complete snapshot, which other tests read too. The snapshots of the
/// others are differences from the first, or from the second for Server 2025.
const WHOLE: [&str; 3] = ["2022-uefi-eval", "2025-uefi-eval", "2025-bios-eval"];

#[test]
fn whole_answer_files() {
    let rendered = rendered();
    let [before_2025, from_2025, _] = WHOLE.map(|name| {
        let whole = rendered.iter().find(|(file, ..)| file == name);
        let (_, _, xml) = whole.expect("one of the rendered");
        xml
    });
    for (file, facts, xml) in &rendered {
        let base = if file.starts_with("2025") {
            from_2025
        } else {
            before_2025
        };
        if WHOLE.contains(&file.as_str()) {
            insta::assert_snapshot!(file.as_str(), xml);
        } else {
            insta::assert_snapshot!(file.as_str(), lines_that_differ(base, xml));
        }
        assert!(xml.is_ascii());
        assert_eq!(shown(&lint(xml, facts)), [""; 0], "{file}");
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
    let plain = facts(WindowsRelease::Server2025, Firmware::Uefi, true);
    let tpm = AnswerFacts {
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
        let facts = facts(WindowsRelease::Server2025, firmware, true);
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
        let older = AnswerFacts {
            release: WindowsRelease::Server2022,
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
    let facts = facts(WindowsRelease::Server2025, Firmware::Bios, true);
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
    let mut facts = facts(WindowsRelease::Server2022, Firmware::Uefi, true);
    facts.drivers.clear();
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    assert!(!xml.expose().contains("DriverPaths"));
    assert_eq!(shown(&lint(xml.expose(), &facts)), [""; 0]);
}

#[test]
fn values_are_escaped_and_made_ascii() {
    let mut facts = facts(WindowsRelease::Server2022, Firmware::Uefi, true);
    facts.time_zone = "<a & \"b\" \u{fc}\u{1f600}>".into();
    let template = SourceText::new("own.xml", "<t>{{time_zone}}</t>");
    assert_eq!(
        answer::render(&template, &facts).unwrap().expose(),
        "<t>&lt;a &amp; &quot;b&quot; &#252;&#128512;&gt;</t>"
    );
}

#[test]
fn a_wrong_template_names_its_line() {
    let facts = facts(WindowsRelease::Server2022, Firmware::Uefi, true);
    let say = |text: &str| {
        let template = SourceText::new("own.xml", text);
        answer::render(&template, &facts).unwrap_err().to_string()
    };
    assert_eq!(
        say("<a>\n  <b>{{compter_name}}</b>\n</a>"),
        "\
the answer file template uses \"compter_name\", which does not exist
  at: own.xml:2:6
  cure: the head of the built-in template, unattend/autounattend.xml, lists the valid names"
    );
    assert_eq!(
        say("<a>\n{{#if uefi}}x</a>"),
        "\
the answer file template is not valid Handlebars: invalid handlebars syntax
  at: own.xml:2:18
  cure: the head of the built-in template, unattend/autounattend.xml, lists the valid names"
    );
}

#[test]
fn product_keys_follow_the_medium() {
    let key = |given: Option<&str>, release, edition, eval| {
        answer::choose_product_key(given.map(located).as_ref(), release, edition, eval)
            .map_err(|e| e.to_string())
    };
    let (r19, r25) = (WindowsRelease::Server2019, WindowsRelease::Server2025);
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
  cure: add product_key = \"kms\" to [media], or use a key of your own"
    );
    assert_eq!(
        key(Some("kms"), r19, "azureedition", false).unwrap_err(),
        "\
no public KMS client key is known for Windows Server 2019, edition \"azureedition\"
  recipe: recipe.toml:1:16
  cure: set product_key to the key itself"
    );
    let slip = key(Some("aaaaa-bbbbb"), r19, "standard", false).unwrap_err();
    assert!(slip.starts_with("this is not a product key\n"));
    assert!(
        !slip.contains("aaaaa"),
        "a key with a slip in it is not shown"
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
    let (recipe, _) = winimg_recipe::read(&dir.path().join("recipe.toml"), &Default::default());
    let recipe = recipe.unwrap();
    let judge = |from: &str, to: &str| {
        let built_in = answer::built_in();
        assert!(built_in.text.contains(from), "{from}");
        let template = SourceText::new("own.xml", built_in.text.replacen(from, to, 1));
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
        Err("the answer file template uses \"langauge\", which does not exist".to_string())
    );
}
