//! Whether the folders of two paths speak of two builds of one program: another architecture, system or version.
//!
//! Files of all builds often have the same name, and are told apart by their folders alone.

/// Names of one architecture or system in a row.
const KINDS: [&[&[&str]]; 2] = [
    &[
        &["amd64", "x86_64", "x64", "win64"],
        &["arm64", "aarch64"],
        &["386", "i386", "i686", "x86", "win32"],
        &["arm", "armv6", "armv7", "armhf"],
        &["ppc64le", "ppc64el"],
        &["s390x"],
        &["riscv64"],
    ],
    &[
        &["windows", "win", "win32", "win64"],
        &["linux"],
        &["darwin", "macos", "osx"],
        &["freebsd"],
    ],
];

/// Whether the folders of a listed file contradict those of the path that the wanted file was fetched from. What only one of them
/// says contradicts nothing: it is where its publisher made the file.
pub fn differs(listed: &str, wanted: &str) -> bool {
    let (Some((listed, _)), Some((wanted, _))) = (listed.rsplit_once('/'), wanted.rsplit_once('/'))
    else {
        return false;
    };
    let (one, other) = (versions(listed), versions(wanted));
    let other_version =
        !one.is_empty() && !other.is_empty() && !one.iter().any(|it| other.contains(it));
    let (listed, wanted) = (words(listed), words(wanted));
    let other_kind = KINDS.iter().any(|kind| {
        let (one, other) = (said(kind, &listed), said(kind, &wanted));
        !one.is_empty() && !other.is_empty() && !one.iter().any(|it| other.contains(it))
    });
    other_kind || other_version
}

/// The numbers of the names that are among the words.
fn said(kind: &[&[&str]], words: &[String]) -> Vec<usize> {
    let is_said = |names: &&[&str]| names.iter().any(|name| words.iter().any(|w| w == name));
    let numbered = kind.iter().enumerate();
    let found = numbered.filter(|(_, names)| is_said(names));
    found.map(|(number, _)| number).collect()
}

fn words(folders: &str) -> Vec<String> {
    let folders = folders.to_lowercase();
    // Not by `_`, which is in `x86_64`.
    let words = folders.split(['/', '-', ' ']);
    words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// Folders that are called as a version of three numbers, without the `v` before it. Of two numbers are releases of systems, too.
fn versions(folders: &str) -> Vec<&str> {
    let names = folders.split('/');
    let plain = names.map(|name| name.strip_prefix(['v', 'V']).unwrap_or(name));
    let is_version = |name: &&str| {
        let mut parts = name.split('.');
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        parts.clone().count() == 3 && parts.all(is_number)
    };
    plain.filter(is_version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_another_build_differ_and_those_of_a_publisher_do_not() {
        let wanted = "release/v1.31.0/bin/windows/amd64/kubelet.exe";
        for (listed, is_other) in [
            ("bin/windows/arm64/kubelet.exe", true),
            ("_output/bin/linux/amd64/kubelet.exe", true),
            ("release/v1.30.9/bin/windows/amd64/kubelet.exe", true),
            ("v1.31.1/kubelet.exe", true),
            ("dist/win32-x86/kubelet.exe", true),
            ("kubelet.exe", false),
            ("dist/kubelet.exe", false),
            (
                "/home/runner/work/k/k/_output/windows/amd64/kubelet.exe",
                false,
            ),
            ("C:/build/x86_64/kubelet.exe", false),
            ("v1.31.0/kubelet.exe", false),
            ("ubuntu/22.04/v1.31.0/kubelet.exe", false),
            ("ubuntu/22.04/kubelet.exe", false),
            ("opt/python-3.11.2/dist/kubelet.exe", false),
            ("v1.31/kubelet.exe", false),
        ] {
            assert_eq!(differs(listed, wanted), is_other, "{listed}");
        }
        // Nothing is known of what it was fetched from.
        for listed in ["bin/windows/arm64/a.exe", "v2.0/a.exe", "a.exe"] {
            assert!(!differs(listed, "download/a.exe"), "{listed}");
        }
    }
}
