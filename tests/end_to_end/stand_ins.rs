//! Small stand-ins for what a shipped recipe fetches, and a recipe on top of it that takes them: a file for each input of the
//! recipe, with its digest, signed as its publisher signs (`publishers.rs`); what nobody signs is named. A new input of a pack
//! needs no line here where its kind is known and its steps ask for nothing of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use support::tree::root;
use winimg_recipe::{
    ArchiveKind, ComponentSpec, InputSource, ReadOptions, Recipe, UndecidedValue, read,
};

use super::program::output_of;
use super::publishers::{self, Log, Publishers};

/// What archives hold that steps take out of them or count on.
const MEMBERS: [(&str, &[&str]); 12] = [
    (
        "cni",
        &[
            "win-bridge.exe",
            "win-overlay.exe",
            "host-local.exe",
            "LICENSE",
        ],
    ),
    (
        "containerd",
        &[
            "bin/containerd.exe",
            "bin/ctr.exe",
            "bin/containerd-shim-runhcs-v1.exe",
            "bin/containerd-stress.exe",
        ],
    ),
    ("crictl", &["crictl.exe"]),
    ("ec2-ena", &["ena.inf", "ena.sys", "ena.cat"]),
    ("ec2-nvme", &["AWSNVMe.inf", "AWSNVMe.sys", "AWSNVMe.cat"]),
    ("flannel-cni", &["flannel-amd64.exe", "README.md"]),
    (
        "gmsa-keyvault-plugin",
        &[
            "CCGAKVPlugin.dll",
            "CCGAKVPluginEvents.man",
            "CCGEvents.man",
            "registerplugin.reg",
        ],
    ),
    (
        "nssm",
        &["nssm-2.24/win64/nssm.exe", "nssm-2.24/win32/nssm.exe"],
    ),
    (
        "openssh",
        &[
            "OpenSSH-Win64/sshd.exe",
            "OpenSSH-Win64/ssh-agent.exe",
            "OpenSSH-Win64/libcrypto.dll",
        ],
    ),
    // As GitHub packs a commit: in a folder named after it.
    (
        "sdn-scripts",
        &[
            "SDN-242fb0c/Kubernetes/windows/debug/VFP.psm1",
            "SDN-242fb0c/Kubernetes/windows/debug/collectlogs.ps1",
            "SDN-242fb0c/Kubernetes/windows/debug/dumpVfpPolicies.ps1",
            "SDN-242fb0c/Kubernetes/windows/debug/portReservationTest.ps1",
            "SDN-242fb0c/Kubernetes/windows/debug/starthnstrace.cmd",
            "SDN-242fb0c/Kubernetes/windows/debug/startpacketcapture.cmd",
            "SDN-242fb0c/Kubernetes/windows/debug/startpacketcapture.ps1",
            "SDN-242fb0c/Kubernetes/windows/debug/stoppacketcapture.cmd",
            "SDN-242fb0c/Kubernetes/windows/helper.psm1",
            "SDN-242fb0c/Kubernetes/windows/hns.psm1",
            "SDN-242fb0c/Kubernetes/windows/start.ps1",
        ],
    ),
    (
        "sig-windows-tools",
        &[
            "sig-windows-tools-401ee6f/README.md",
            "sig-windows-tools-401ee6f/hack/DebugWindowsNode.ps1",
        ],
    ),
    (
        "windows-cni",
        &["nat.exe", "sdnbridge.exe", "sdnoverlay.exe"],
    ),
];

/// What steps ask a program, and what it says.
const ANSWERS: [(&str, &str, &str); 4] = [
    (
        "containerd.exe",
        "--version",
        "containerd github.com/containerd/containerd/v2 v{version}\n",
    ),
    ("kubeadm.exe", "version -o short", "{version}\n"),
    (
        "kubectl.exe",
        "version --client -o json",
        "{\n  \"gitVersion\": \"{version}\"\n}\n",
    ),
    ("kubelet.exe", "--version", "Kubernetes {version}\n"),
];

/// What a person decides.
const VALUES: [(&str, &str); 1] = [(
    "ssh_administrators_keys",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0Fvbi1Tj2Ck2dPdmWb9y8z4LXqyrZ7vQqf3mTqXxYq operator",
)];

