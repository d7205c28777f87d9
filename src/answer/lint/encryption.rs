//! Device encryption: with a TPM, Windows may encrypt its disk by itself, and sysprep refuses an
//! encrypted disk.
//!
//! Sources: Microsoft: BitLocker drive encryption in Windows for OEMs (PreventDeviceEncryption);
//! Microsoft-Windows-SecureStartup-FilterDriver.

use roxmltree::Node;

use super::{LintRun, trim_text};

/// Name of the value under `HKLM\SYSTEM\CurrentControlSet\Control\BitLocker` and of the answer
/// file's setting.
const NAME: &str = "PreventDeviceEncryption";

pub(super) fn check_encryption(check: &mut LintRun, root: Node) {
    if !check.facts.tpm {
        return;
    }
    if !root.descendants().any(prevents_encryption) {
        check.error_with_help(
            root,
            "the machine has a TPM, and nothing keeps Windows from encrypting its disk",
            format!(
                "set {NAME} in the specialize pass, as the built-in template, \
                 unattend/autounattend.xml, does if {{{{tpm}}}} is true"
            ),
        );
    }
}

/// Returns true for the setting itself and for a command that sets the registry value.
fn prevents_encryption(node: Node) -> bool {
    (node.has_tag_name((super::NAMESPACE, NAME)) && trim_text(node) == "true")
        || (node.has_tag_name((super::NAMESPACE, "Path")) && trim_text(node).contains(NAME))
}
