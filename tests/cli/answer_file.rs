//! Answer files of the user's own, for Setup and for sysprep: their encodings, what winimg does not
//! know, and what a build needs of them.

use crate::cli::site::{SEAL, Site};
use support::complaints::facts;
use support::tree::root;

const STAGE: &str = r"cmd.exe /c for %i in (D E F G H) do if exist %i:\winimg\stage.cmd call %i:\winimg\stage.cmd %i:";

fn template() -> String {
    let path = root().join("unattend/autounattend.xml");
    std::fs::read_to_string(path).expect("the template")
}

/// A recipe with this answer file for Setup.
fn site(xml: &[u8]) -> Site {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    site.write(
        "recipe.toml",
        &format!("{recipe}\n[setup]\nanswer_file = \"own.xml\"\n"),
    );
    std::fs::write(site.path("own.xml"), xml).expect("the answer file");
    site
}

fn utf_16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let declared = text.replace("encoding=\"utf-8\"", "encoding=\"utf-16\"");
    let units = "\u{feff}"
        .encode_utf16()
        .chain(declared.encode_utf16().collect::<Vec<_>>());
    units.flat_map(unit).collect()
}

#[test]
fn utf_16_is_read_as_windows_reads_it() {
    let text = template();
    let site = site(text.as_bytes());
    let warned = site.run(&["validate", "recipe.toml"]).ended_well().stderr();
    let plan = site.run(&["plan", "recipe.toml"]).ended_well().stdout();
    site.build(&[]).ended_well();
    let built = site.run(&["plan", "recipe.toml"]).ended_well().stdout();
    let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
    for bytes in [
        utf_16(&text, u16::to_le_bytes),
        utf_16(&text, u16::to_be_bytes),
        marked,
    ] {
        std::fs::write(site.path("own.xml"), bytes).expect("the answer file");
        let validated = site.run(&["validate", "recipe.toml"]).ended_well();
        assert_eq!(validated.stderr(), warned);
        // Setup would find the same bytes: the layers of the file in UTF-8 are taken.
        let planned = site.run(&["plan", "recipe.toml"]).ended_well().stdout();
        assert_eq!(planned, built);
        assert_ne!(planned, plan);
    }
}

#[test]
fn sysprep_is_given_the_same_file_from_utf_16() {
    let seal = "[[steps]]\nname = \"seal\"\ngeneralize = { answer_file = \"seal.xml\" }\n";
    let site = Site::new(seal);
    let path = root().join("crates/recipe/src/verbs/generalize/seal.xml");
    let text = std::fs::read_to_string(path).expect("the template");
    site.write("seal.xml", &text);
    let plan = |site: &Site| {
        site.run(&["plan", "recipe.toml", "--json"])
            .ended_well()
            .stdout()
    };
    let expected = plan(&site);
    std::fs::write(site.path("seal.xml"), utf_16(&text, u16::to_le_bytes)).expect("the file");
    assert_eq!(plan(&site), expected);
}

#[test]
fn a_file_that_is_no_text_is_refused_with_its_offset_and_a_cure() {
    let text = template();
    let mut cut = utf_16(&text, u16::to_le_bytes);
    cut.pop();
    let latin = text.replacen("winimg: copy", "winimg: c?py", 1);
    let at = latin.find("c?py").expect("the word") + 1;
    let mut latin = latin.into_bytes();
    latin[at] = 0xf6;
    let cure = "save the file as UTF-8 and declare encoding=\"utf-8\"";
    let site = site(&cut);
    for (bytes, why) in [
        (
            cut.clone(),
            format!("at byte {}, is truncated", cut.len() - 1),
        ),
        (latin, format!("byte {at} is not UTF-8")),
        (
            cut[2..].to_vec(),
            "it is UTF-16 without a byte order mark".to_owned(),
        ),
    ] {
        std::fs::write(site.path("own.xml"), bytes).expect("the answer file");
        let refused = site.run(&["validate", "recipe.toml"]);
        assert_eq!(refused.status(), Some(2), "{}", refused.whole());
        let said = refused.stderr();
        assert!(said.contains(&why) && said.contains(cure), "{said}");
        assert!(said.contains("answer_file = \"own.xml\""), "{said}");
    }
    let declared = text.replace("encoding=\"utf-8\"", "encoding=\"utf-16\"");
    site.write("own.xml", &declared);
    let refused = site.run(&["validate", "recipe.toml"]);
    assert_eq!(refused.status(), Some(2), "{}", refused.whole());
    let fact = "error: the answer file declares encoding=\"utf-16\", but its bytes are UTF-8";
    assert!(refused.stderr().contains(fact), "{}", refused.stderr());
}

/// One for sysprep with a component that winimg's table lacks, and a value that is wrong.
const SEAL_XML: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<unattend xmlns="urn:schemas-microsoft-com:unattend" xmlns:wcm="http://schemas.microsoft.com/WMIConfig/2002/State">
  <settings pass="specialize">
    <component name="Microsoft-Windows-TCPIP" processorArchitecture="amd64" publicKeyToken="31bf3856ad364e35" language="neutral" versionScope="nonSxS"><Interfaces/></component>
    <component name="Microsoft-Windows-Security-SPP-UX" processorArchitecture="amd64" publicKeyToken="31bf3856ad364e35" language="neutral" versionScope="nonSxS"><SkipAutoActivation>true</SkipAutoActivation></component>
  </settings>