/// What the gMSA plugin registers: the two keys that its pack looks for.
const REGISTRATION: &str = "Windows Registry Editor Version 5.00\r\n\r\n\
    [HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\CCG\\COMClasses\\{CCC2A336-D7F3-4818-A213-272B7924213E}]\r\n@=\"\"\r\n\r\n\
    [HKEY_LOCAL_MACHINE\\SOFTWARE\\Classes\\Interface\\{6ECDA518-2010-4437-8BC3-46E752B7B172}]\r\n@=\"ICcgDomainAuthCredentials\"\r\n";

/// The one of packs/kb5012637.toml.
const CUMULATIVE_UPDATE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<assembly xmlns=\"urn:schemas-microsoft-com:asm.v3\" \
    manifestVersion=\"1.0\">\n  <assemblyIdentity name=\"Package_for_RollupFix\" version=\"20348.681.1.8\" language=\"neutral\" \
    processorArchitecture=\"amd64\" publicKeyToken=\"31bf3856ad364e35\"/>\n</assembly>\n";

/// A team's own recipe on top of a shipped one: makes `folder/NAME.toml` and the files that it names.
pub fn recipe_on(shipped: &Path, folder: &Path, log: &Log) -> PathBuf {
    recipe_with(shipped, folder, log, None)
}

/// The same; a program that lies in `programs` goes in as it is, and Windows comes from the medium there, which knows it.
pub fn recipe_with(shipped: &Path, folder: &Path, log: &Log, programs: Option<&Path>) -> PathBuf {
    let standin = root().join("target/standin");
    let recipe = planned(shipped, &standin);
    let name = recipe.name.value.clone();
    let mut own = format!(
        "schema = 1\nname = \"{name}\"\npolicy = \"signed\"\ninclude = [{shipped:?}]\n\n[vars]\n"
    );
    for open in &recipe.undecided {
        if let UndecidedValue::Variable { variable, .. } = open {
            let value = VALUES.iter().find(|(known, _)| *known == variable.name);
            let (_, value) = value.unwrap_or_else(|| panic!("no value for {}", variable.name));
            writeln!(own, "{} = {value:?}", variable.name).expect("a String");
        }
    }
    own += "\n[unsigned]\n";
    let signatures = |component: &ComponentSpec| !component.origin.signatures.is_empty();
    for component in recipe.components.iter().filter(|one| !signatures(one)) {
        let name = &component.name.value;
        writeln!(own, "{name} = \"its publisher signs nothing\"").expect("a String");
    }
    // As small as the demo's; Windows wants more.
    own += "\n[machine]\ndisk_size = \"11 GiB\"\ncpus = 2\nmemory = \"2 GiB\"\n";
    // The stand-in's restart after the features comes sooner than Windows' as well.
    own += "\n[setup]\nsettle_time = \"20s\"\n";
    let maker = Maker {
        publishers: Publishers::new(folder, log),
        standin,
        folder,
        programs,
    };
    for input in recipe.inputs() {
        own += &match input.source {
            InputSource::Medium(_) => maker.medium(&input.id.to_string()),
            InputSource::Component(component) => maker.component(component),
            InputSource::Image(_) => panic!("{}: no stand-in for a container image", input.id),
        };
    }
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, own).expect("a recipe");
    let options = ReadOptions {
        search: vec![root().join("recipes")],
        ..ReadOptions::default()
    };
    let (made, said) = read(&path, &options);
    let made = made.unwrap_or_else(|| panic!("{}", said.render(false)));
    publishers::same_but_for_roots(&recipe, &made);
    path
}

/// The shipped recipe as far as it says what it fetches.
fn planned(shipped: &Path, standin: &Path) -> Recipe {
    let medium = |name: &str| standin.join(name).display().to_string();
    let env = [
        ("iso_url", medium("standin.iso")),
        ("virtio_sha256", "0".repeat(64)),
        ("csi_proxy_url", medium("csi-proxy.exe")),
        ("csi_proxy_sha256", "0".repeat(64)),
    ];
    let env = env.map(|(name, value)| (format!("WINIMG_VAR_{name}"), value));
    let options = ReadOptions {
        env: env.into(),
        search: vec![root().join("recipes")],
        ..ReadOptions::default()
    };
    let (recipe, said) = read(shipped, &options);
    recipe.unwrap_or_else(|| panic!("{}", said.render(false)))
}

struct Maker<'a> {
    publishers: Publishers,
    standin: PathBuf,
    folder: &'a Path,
    programs: Option<&'a Path>,
}

