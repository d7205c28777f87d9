//! A recipe for each rule of winimg's targets that breaks it, and one that does not.

mod platforms;

/// The line that is complained about ends with `# here`; without one in `bad` it is the line that
/// names the target.
pub struct Case {
    pub target: &'static str,
    pub why: &'static str,
    /// A part of the rule's source.
    pub source: &'static str,
    pub bad: String,
    pub good: String,
}

const CONF: &str = r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\conf\cloudbase-init.conf";
const UNATTEND: &str =
    r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\conf\cloudbase-init-unattend.conf";
const EVALUATION_2019: &str = "549bca46c055157291be6c22a3aaaed8330e78ef4382c99ee82c896426a1cee1";
const EVALUATION_2022: &str = "3e4fa6d8507b554856fc9ca6079cc402df11a8b79344871669f0251535255325";
const EVALUATION_2025: &str = "7b052573ba7894c9924e3e87ba732ccd354d18cb75a883efa9b900ea125bfd51";

impl Case {
    pub fn recipe(&self, breaks: bool) -> String {
        let body = if breaks { &self.bad } else { &self.good };
        let here = if body.contains("# here") {
            ""
        } else {
            " # here"
        };
        let media = if body.contains("[media") {
            ""
        } else {
            "[media]\nimage = \"datacenter-core\"\n\
                 [media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n"
        };
        let outputs = if body.contains("[outputs]") {
            ""
        } else {
            "[outputs]\nraw = {}\n"
        };
        let seal = if body.contains("generalize") {
            ""
        } else {
            "[[steps]]\nname = \"seal\"\ngeneralize = {}\n"
        };
        format!(
            "schema = 1\nname = \"small\"\ntarget = [\"{}\"]{here}\n{media}{body}{outputs}{seal}",
            self.target
        )
    }

    /// Answer files that the recipes name.
    pub fn files(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("loop.xml", LOOP),
            ("by-name.xml", BY_NAME),
            ("by-rid.xml", BY_RID),
            ("behind.xml", BEHIND),
            ("last.xml", LAST),
            ("vagrant.xml", VAGRANT),
        ]
    }
}

const LOOP: &str = "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"><settings pass=\"specialize\"><Path>cmd.exe /c cloudbase-init.exe &amp;&amp; exit 1 || exit 2</Path></settings></unattend>";
const BY_NAME: &str = "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"><settings pass=\"specialize\"><Path>net user Administrator /active:no</Path></settings></unattend>";
const BY_RID: &str = "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"><settings pass=\"specialize\"><Path>powershell.exe -Command \"Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' } | Disable-LocalUser\"</Path></settings></unattend>";
const BEHIND: &str = "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"><CreatePartition><Order>1</Order></CreatePartition><CreatePartition><Order>2</Order></CreatePartition><InstallTo><DiskID>0</DiskID><PartitionID>1</PartitionID></InstallTo></unattend>";
const LAST: &str = "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"><CreatePartition><Order>1</Order></CreatePartition><CreatePartition><Order>2</Order></CreatePartition><InstallTo><DiskID>0</DiskID><PartitionID>2</PartitionID></InstallTo></unattend>";

fn case(
    target: &'static str,
    why: &'static str,
    source: &'static str,
    bad: impl Into<String>,
    good: impl Into<String>,
) -> Case {
    Case {
        target,
        why,
        source,
        bad: bad.into(),
        good: good.into(),
    }
}

fn outputs(names: &str, mark: &str) -> String {
    format!("[outputs]\n{names} = {{}}{mark}\n")
}

fn machine(line: &str) -> String {
    format!("[machine]\n{line}\n")
}

fn file(path: &str, content: &str, mark: &str) -> String {
    format!(
        "[[steps]]\nname = \"conf\"\nfile = {{ path = '{path}', content = \"{content}\\n\" }}{mark}\n"
    )
}

fn registry(key: &str, name: &str, data: &str, mark: &str) -> String {
    let kind = if data.starts_with('[') {
        "multi_sz"
    } else {
        "dword"
    };
    format!(
        "[[steps]]{mark}\nname = \"value\"\nregistry = {{ key = '{key}', name = \"{name}\", type = \"{kind}\", data = {data} }}\n"
    )
}

fn ports(ports: &str) -> String {
    format!("[[steps]]\nname = \"ports\"\nfirewall = {{ name = \"ports\", ports = [{ports}] }}\n")
}

