//! What a machine has of its own, and all clones of a sealed image would share.
//!
//! SSH host keys, WinRM's certificates and the states of cloudbase-init's plugins are judged in every image (`leftovers`).
//!
//! Sources: Kubernetes, kubelet `--cert-dir`, `--kubeconfig`, `--bootstrap-kubeconfig` and kubeadm's paths on Windows; RKE2,
//! docs/advanced.md (an agent's password) and rke2#2939 (its place on Windows); Amazon EC2, "EC2Launch v2" (tasks with the
//! frequency `once`); Microsoft, "System store locations".

use winimg_recipe::recipe::RegistryKey;

use super::super::finding::{Finding, Verdict};
use super::super::image::Image;
use super::asked::Asked;

const KUBELET_PKI: &str = r"C:\var\lib\kubelet\pki";
const KUBELET: &str = r"C:\etc\kubernetes\kubelet.conf";
const BOOTSTRAP: &str = r"C:\etc\kubernetes\bootstrap-kubelet.conf";
const RANCHER: &str = r"C:\etc\rancher\node\password";
const EC2: &str = r"C:\ProgramData\Amazon\EC2Launch\state\.run-once";
const CERTIFICATES: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\SystemCertificates\MY\Certificates");

pub const CHECKS: &[fn(&Image<'_>, &Asked<'_>) -> Verdict] = &[
    kubelet_keys,
    |image, asked| {
        let fact = "the image is a node of a cluster already: every clone would be the same one";
        gone(image, asked, KUBELET, Finding::error(fact))
    },
    |image, asked| {
        let fact = "a token that lets a node join a cluster is in the image";
        gone(image, asked, BOOTSTRAP, Finding::warning(fact))
    },
    |image, asked| {
        let fact = "Rancher's agent has a password in the image: a cluster takes one clone with it and refuses the others";
        gone(image, asked, RANCHER, Finding::error(fact))
    },
    |image, asked| {
        let fact = "EC2Launch has run in the build: a clone passes over the tasks that run once";
        gone(image, asked, EC2, Finding::warning(fact))
    },
    certificates,
];

fn kubelet_keys(image: &Image<'_>, asked: &Asked<'_>) -> Verdict {
    let mut keys = image.names(KUBELET_PKI)?;
    keys.retain(|name| !asked.wants(&format!(r"{KUBELET_PKI}\{name}")));
    keys.sort();
    match keys.is_empty() {
        true => Ok(()),
        false => Err(
            Finding::error("every clone would have the same keys of kubelet")
                .found(format!(r"{KUBELET_PKI}\{}", keys.join(", ")))
                .cure("stop kubelet and remove them before the image is sealed; kubelet makes new ones when it starts"),
        ),
    }
}

/// What a step put there is meant.
fn gone(image: &Image<'_>, asked: &Asked<'_>, file: &str, finding: Box<Finding>) -> Verdict {
    if !image.volume.exists(file)? || asked.wants(file) {
        return Ok(());
    }
    Err(finding
        .found(file)
        .cure("remove it in a step before the image is sealed"))
}

fn certificates(image: &Image<'_>, _: &Asked<'_>) -> Verdict {
    let found = match image.key(&CERTIFICATES)? {
        Some(key) => key.keys()?,
        None => Vec::new(),
    };
    if found.is_empty() {
        return Ok(());
    }
    let prints: Vec<String> = found.iter().map(|key| key.name()).collect();
    Err(
        Finding::warning("the machine has certificates of its own, which every clone would share")
            .found(format!(r"{CERTIFICATES}\{}", prints.join(", ")))
            .cure("remove them from the machine's store `My` before the image is sealed; make them on the clone"),
    )
}
