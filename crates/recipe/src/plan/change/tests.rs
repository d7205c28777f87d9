//! What is said of two builds that differ.

use super::super::chain::{BuildPart, GuestAction, InstallationPart, PayloadContent, PayloadPart};
use super::super::{BuildChain, ExitRule};
use super::*;
use crate::ops::Encoding;

fn digest(of: &str) -> Digest {
    Digest::sha256_of(of.as_bytes())
}

fn machine() -> MachineSpec {
    MachineSpec {
        firmware: Firmware::Uefi,
        secure_boot: false,
        disk_bus: DiskBus::Virtio,
        disk_size: 64 << 30,
        cpus: 4,
        memory: 4 << 30,
        network: false,
        tpm: false,
    }
}

fn installed(machine: MachineSpec) -> (&'static str, BuildPart) {
    let part = BuildPart::Installation(Box::new(InstallationPart {
        hypervisor: "qemu".into(),
        iso: digest("iso"),
        virtio: None,
        image: "Windows Server 2022 SERVERDATACENTERCORE".into(),
        answer_file: digest("answer file"),
        bootstrap: digest("bootstrap"),
        machine,
    }));
    ("the installation", part)
}

fn script(name: &'static str, text: &str) -> (&'static str, BuildPart) {
    judged(name, text, ExitRule::Zero)
}

fn judged(name: &'static str, text: &str, exit: ExitRule) -> (&'static str, BuildPart) {
    let text = text.into();
    let part = BuildPart::Step {
        payload: Vec::new(),
        ops: vec![GuestAction::Script { text, exit }],
    };
    (name, part)
}

fn kubelet(version: &str) -> (&'static str, BuildPart) {
    let content = PayloadContent::Component {
        component: "kubelet".into(),
        version: Some(version.into()),
        file: "kubelet.exe".into(),
        digest: digest(version),
    };
    carrying("step `kubelet`", vec![content])
}

fn carrying(name: &'static str, contents: Vec<PayloadContent>) -> (&'static str, BuildPart) {
    let payload = contents.into_iter().zip(0..);
    let payload = payload.map(|(content, number)| PayloadPart { number, content });
    let part = BuildPart::Step {
        payload: payload.collect(),
        ops: Vec::new(),
    };
    (name, part)
}