fn seal(answer_file: &str, mark: &str) -> String {
    format!(
        "[[steps]]\nname = \"seal\"\ngeneralize = {{ answer_file = \"{answer_file}\" }}{mark}\n"
    )
}

fn media(digest: &str, mark: &str) -> String {
    format!(
        "[media]\nimage = \"datacenter-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\nsha256 = \"{digest}\"{mark}\n"
    )
}

const VAGRANT: &str = "<unattend><UserAccounts><LocalAccounts><LocalAccount><Group>Administrators</Group><Name>vagrant</Name>\
    </LocalAccount></LocalAccounts></UserAccounts></unattend>";
const HERE: &str = " # here";
const TERMINAL: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Terminal Server";
const ZONE: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation";

pub fn all() -> Vec<Case> {
    let mut cases = disks();
    cases.extend(accounts());
    cases.extend(formats());
    cases.extend(platforms::clouds());
    cases.extend(platforms::operators());
    cases.extend(platforms::metadata());
    cases
}

/// first-boot: the disk and the hardware.
fn disks() -> Vec<Case> {
    let feature = |names: &str, mark: &str| {
        format!("[outputs]\nami = {{}}\n[[steps]]{mark}\nname = \"f\"\nfeature = [{names}]\n")
    };
    vec![
        case(
            "openstack",
            "C: cannot grow into a clone's larger disk when another partition is behind it",
            "packer-examples-for-vsphere#1043",
            "[setup]\nanswer_file = \"behind.xml\" # here\n",
            "[setup]\nanswer_file = \"last.xml\"\n",
        ),
        case(
            "vsphere",
            "VMware has no virtio disk: the OVA gets a SATA controller, and whether its Windows starts from that is not known",
            "unproven",
            "[media]\nimage = \"datacenter-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n\
             [media.virtio]\nurl = \"https://example.com/v.iso\"\nunverified = \"test\"\n[machine]\ndisk_bus = \"virtio\" # here\n[outputs]\nova = {}\n",
            machine("disk_bus = \"nvme\""),
        ),
        case(
            "vsphere",
            "VMware's BIOS cannot boot from virtio or NVMe disks: the OVA gets a SATA controller, and whether its Windows starts from that is not known",
            "unproven",
            machine("firmware = \"bios\"\ndisk_bus = \"nvme\" # here"),
            machine("firmware = \"bios\"\ndisk_bus = \"ahci\""),
        ),
        case(
            "aws-import",
            "import-image accepts disks below 8 TiB",
            "VM Import/Export",
            machine("disk_size = \"9 TiB\" # here"),
            machine("disk_size = \"8 TiB\""),
        ),
        case(
            "aws-import",
            "Amazon EC2 (import-image) does not accept images of machines with Secure Boot",
            "Secure Boot is not supported",
            machine("secure_boot = true # here"),
            machine("secure_boot = false"),
        ),
        case(
            "hyperv-gen2",
            "Hyper-V, generation 2 has only UEFI firmware",
            "generation 1 or 2",
            machine("firmware = \"bios\" # here"),
            machine("firmware = \"uefi\""),
        ),
        case(
            "hyperv-gen1",
            "Hyper-V, generation 1 has only BIOS firmware",
            "generation 1 or 2",
            machine("firmware = \"uefi\" # here"),
            machine("firmware = \"bios\""),
        ),
        case(
            "hyperv-gen1",
            "Hyper-V, generation 1 does not accept images of machines with Secure Boot",
            "generation 1 or 2",
            machine("secure_boot = true # here"),
            machine("firmware = \"bios\""),
        ),
        case(
            "aws-import",
            "import-image rejects a Windows with the Hyper-V role",
            "\"Windows Server VMs with the Hyper-V server role installed are not supported\"",
            feature("\"Containers\", \"microsoft-hyper-v\"", HERE),
            feature(
                "\"Containers\", \"Microsoft-Hyper-V-Management-PowerShell\"",
                "",
            ),
        ),
    ]
}