</unattend>
"#;

#[test]
fn an_unknown_component_is_a_warning_and_lint_warn_holds_for_sysprep_too() {
    let site =
        Site::new("[[steps]]\nname = \"seal\"\ngeneralize = { answer_file = \"seal.xml\" }\n");
    site.write("seal.xml", SEAL_XML);
    let validated = site.run(&["validate", "recipe.toml"]).ended_well();
    let fact = "warning: winimg does not know the component \"Microsoft-Windows-TCPIP\"";
    assert!(validated.stderr().contains(fact), "{}", validated.stderr());
    site.write("seal.xml", &SEAL_XML.replace(">true<", ">1<"));
    let fact = "SkipAutoActivation is true or false, not \"1\"";
    let refused = site.run(&["validate", "recipe.toml"]);
    assert_eq!(refused.status(), Some(2), "{}", refused.whole());
    assert!(
        refused.stderr().contains(&format!("error: {fact}")),
        "{}",
        refused.stderr()
    );
    let warn = ["--set", "setup.lint=warn"];
    for command in [&["validate", "recipe.toml"], &["plan", "recipe.toml"]] {
        let warned = site.run(&[&command[..], &warn].concat()).ended_well();
        assert!(
            warned.stderr().contains(&format!("warning: {fact}")),
            "{}",
            warned.stderr()
        );
    }
    site.build(&warn).ended_well();
}

#[test]
fn a_build_that_could_not_reach_windows_is_refused_before_it_begins() {
    let text = template().replace(STAGE, "cmd.exe /c ver");
    let from = text.find("{{#if driver_paths}}").expect("the drivers");
    let to = from + text[from..].find("{{/if}}").expect("their end") + "{{/if}}\n".len();
    let site = site(format!("{}{}", &text[..from], &text[to..]).as_bytes());
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &recipe.replace("disk_bus = \"nvme\"\n", ""));
    let validated = site.run(&["validate", "recipe.toml"]).ended_well();
    let mut said = format!("== validate\n{}", validated.stderr());
    for command in [&["plan", "recipe.toml"][..], &crate::cli::site::BUILD] {
        let refused = site.run(command);
        assert_eq!(refused.status(), Some(2), "{}", refused.whole());
        said += &format!("== {}\n{}", command[0], refused.stderr());
    }
    insta::assert_snapshot!(facts(&said));
    assert!(!site.path("out").exists());
    let plan = site
        .run(&["plan", "recipe.toml", "--set", "setup.lint=warn"])
        .ended_well();
    let warned = plan.stderr();
    let about_file = warned
        .lines()
        .filter(|line| line.starts_with("warning: ") && line.contains("own.xml"));
    assert_eq!(about_file.count(), 2, "{warned}");
    let stdout = plan.stdout();
    let before = stdout.find("Before the steps").expect("the section");
    let section: Vec<&str> = stdout[before..].lines().take(9).collect();
    assert!(
        section.contains(&"  Windows Setup, pass specialize"),
        "{section:#?}"
    );
    assert_eq!(stdout.matches("stage.cmd").count(), 1, "{stdout}");
    let note = "  The answer file does not run \\winimg\\stage.cmd: C:\\winimg stays empty\n";
    assert!(stdout.contains(note), "{stdout}");
    // A disk whose driver Windows has, and the command again: nothing is left to say.
    site.write("recipe.toml", &recipe);
    let cured = site.read("own.xml").replace("cmd.exe /c ver", STAGE);
    site.write("own.xml", &cured);
    let plan = site.run(&["plan", "recipe.toml"]).ended_well();
    assert!(!plan.stderr().contains("own.xml"), "{}", plan.stderr());
    assert!(plan.stdout().contains("C:\\winimg\\stage.cmd\n"));
}

#[test]
fn a_password_that_windows_may_refuse_is_warned_of_and_not_shown() {
    let vagrant = "dgBhAGcAcgBhAG4AdABBAGQAbQBpAG4AaQBzAHQAcgBhAHQAbwByAFAAYQBzAHMAdwBvAHIAZAA=";
    let text = template().replace("{{administrator_password}}", vagrant);
    let site = site(text.as_bytes());
    let fact = "warning: the password of Administrator does not meet the default policy of Windows Server: it uses 1 of \
                the four character classes; three are required";
    let plainly = text.replace(vagrant, "vagrant").replace(
        "<PlainText>false</PlainText>",
        "<PlainText>true</PlainText>",
    );
    for xml in [&text, &plainly] {
        site.write("own.xml", xml);
        let validated = site.run(&["validate", "recipe.toml"]).ended_well();
        assert!(validated.stderr().contains(fact), "{}", validated.stderr());
        assert!(
            !validated.stderr().contains("vagrant"),
            "{}",
            validated.stderr()
        );
        assert!(
            !validated.stderr().contains(vagrant),
            "{}",
            validated.stderr()
        );
    }
}
