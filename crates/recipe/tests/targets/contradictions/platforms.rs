//! What single platforms, and what runs on them, ask for.

use super::{CONF, Case, EVALUATION_2019, EVALUATION_2022, EVALUATION_2025, HERE, TERMINAL, ZONE};
use super::{case, file, media, ports, registry, seal};

/// What Azure and AWS ask for beside that.
pub fn clouds() -> Vec<Case> {
    let remote = |data: &str, mark: &str| registry(TERMINAL, "fDenyTSConnections", data, mark);
    let utc = |data: &str, mark: &str| registry(ZONE, "RealTimeIsUniversal", data, mark);
    let sysprep = "\"you should not use the /unattend switch\"";
    let page = "Prepare a Windows VHD";
    let paging = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management";
    let dumps = r"HKLM\SOFTWARE\Microsoft\Windows\Windows Error Reporting\LocalDumps";
    let disks = r"HKLM\SYSTEM\CurrentControlSet\Services\partmgr\Parameters";
    let agent = r"C:\ProgramData\Amazon\EC2Launch\config\agent-config.yml";
    let licensed = |license: &str, mark: &str| {
        media(EVALUATION_2022, mark)
            + &format!("[outputs]\nami = {{ license_type = \"{license}\" }}\n")
    };
    vec![
        case(
            "azure",
            "sysprep must not get an answer file: it stays in C:\\Windows\\Panther, which Setup reads before the one on Azure's provisioning disc",
            sysprep,
            seal("by-rid.xml", HERE),
            seal("none", ""),
        ),
        // Without an answer file the account is what the platform's own makes of it.
        case(
            "azure",
            "an enabled built-in account without a password must change it at its first logon, which can stop a clone",
            "image-builder#2117",
            file(CONF, "username=x", "") + &seal("loop.xml", HERE),
            file(CONF, "username=x", "") + &seal("none", ""),
        ),
        case(
            "azure",
            "Azure's hardware clock is UTC",
            page,
            utc("0", HERE),
            utc("1", ""),
        ),
        case(
            "azure",
            "Azure requires the SAN policy OnlineAll: otherwise data disks stay offline",
            page,
            "",
            registry(disks, "SanPolicy", "1", ""),
        ),
        case(
            "azure",
            "Azure's instructions for VHDs require remote desktop",
            page,
            remote("1", HERE),
            remote("0", ""),
        ),
        case(
            "azure",
            "Azure's instructions for VHDs require remote desktop to be open in the firewall",
            page,
            "",
            ports("\"3000-4000\""),
        ),
        case(
            "azure",
            "Azure's instructions for VHDs require the page file on the temporary disk D:",
            page,
            "",
            registry(paging, "PagingFiles", r"['D:\pagefile.sys']", ""),
        ),
        case(
            "azure",
            "Azure's instructions for VHDs require dumps of programs that crash",
            page,
            "",
            registry(dumps, "DumpType", "2", ""),
        ),
        case(
            "aws-import",
            "AWS licenses Windows Server itself, not its evaluation",
            "licensing options",
            licensed("AWS", HERE),
            licensed("BYOL", ""),
        ),
        case(
            "aws-import",
            "import-image requires remote desktop",
            "from memory",
            "",
            remote("0", ""),
        ),
        case(
            "aws-import",
            "import-image requires remote desktop to be open in the firewall",
            "from memory",
            ports("22"),
            ports("3389"),
        ),
        case(
            "aws-import",
            "EC2's hardware clock is UTC",
            "Set the time",
            "",
            utc("1", ""),
        ),
        case(
            "aws-import",
            "EC2Launch and cloudbase-init must not both manage the administrator",
            "inferred",
            file(CONF, "username=x", ""),
            file(CONF, "username=x", "")
                + &file(agent, "version: 1.0", "").replace("\"conf\"", "\"agent\""),
        ),
        case(
            "openstack",
            "the hardware clock of most OpenStack clouds is UTC",
            "inferred",
            "",
            utc("1", ""),
        ),
        case(
            "nutanix",
            "OpenShift's provider for Nutanix creates machines whose hardware clock is UTC",
            "HardwareClockTimezone",
            "",
            utc("1", ""),
        ),
        case(
            "gcp",
            "the import boots the disk to change it, and generalizes it itself: a sealed disk would run Setup first",
            "inferred",
            seal("by-rid.xml", HERE),
            seal("none", ""),
        ),
        case(
            "gcp",
            "the import supports Windows Server up to 2022",
            "no windows-2025",
            media(EVALUATION_2025, HERE) + "[outputs]\nvhd = {}\n",
            media(EVALUATION_2022, "") + "[outputs]\nvhd = {}\n",
        ),
    ]
}