impl Maker<'_> {
    fn medium(&self, id: &str) -> String {
        if id == "media.iso" {
            let made = self
                .programs
                .map_or(self.standin.to_owned(), |programs| programs.join("medium"));
            return self.input(id, &made.join("standin.iso"));
        }
        // Its catalogs were signed when it was made, without a timestamp.
        let root = self.standin.join("components/ca/root.pem");
        let table = self.input(id, &self.standin.join("virtio-win.iso"));
        format!(
            "{table}signature = {{ kind = \"catalogs\", roots = {root:?}, subject = \"CN=winimg demo code signing\", timestamp = \"optional\" }}\n"
        )
    }

    /// A table that gives an input another source and digest.
    fn input(&self, id: &str, file: &Path) -> String {
        format!("\n[{id}]\nurl = {file:?}\nsha256 = \"{}\"\n", digest(file))
    }

    fn component(&self, component: &ComponentSpec) -> String {
        let name = component.name.value.as_str();
        let version = component.version.as_deref().unwrap_or("1.0");
        let file = self.folder.join(&component.file);
        match (component.unpack, ending(&component.file)) {
            (Some(archive), _) => self.archive(component, version, archive, &file),
            (None, "exe") => self.program(&file, version, None),
            (None, "msi") => self.package(name, &file),
            (None, "msu") => self.update(&file),
            (None, other) => panic!("{name}: no stand-in for a file of the kind {other}"),
        }
        self.publishers.sign(component, &file, None);
        let table = self.input(&format!("components.{name}"), &file);
        table + &self.publishers.table(component, &file)
    }

    /// A PE image that says its version, and may play a program of the stand-in.
    fn program(&self, file: &Path, version: &str, plays: Option<&str>) {
        let name = file_name(file);
        let real = self.programs.map(|programs| programs.join(name));
        if let Some(real) = real.filter(|real| real.exists()) {
            std::fs::copy(real, file).expect("a copy");
            return;
        }
        let mut answers: Vec<String> = ANSWERS
            .iter()
            .filter(|(program, ..)| *program == name)
            .map(|(_, asked, said)| format!("{asked}={}", said.replace("{version}", version)))
            .collect();
        if answers.is_empty() {
            answers.push(format!("--version={name} {version}\n"));
        }
        let maker = root().join("tests/demo/program.py");
        let mut words = vec![text(&maker), text(file), "--fill", "30000"];
        words.extend(plays.into_iter().flat_map(|name| ["--plays", name]));
        words.extend(answers.iter().map(String::as_str));
        output_of("python3", &words);
    }

    /// An archive with its members.
    fn archive(&self, component: &ComponentSpec, version: &str, archive: ArchiveKind, file: &Path) {
        let name = component.name.value.as_str();
        let members = MEMBERS.iter().find(|(known, _)| *known == name);
        let (_, members) = members.unwrap_or_else(|| panic!("{name}: what does it hold?"));
        let tree = self.folder.join(format!("{name}.d"));
        for member in *members {
            let path = tree.join(member);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let stem = file_name(&path).trim_end_matches(&format!(".{}", ending(member)));
            let content = match ending(member) {
                "exe" | "dll" | "sys" => {
                    self.program(&path, version, None);
                    self.publishers.sign(component, &path, Some(member));
                    continue;
                }
                "inf" => driver(stem),
                "man" => manifest(stem),
                "reg" => REGISTRATION.to_owned(),
                _ => format!("winimg stand-in: {member}\r\n"),
            };
            std::fs::write(path, content).expect("a member");
        }
        let (tree, file) = (text(&tree), text(file));
        match archive {
            ArchiveKind::Zip => output_of("7z", &["a", "-tzip", file, &format!("{tree}/.")]),
            ArchiveKind::Tar => output_of("tar", &["-C", tree, "-cf", file, "."]),
            ArchiveKind::TarGz => output_of("tar", &["-C", tree, "-czf", file, "."]),
            ArchiveKind::TarZst => output_of("tar", &["-C", tree, "--zstd", "-cf", file, "."]),
        };
    }

    fn package(&self, name: &str, file: &Path) {
        match name {
            "cloudbase-init" => self.cloudbase_init(file),
            "ec2launch" => {
                let tree = self.folder.join(format!("{name}.d"));
                std::fs::create_dir_all(&tree).expect("a folder");
                self.program(&tree.join("EC2Launch.exe"), "2.0.2107", Some("ec2launch"));
                self.program(&tree.join("EC2LaunchService.exe"), "2.0.2107", None);
                let source = root().join("tests/end_to_end/stand_ins/ec2launch.wxs");
                let from = format!("cd {tree:?} && exec wixl -a x64 -o {file:?} {source:?}");
                output_of("sh", &["-c", &from]);
            }
            _ => panic!("{name}: no stand-in for its package"),
        }
    }

    /// The demo's, which also makes the account that the real one makes. Its service still runs as SYSTEM.
    fn cloudbase_init(&self, file: &Path) {
        let made = self.standin.join("components").join(file_name(file));
        std::fs::copy(&made, file).unwrap_or_else(|e| panic!("{}: {e}", made.display()));
        for query in [
            // A command line in a folder (34), deferred (0x400), as SYSTEM (0x800).
            "INSERT INTO `CustomAction` (`Action`, `Type`, `Source`, `Target`) VALUES ('MakeUser', 3106, 'INSTALLDIR', 'net.exe user cloudbase-init aA1-cloudbase /add')",
            "INSERT INTO `CustomAction` (`Action`, `Type`, `Source`, `Target`) VALUES ('JoinGroup', 3106, 'INSTALLDIR', 'net.exe localgroup Administrators cloudbase-init /add')",
            "INSERT INTO `InstallExecuteSequence` (`Action`, `Sequence`) VALUES ('MakeUser', 5790)",
            "INSERT INTO `InstallExecuteSequence` (`Action`, `Sequence`) VALUES ('JoinGroup', 5791)",
        ] {
            output_of("msibuild", &[text(file), "-q", query]);
        }
    }

    /// An `.msu` with the cabinet of a cumulative update.
    fn update(&self, file: &Path) {
        let tree = self.folder.join("update.d");
        std::fs::create_dir_all(&tree).expect("a folder");
        std::fs::write(tree.join("update.mum"), CUMULATIVE_UPDATE).expect("a manifest");
        let pack = format!(
            "cd {tree:?} && gcab -c Windows10.0-KB5012637-x64.cab update.mum && gcab -c {file:?} Windows10.0-KB5012637-x64.cab"
        );
        output_of("sh", &["-c", &pack]);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn file_name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .expect("a name")
}