/// first-boot: who can log in to a clone.
fn accounts() -> Vec<Case> {
    let renames = |value: &str, mark: &str| {
        file(CONF, &format!("rename_admin_user={value}"), mark) + &seal("by-rid.xml", "")
    };
    vec![
        case(
            "openstack",
            "cloudbase-init renames the built-in account and leaves it disabled, so no one can log in",
            "createuser.py",
            renames("true", HERE),
            renames("false", ""),
        ),
        case(
            "openstack",
            "an enabled built-in account without a password must change it at its first logon, which can stop a clone",
            "image-builder#2117",
            file(CONF, "username=x", "") + &seal("loop.xml", HERE),
            file(CONF, "username=x", "") + &seal("by-rid.xml", ""),
        ),
        case(
            "openstack",
            "without `reset_service_password=false` cloudbase-init's first pass gives its service's account another password, and clones loop on \"The computer restarted unexpectedly\"",
            "cofoundry",
            file(UNATTEND, "username=x", HERE),
            file(UNATTEND, "reset_service_password=false", ""),
        ),
        case(
            "openstack",
            "a first pass of cloudbase-init that keeps failing restarts the clone forever",
            "RunSynchronousCommand",
            seal("loop.xml", HERE),
            seal("by-rid.xml", ""),
        ),
        case(
            "openstack",
            "the built-in account has another name on media of other languages",
            "well-known SIDs",
            seal("by-name.xml", HERE),
            seal("by-rid.xml", ""),
        ),
        case(
            "wmco-machineset",
            "the operator logs in to machines of a MachineSet as Administrator",
            "windowsmachine_controller.go:378",
            seal("by-rid.xml", HERE),
            seal("loop.xml", ""),
        ),
        case(
            "wmco-machineset",
            "the operator logs in to machines of a MachineSet as Administrator, and cloudbase-init renames that account",
            "windowsmachine_controller.go:378",
            file(CONF, "rename_admin_user=true", HERE),
            file(CONF, "rename_admin_user=false", ""),
        ),
        case(
            "vagrant",
            "Vagrant logs in as the user vagrant",
            "Creating a Base Box",
            "",
            "[[steps]]\nname = \"v\"\nuser = { name = \"vagrant\" }\n",
        ),
        // An account that Setup makes is one, too.
        case(
            "vagrant",
            "Vagrant logs in as the user vagrant",
            "Creating a Base Box",
            "[setup]\nanswer_file = \"last.xml\"\n",
            "[setup]\nanswer_file = \"vagrant.xml\"\n",
        ),
    ]
}

/// The files that a platform takes.
fn formats() -> Vec<Case> {
    let takes = |target, why, source, bad: &str, good: &str| {
        case(target, why, source, outputs(bad, ""), outputs(good, ""))
    };
    vec![
        takes(
            "vsphere",
            "vSphere imports an OVA, or a VMDK as the disk of an existing machine",
            "OVF and OVA",
            "raw",
            "ova",
        ),
        takes(
            "azure",
            "Azure only accepts a fixed VHD",
            "Prepare a Windows VHD",
            "raw",
            "vhd",
        ),
        takes(
            "aws-import",
            "import-image accepts raw, VHD, VMDK and OVA; it would turn a VHDX with a GPT into an MBR disk",
            "VM Import/Export",
            "qcow2",
            "raw",
        ),
        takes(
            "hyperv-gen1",
            "a machine of generation 1 needs a VHD or a VHDX",
            "generation 1 or 2",
            "raw",
            "vhd",
        ),
        takes(
            "vagrant",
            "Vagrant needs a box",
            "Box File Format",
            "qcow2",
            "box_libvirt",
        ),
        takes(
            "hyperv-gen2",
            "a machine of generation 2 needs a VHDX",
            "generation 1 or 2",
            "vhd",
            "vhdx",
        ),
        takes(
            "openstack",
            "OpenStack's images on KVM are qcow2 or raw",
            "Image Guide",
            "vhd",
            "qcow2",
        ),
        takes(
            "proxmox",
            "Proxmox imports qcow2 or raw, and restores a backup",
            "qm importdisk",
            "vhd",
            "raw",
        ),
        takes(
            "kubevirt",
            "KubeVirt imports qcow2, raw and VHD, and runs a containerDisk directly",
            "containerized-data-importer#1669",
            "ova",
            "raw",
        ),
        takes(
            "nutanix",
            "Prism accepts qcow2, raw and VHD",
            "from memory",
            "ova",
            "qcow2",
        ),
        takes(
            "gcp",
            "the import accepts a single disk file in a format that QEMU supports",
            "qemu_img.go",
            "ova",
            "vhd",
        ),
        case(
            "vsphere",
            "the OVA of Server 2025 names the guest windows2022srvNext_64Guest, which needs hardware version 20 (vSphere 8) or later",
            "inferred",
            media(EVALUATION_2025, "") + "[outputs]\nova = { hardware_version = 19 } # here\n",
            media(EVALUATION_2025, "") + "[outputs]\nova = { hardware_version = 20 }\n",
        ),
    ]
}
