//! Device encryption: a Windows that finds a TPM may encrypt its disk by itself, and sysprep refuses an encrypted one.
//!
//! Sources: Microsoft: BitLocker drive encryption in Windows for OEMs (PreventDeviceEncryption); Microsoft-Windows-SecureStartup-FilterDriver.

use roxmltree::Node;

use super::{Check, text};

/// The value under `HKLM\SYSTEM\CurrentControlSet\Control\BitLocker`, and the answer file's own setting.
const NAME: &str = "PreventDeviceEncryption";

pub(super) fn all(check: &mut Check, root: Node) {
    if !check.facts.tpm {
        return;
    }
    let prevents = |node: Node| {
        let setting = node.has_tag_name((super::NAMESPACE, NAME)) && text(node) == "true";
        setting || (node.has_tag_name((super::NAMESPACE, "Path")) && text(node).contains(NAME))
    };
    if !root.descendants().any(prevents) {
        check.error_with_help(
            root,
            "the machine has a TPM, and nothing keeps Windows from encrypting its disk",
            format!(
                "set {NAME} in the specialize pass, as the built-in template, unattend/autounattend.xml, does where {{{{tpm}}}} is true"
            ),
        );
    }
}