/// What OpenShift's operator and Vagrant ask for.
pub fn operators() -> Vec<Case> {
    let ssh = |start: &str, mark: &str| {
        format!(
            "[[steps]]{mark}\nname = \"sshd\"\nservice = {{ name = \"sshd\", start = \"{start}\" }}\n"
        )
    };
    let puts = |path: &str, mark: &str| {
        format!("[[steps]]{mark}\nname = \"puts\"\nfile = {{ path = '{path}', content = \"x\" }}\n")
    };
    let port = "the operator needs TCP 22 (SSH), 9182 (metrics) and 10250 (logs) open";
    let service = "the operator connects over SSH: sshd must start with Windows";
    let own = "the operator installs the container runtime and the node's programs itself, and stops if they exist";
    let mut cases = vec![
        case(
            "openstack",
            "a clone gets its name, network and user from OpenStack's metadata through cloudbase-init, but no step of the recipe writes cloudbase-init's files",
            "services.rst",
            "",
            file(CONF, "username=x", ""),
        ),
        case(
            "proxmox",
            "a clone gets its name, network and user from Proxmox's metadata through cloudbase-init, but no step of the recipe writes cloudbase-init's files",
            "services.rst",
            "",
            file(CONF, "username=x", ""),
        ),
        case(
            "kubevirt",
            "a clone gets its name, network and user from KubeVirt's metadata through cloudbase-init, but no step of the recipe writes cloudbase-init's files",
            "services.rst",
            "",
            file(CONF, "username=x", ""),
        ),
        case(
            "vagrant",
            "the box for libvirt names a SATA controller, and whether a Windows that was built on NVMe starts from it is not known",
            "vagrant-libvirt",
            on_bus("nvme", "box_libvirt", HERE),
            on_bus("ahci", "box_libvirt", ""),
        ),
        case(
            "vagrant",
            "the box for VirtualBox names a SATA controller, and whether a Windows that was built on another one starts from it is not known",
            "User Manual",
            on_bus("nvme", "box_virtualbox", HERE),
            on_bus("ahci", "box_virtualbox", ""),
        ),
        case(
            "vagrant",
            "Vagrant connects over SSH, unless its Vagrantfile selects winrm",
            "Creating a Base Box",
            "",
            ports("22"),
        ),
        case(
            "wmco-machineset",
            "on vSphere the operator needs Server 2022 or 2025: 2019 has no configurable VXLAN port",
            "KB4565351",
            media(EVALUATION_2019, HERE) + "[outputs]\nova = {}\n",
            media(EVALUATION_2022, "") + "[outputs]\nova = {}\n",
        ),
        case(
            "wmco-machineset",
            "on Nutanix the operator supports Server 2022 and 2025",
            "supported Windows Server versions",
            media(EVALUATION_2019, HERE) + "[outputs]\nqcow2 = {}\n",
            media(EVALUATION_2022, "") + "[outputs]\nqcow2 = {}\n",
        ),
    ];
    for target in ["wmco-byoh", "wmco-machineset"] {
        let prerequisites = "byoh-instance-pre-requisites.md";
        cases.extend([
            case(
                target,
                port,
                prerequisites,
                ports("22, 9182"),
                ports("22, 9182, 10250"),
            ),
            case(
                target,
                service,
                prerequisites,
                ssh("demand", HERE),
                ssh("auto", ""),
            ),
            case(
                target,
                own,
                prerequisites,
                puts(r"C:\k\kubelet.exe", HERE),
                puts(r"C:\kept\kubelet.exe", ""),
            ),
        ]);
    }
    cases
}

