//! Identities of the build machine that all clones of a sealed image would share.
//!
//! SSH host keys, WinRM's certificates and the state of cloudbase-init's plugins are checked in
//! every image (`leftovers`).
//!
//! Sources: Kubernetes, kubelet `--cert-dir`, `--kubeconfig`, `--bootstrap-kubeconfig` and
//! kubeadm's paths on Windows; RKE2, docs/advanced.md (an agent's password) and rke2#2939 (its
//! place on Windows); Amazon EC2, "EC2Launch v2" (tasks with the frequency `once`); Microsoft,
//! "System store locations".

use winimg_recipe::RegistryKey;

use super::super::finding::{Verdict, VerifyFinding};
use super::super::image::InspectedImage;
use super::expectations::SealExpectations;

const KUBELET_PKI: &str = r"C:\var\lib\kubelet\pki";
const KUBELET: &str = r"C:\etc\kubernetes\kubelet.conf";
const BOOTSTRAP: &str = r"C:\etc\kubernetes\bootstrap-kubelet.conf";
const RANCHER: &str = r"C:\etc\rancher\node\password";
const EC2: &str = r"C:\ProgramData\Amazon\EC2Launch\state\.run-once";
const CERTIFICATES: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\SystemCertificates\MY\Certificates");

pub const CHECKS: &[fn(&InspectedImage<'_>, &SealExpectations<'_>) -> Verdict] = &[
    kubelet_keys,
    |image, asked| {
        let fact = "the image is already a node of a cluster: every clone would be the same node";
        check_gone(image, asked, KUBELET, VerifyFinding::error(fact))
    },
    |image, asked| {
        let fact = "the image contains a token for joining a cluster";
        check_gone(image, asked, BOOTSTRAP, VerifyFinding::warning(fact))
    },
    |image, asked| {
        let fact = "the image contains a password of Rancher's agent: a cluster accepts one clone \
                    with it and refuses the others";
        check_gone(image, asked, RANCHER, VerifyFinding::error(fact))
    },
    |image, asked| {
        let fact = "EC2Launch has run in the build: a clone would skip the tasks that run once";
        check_gone(image, asked, EC2, VerifyFinding::warning(fact))
    },
    check_certificates,
];

fn kubelet_keys(image: &InspectedImage<'_>, asked: &SealExpectations<'_>) -> Verdict {
    let mut keys = image.list_names(KUBELET_PKI)?;
    keys.retain(|name| !asked.expects_file(&format!(r"{KUBELET_PKI}\{name}")));
    keys.sort();
    if keys.is_empty() {
        Ok(())
    } else {
        Err(
            VerifyFinding::error("every clone would have the same kubelet keys")
                .found(format!(r"{KUBELET_PKI}\{}", keys.join(", ")))
                .cure(
                    "stop kubelet and remove them before the image is sealed; kubelet creates new \
                     ones when it starts",
                ),
        )
    }
}

/// Requires that a file does not exist, unless a step put it there.
fn check_gone(
    image: &InspectedImage<'_>,
    asked: &SealExpectations<'_>,
    file: &str,
    finding: Box<VerifyFinding>,
) -> Verdict {
    if !image.volume.exists(file)? || asked.expects_file(file) {
        return Ok(());
    }
    Err(finding
        .found(file)
        .cure("remove it in a step before the image is sealed"))
}

fn check_certificates(image: &InspectedImage<'_>, _: &SealExpectations<'_>) -> Verdict {
    let found = match image.open_key(&CERTIFICATES)? {
        Some(key) => key.read_keys()?,
        None => Vec::new(),
    };
    if found.is_empty() {
        return Ok(());
    }
    let prints: Vec<String> = found.iter().map(|key| key.name()).collect();
    Err(VerifyFinding::warning(
        "the machine has certificates of its own, which every clone would share",
    )
    .found(format!(r"{CERTIFICATES}\{}", prints.join(", ")))
    .cure(
        "remove them from the machine's store `My` before the image is sealed, and create \
                 them on each clone",
    ))
}