fn ending(file: &str) -> &str {
    file.rsplit_once('.').map_or("", |(_, ending)| ending)
}

fn digest(file: &Path) -> String {
    let said = output_of("openssl", &["dgst", "-sha256", "-r", text(file)]);
    said.split_whitespace().next().expect("a digest").to_owned()
}

/// A driver package for a device that no machine here has.
fn driver(name: &str) -> String {
    let text = format!(
        "[Version]\nSignature=\"$WINDOWS NT$\"\nClass=System\nClassGUID={{4D36E97D-E325-11CE-BFC1-08002BE10318}}\n\
         Provider=%VENDOR%\nDriverVer=01/01/2026,1.0.0.0\nCatalogFile={name}.cat\nPnpLockdown=1\n\n\
         [DestinationDirs]\nFiles=13\n\n[SourceDisksNames]\n1=%DISK%,,,\n\n[SourceDisksFiles]\n{name}.sys=1,,\n\n\
         [Manufacturer]\n%VENDOR%=Models,NTamd64.10.0...14393\n\n[Models.NTamd64.10.0...14393]\n\
         %DEVICE%=Install,PCI\\VEN_1D0F&DEV_FFFF\n\n[Install.NT]\nCopyFiles=Files\n\n[Files]\n{name}.sys\n\n\
         [Install.NT.Services]\nAddService={name},0x00000002,Service\n\n\
         [Service]\nDisplayName=%DEVICE%\nServiceType=1\nStartType=3\nErrorControl=1\nServiceBinary=%13%\\{name}.sys\n\n\
         [Strings]\nVENDOR=\"winimg stand-in\"\nDISK=\"winimg stand-in driver disk\"\nDEVICE=\"winimg stand-in {name}\"\n"
    );
    text.replace('\n', "\r\n")
}

/// An instrumentation manifest with one publisher and one channel.
fn manifest(name: &str) -> String {
    // Another one for each name of a pack's.
    let guid = format!("{{77696e69-6d67-0000-0000-{:012x}}}", name.len());
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n\
         <instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\r\n\
         <instrumentation><events><provider name=\"{name}\" guid=\"{guid}\" symbol=\"{name}\" \
         resourceFileName=\"%SystemRoot%\\System32\\{name}.dll\" messageFileName=\"%SystemRoot%\\System32\\{name}.dll\">\r\n\
         <channels><channel name=\"{name}/Admin\" chid=\"Admin\" type=\"Admin\" enabled=\"true\"/></channels>\r\n\
         </provider></events></instrumentation></instrumentationManifest>\r\n"
    )
}