/// Drivers, and the metadata services that cloudbase-init is to ask.
pub fn metadata() -> Vec<Case> {
    let asks = |service: &str, mark: &str| {
        let line = format!("metadata_services=cloudbaseinit.metadata.services.x.{service}");
        file(CONF, &line, mark)
    };
    let services = [
        (
            "vsphere",
            "vSphere provides metadata through VMware's guestinfo or the OVF environment",
            "image-builder",
            "VMwareGuestInfoService",
        ),
        (
            "azure",
            "cloudbase-init's own AzureService needs the provisioning disc, which Azure's agent has ejected when cloudbase-init starts",
            "azureservice.py",
            "CustomDataService",
        ),
        (
            "aws-import",
            "EC2 provides metadata through the instance metadata service",
            "image-builder",
            "EC2Service",
        ),
        (
            "hyperv-gen1",
            "Hyper-V has no metadata service: metadata is on a config drive, or on a drive labelled cidata",
            "services.rst",
            "ConfigDriveService",
        ),
        (
            "hyperv-gen2",
            "Hyper-V has no metadata service: metadata is on a config drive, or on a drive labelled cidata",
            "services.rst",
            "NoCloudConfigDriveService",
        ),
        (
            "openstack",
            "OpenStack provides metadata on a config drive or through its service",
            "services.rst",
            "HttpService",
        ),
        (
            "proxmox",
            "Proxmox provides metadata on a drive, as NoCloud or as a config drive",
            "citype",
            "NoCloudConfigDriveService",
        ),
        (
            "kubevirt",
            "KubeVirt provides metadata on a drive, as a config drive or as NoCloud",
            "startup scripts",
            "ConfigDriveService",
        ),
        (
            "nutanix",
            "Nutanix provides metadata on a config drive",
            "image-builder",
            "ConfigDriveService",
        ),
    ];
    let drivers = |names: &str| {
        let media = "[media]\nimage = \"datacenter-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n\
                     [media.virtio]\nurl = \"https://example.com/v.iso\"\nunverified = \"test\"\n";
        format!("{media}[setup]\ndrivers = [{names}]\n[machine]\ndisk_bus = \"nvme\"\n")
    };
    let no_drivers = "Windows has no inbox drivers for virtio disks and network cards";
    let disks = ["openstack", "proxmox", "kubevirt", "nutanix"].map(|target| {
        let good = drivers("\"viostor\", \"vioscsi\", \"NetKVM\"");
        case(
            target,
            no_drivers,
            "virtio-win",
            drivers("\"NetKVM\""),
            good,
        )
    });
    let archive = {
        let with = |names: &str| drivers(names) + "[outputs]\nvma = {}\n";
        case(
            "proxmox",
            "the machine in the archive has its disk on virtio-scsi",
            "virtio-win",
            with("\"NetKVM\""),
            with("\"vioscsi\", \"NetKVM\""),
        )
    };
    let services = services.into_iter().map(|(target, why, source, service)| {
        case(
            target,
            why,
            source,
            asks("MaasService", HERE),
            asks(service, ""),
        )
    });
    let all = services.chain(disks).chain([archive]);
    all.chain(upper_case()).collect()
}

/// The names of the files on Proxmox' NoCloud drive.
fn upper_case() -> [Case; 2] {
    let asks = "metadata_services=cloudbaseinit.metadata.services.nocloudservice.NoCloudConfigDriveService\\n\
                [nocloud]\\nmetadata_file=META_DATA\\nuserdata_file=USER_DATA";
    let without = |line: &str| file(CONF, &asks.replace(line, ""), HERE);
    [
        case(
            "proxmox",
            "Proxmox' NoCloud drive has the file META_DATA, and cloudbase-init looks for meta-data unless its configuration names another file",
            "cloudbase-init#89",
            without("\\nmetadata_file=META_DATA"),
            file(CONF, asks, ""),
        ),
        case(
            "proxmox",
            "Proxmox' NoCloud drive has the file USER_DATA, and cloudbase-init looks for user-data unless its configuration names another file",
            "cloudbase-init#89",
            without("\\nuserdata_file=USER_DATA"),
            file(CONF, asks, ""),
        ),
    ]
}

/// A box of a machine whose disk was on this bus.
fn on_bus(bus: &str, output: &str, mark: &str) -> String {
    format!("[machine]\ndisk_bus = \"{bus}\"{mark}\n[outputs]\n{output} = {{}}\n")
}