fn chain(parts: impl IntoIterator<Item = (&'static str, BuildPart)>) -> BuildChain {
    let mut chain = BuildChain::default();
    for (name, part) in parts {
        chain.push(name, part);
    }
    chain
}

fn old() -> [(&'static str, BuildPart); 3] {
    [
        installed(machine()),
        script("step `a`", "echo one\necho two"),
        kubelet("1.36.0"),
    ]
}

#[test]
fn a_change_is_described() {
    let mut all = String::new();
    let mut case = |what: &str, new: &[&(&'static str, BuildPart)]| {
        let new = chain(new.iter().map(|part| (*part).clone()));
        let words = describe_change(chain(old()).links(), new.links()).join("\n");
        all += &format!("{what}:\n  {}\n", words.replace('\n', "\n  "));
    };
    let [first, a, last] = &old();
    let (b, newer) = (script("step `b`", "b"), kubelet("1.36.1"));
    case("another version", &[first, a, &newer]);
    let line = script("step `a`", "echo one\necho 2");
    case("another line", &[first, &line, last]);
    let fewer = script("step `a`", "echo one");
    case("a line less", &[first, &fewer, last]);
    let codes = judged("step `a`", "echo one\necho two", ExitRule::Any);
    case("other exit codes", &[first, &codes, last]);
    case(
        "turned off",
        &[first, &("step `a`", BuildPart::Skipped), last],
    );
    case("a new step", &[first, &b, a, last]);
    case("a step gone", &[first, last]);
    case("another step", &[first, &b, last]);
    case("another order", &[first, last, a]);
    let other = installed(MachineSpec {
        cpus: 2,
        disk_size: 65 << 30,
        disk_bus: DiskBus::Ahci,
        tpm: true,
        ..machine()
    });
    case("another machine", &[&other, a, last]);
    case("one step more", &[first, a, last, a]);
    assert_eq!(
        all,
        "another version:\n  step `kubelet`: the version of `kubelet` changed from 1.36.0 to 1.36.1\n  \
         step `kubelet`: the file of `kubelet` changed from sha256:0a140b4261f3… to sha256:2e6b748761fa…\n\
         another line:\n  step `a`: script 1 changed from echo two to echo 2\n\
         a line less:\n  step `a`: script 1 is shorter\n\
         other exit codes:\n  step `a`: the exit rule of script 1 changed from exit 0 to any exit code\n\
         turned off:\n  step `a`: skipped was added\n  step `a`: script 1 was removed\n  \
         step `a`: the exit rule of script 1 was removed\n\
         a new step:\n  step `b` was added\n\
         a step gone:\n  step `a` was removed\n\
         another step:\n  step `a` was replaced by step `b`\n\
         another order:\n  step `kubelet` now comes before step `a`\n\
         another machine:\n  the installation: machine.disk_bus changed from virtio to ahci\n  \
         the installation: machine.disk_size changed from 65536 MiB to 66560 MiB\n  \
         the installation: machine.cpus changed from 4 to 2\n  \
         the installation: machine.tpm changed from false to true\n\
         one step more:\n  \n"
    );
}

/// Every kind of thing that a step carries in, each changed in one way.
#[test]
fn whatever_a_step_carries_has_a_name() {
    let contents = |version: &str, text: &str, encoding| {
        vec![
            PayloadContent::Tree {
                component: "cni".into(),
                version: Some(version.into()),
                strip: 1,
                only: vec!["*.exe".into()],
                digest: digest("tree"),
            },
            PayloadContent::Image {
                image: "pause".into(),
                digest: digest(version),
            },
            PayloadContent::Local {
                name: "drivers".into(),
                digest: digest(text),
            },
            PayloadContent::Text {
                file: "kubelet.yaml".into(),
                text: text.into(),
                encoding,
            },
        ]
    };
    let step = |contents| chain([carrying("step `s`", contents)]);
    let old = step(contents("1", "a: b\n", Encoding::Utf8));
    let new = step(contents("2", "a: c\n", Encoding::Utf16));
    assert_eq!(
        describe_change(old.links(), new.links()).join("\n"),
        "step `s`: the version of `cni` changed from 1 to 2\n\
         step `s`: the container image `pause` changed from sha256:6b86b273ff34… to sha256:d4735e3a265e…\n\
         step `s`: the local file drivers changed from sha256:52c9693cf3f2… to sha256:95805377d127…\n\
         step `s`: the text p\\0003\\kubelet.yaml changed from a: b to a: c\n\
         step `s`: the encoding of the text p\\0003\\kubelet.yaml changed from UTF-8 to UTF-16LE with BOM"
    );
}

#[test]
fn of_a_long_line_the_difference_is_shown() {
    let line = |data: &str| {
        format!(
            r"C:\Windows\System32\reg.exe add HKLM\SOFTWARE\Example /v Tier /t REG_SZ /d {data} /f"
        )
    };
    assert_eq!(
        describe_value_change(&line("gold"), &line("silver")),
        "changed from …v Tier /t REG_SZ /d gold /f to …v Tier /t REG_SZ /d silver /f"
    );
}

#[test]
fn every_part_changes_the_keys_from_there_on_and_names_change_none() {
    let [first, a, last] = old();
    let before = chain(old());
    let changed = chain([first.clone(), script("step `a`", "echo"), last.clone()]);
    assert_eq!(count_common(before.links(), changed.links()), 1);
    assert_ne!(before.links()[2].key, changed.links()[2].key);
    let renamed = chain([first, ("step `other`", a.1), last]);
    assert_eq!(count_common(before.links(), renamed.links()), 3);
}
