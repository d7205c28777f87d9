//! A row's recipe: the least that its target takes and its clones are judged by.

use std::path::{Path, PathBuf};

use super::Row;
use support::tree::root;

/// What only the target decides.
struct Needs {
    /// Files of `recipes/packs`, and `account.toml` of the row's own folder.
    packs: &'static [&'static str],
    vars: String,
    steps: &'static str,
    /// Beside vioserial, which the guest agent needs.
    drivers: &'static [&'static str],
    seal: Seal,
    output: &'static str,
}

/// The answer file that clones are given.
enum Seal {
    Own,
    Pack(&'static str),
    /// The platform's.
    None,
}

/// Writes it into `folder`. It names media of this source tree.
pub fn written(row: &Row, folder: &Path) -> PathBuf {
    let file = folder.join("recipe.toml");
    std::fs::write(&file, text(row)).expect("the recipe");
    std::fs::write(folder.join("account.toml"), ACCOUNT).expect("what it includes");
    file
}

/// cloudbase-init's own MSI makes this account, and the stand-in's does not.
const ACCOUNT: &str = r#"schema = 1

[[steps]]
name = "the account of cloudbase-init's service"
user = { name = "cloudbase-init", password = "published:Box-2026!", groups = ["Administrators"] }
"#;

/// One recipe for all; `@word@` is the row's.
const TEMPLATE: &str = r#"schema  = 1
name    = "@name@"
target  = ["@target@"]
include = @packs@

[vars]
standin         = "@standin@"
roots           = "{{standin}}/components/ca/root.pem"
iso_url         = "{{standin}}/@release@-@channel@.iso"
virtio_url      = "{{standin}}/virtio-win.iso"
windows_edition = "@image@"
product_key     = "@key@"
@vars@
[media.iso]
unverified = "the stand-in installer is made on this machine by `make install-matrix`"

[media.virtio]
unverified = "the stand-in's drivers are made on this machine by `make install-matrix`"
signature  = { kind = "catalogs", roots = "{{roots}}", subject = "CN=winimg demo code signing", timestamp = "optional" }

[machine]
firmware  = "@firmware@"
disk_bus  = "@bus@"
disk_size = "12 GiB"
cpus      = 2
memory    = "2 GiB"
@trust@
[setup]
drivers = @drivers@
@steps@
[[steps]]
name       = "seal"
generalize = { @seal@ }
@clone@
[outputs]
@output@ = {}
"#;

fn text(row: &Row) -> String {
    let needs = needs(row.target);
    let windows = format!("packs/windows-server-{}.toml", row.release);
    let packs = [&["packs/virtio.toml"], needs.packs, &[windows.as_str()]].concat();
    // A recipe's own files are looked for beside it alone.
    let seals = root().join("recipes/packs");
    let seal = match needs.seal {
        Seal::Own => String::new(),
        Seal::Pack(pack) => format!("answer_file = {:?}", seals.join(pack).join("seal.xml")),
        Seal::None => "answer_file = \"none\"".to_owned(),
    };
    let mut drivers = vec!["vioserial"];
    drivers.extend(needs.drivers);
    if row.disk_bus == "virtio" && !drivers.contains(&"viostor") {
        drivers.push("viostor");
    }
    let standin = root().join("target/standin");
    let mut text = TEMPLATE.to_owned();
    for (word, value) in [
        ("@name@", row.name()),
        ("@target@", row.target.into()),
        ("@packs@", format!("{packs:?}")),
        ("@standin@", standin.display().to_string()),
        ("@release@", row.release.into()),
        ("@channel@", row.channel.into()),
        ("@image@", row.image.into()),
        ("@key@", row.key().into()),
        ("@vars@", needs.vars),
        ("@firmware@", row.firmware.into()),
        ("@bus@", row.disk_bus.into()),
        ("@trust@", row.trust().into()),
        ("@drivers@", format!("{drivers:?}")),
        ("@steps@", needs.steps.into()),
        ("@seal@", seal),
        ("@clone@", clone(row, drivers.contains(&"viostor"))),
        ("@output@", needs.output.into()),
    ] {
        text = text.replace(word, &value);
    }
    text
}

/// What the clones' own registry says of the Windows that was installed, and which driver starts it.
fn clone(row: &Row, viostor: bool) -> String {
    let edition = if row.image.starts_with("standard") {
        "Standard"
    } else {
        "Datacenter"
    };
    let (id, word) = if row.is_evaluation() {
        ("Eval", " Evaluation")
    } else {
        ("", "")
    };
    let build = match row.release {
        "2019" => "17763",
        "2022" => "20348",
        _ => "26100",
    };
    let kind = if row.is_core() {
        "Server Core"
    } else {
        "Server"
    };
    let product = format!("Windows Server {} {edition}{word}", row.release);
    let edition = format!("Server{edition}{id}");
    let mut text = String::new();
    for (name, data) in [
        ("CurrentBuildNumber", build),
        ("ProductName", &product),
        ("EditionID", &edition),
        ("InstallationType", kind),
    ] {
        text += &format!(
            r#"
[[clone]]
why      = "the row's Windows was installed"
registry = {{ key = 'HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion', name = "{name}", type = "sz", data = "{data}" }}
"#
        );
    }
    let driver = match row.disk_bus {
        "virtio" => "viostor",
        "nvme" => "stornvme",
        _ => "storahci",
    };
    text += &format!(
        r#"
[[clone]]
why      = "Windows starts from the bus that it was installed on"
registry = {{ key = 'HKLM\SYSTEM\CurrentControlSet\Services\{driver}', name = "Start", type = "dword", data = 0 }}
"#
    );
    if !viostor {
        text += r#"
[[clone]]
why     = "neither the build's disk nor a clone's needs it, and no Windows has it inbox"
missing = 'C:\Windows\System32\drivers\viostor.sys'
"#;
    }
    text
}

fn needs(target: &str) -> Needs {
    // What the target's clones start from, where Windows has no driver for it.
    let (drivers, output): (&[&str], _) = match target {
        "vsphere" => (&[], "ova"),
        "aws-import" => (&[], "raw"),
        "openstack" => (&["viostor", "NetKVM"], "raw"),
        "kubevirt" => (&["viostor", "NetKVM"], "qcow2"),
        "proxmox" | "nutanix" => (&["vioscsi", "NetKVM"], "qcow2"),
        "hyperv-gen2" => (&[], "vhdx"),
        _ => (&[], "vhd"),
    };
    let service = match target {
        "vsphere" => "ovfservice.OvfService",
        "aws-import" => "ec2service.EC2Service",
        "openstack" => "httpservice.HttpService",
        "proxmox" => "nocloudservice.NoCloudConfigDriveService",
        _ => "configdrive.ConfigDriveService",
    };
    let (packs, vars, steps, seal): (&[&str], _, _, _) = match target {
        "vagrant" => (&[], String::new(), VAGRANT, Seal::Own),
        "wmco-byoh" => (
            &["packs/openssh.toml"],
            String::new(),
            WMCO,
            Seal::Pack("wmco"),
        ),
        "azure" => (
            &[
                "packs/cloudbase-init.toml",
                "account.toml",
                "packs/azure.toml",
                "packs/azure-custom-data.toml",
            ],
            cloudbase_init("azure_custom_data.CustomDataService") + AZURE_PLUGINS,
            AZURE,
            Seal::None,
        ),
        _ => (
            &["packs/cloudbase-init.toml"],
            cloudbase_init(&format!("cloudbaseinit.metadata.services.{service}")),
            COMPONENT,
            Seal::Pack("cloudbase-init"),
        ),
    };
    Needs {
        packs,
        vars,
        steps,
        drivers,
        seal,
        output,
    }
}

fn cloudbase_init(service: &str) -> String {
    format!(
        r#"
cloudbase_init_url          = "{{{{standin}}}}/components/{{{{cloudbase_init_file}}}}"
cloudbase_metadata_services = "{service}"
# What Proxmox calls its files; read by NoCloud's service alone.
cloudbase_extra_settings = """
[nocloud]
metadata_file=META_DATA
userdata_file=USER_DATA"""
"#
    )
}

const COMPONENT: &str = r#"
[components.cloudbase-init]
checksum_url = "{{standin}}/components/SHA256SUMS"
"#;

/// Those of recipes/capi-azure.toml: Azure's agent does the rest.
const AZURE_PLUGINS: &str = r#"
cloudbase_plugins = "cloudbaseinit.plugins.windows.extendvolumes.ExtendVolumesPlugin, cloudbaseinit.plugins.common.mtu.MTUPlugin, cloudbaseinit.plugins.common.userdata.UserDataPlugin"
"#;

const AZURE: &str = r#"
[components.cloudbase-init]
checksum_url = "{{standin}}/components/SHA256SUMS"

[[clone]]
why    = "the trial's custom data write it"
exists = 'C:\AzureData\winimg-try.txt'
"#;

const VAGRANT: &str = r#"
[[steps]]
name = "vagrant"
user = { name = "vagrant", password = "published:Box-2026!", expires = true, groups = ["Administrators"] }

[[steps]]
name     = "sshd's port"
firewall = { name = "sshd", ports = [22] }
"#;

const WMCO: &str = r#"
[[steps]]
name     = "ports of metrics and container logs"
firewall = { name = "WMCO", ports = [9182, 10250] }
"#;
