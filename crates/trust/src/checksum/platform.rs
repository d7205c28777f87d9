//! Detects paths of other builds of a program: another architecture, operating system or version.
//!
//! Files of all builds often have the same name and differ only in their folders.

/// Each row has the names of one architecture or system.
const PLATFORM_ALIASES: [&[&[&str]]; 2] = [
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

/// Returns true if the folders of a listed file contradict those of the path that the wanted file
/// was fetched from. A property found in only one path is not a contradiction.
pub fn is_different_build(listed: &str, wanted: &str) -> bool {
    let (Some((listed, _)), Some((wanted, _))) = (listed.rsplit_once('/'), wanted.rsplit_once('/'))
    else {
        return false;
    };
    let (one, other) = (find_versions(listed), find_versions(wanted));
    let versions_differ =
        !one.is_empty() && !other.is_empty() && !one.iter().any(|it| other.contains(it));
    let (listed, wanted) = (split_words(listed), split_words(wanted));
    let kinds_differ = PLATFORM_ALIASES.iter().any(|kind| {
        let (one, other) = (find_rows(kind, &listed), find_rows(kind, &wanted));
        !one.is_empty() && !other.is_empty() && !one.iter().any(|it| other.contains(it))
    });
    kinds_differ || versions_differ
}

/// Returns the indexes of the rows that contain any of the words.
fn find_rows(kind: &[&[&str]], words: &[String]) -> Vec<usize> {
    kind.iter()
        .enumerate()
        .filter(|(_, names)| names.iter().any(|name| words.iter().any(|w| w == name)))
        .map(|(number, _)| number)
        .collect()
}

fn split_words(folders: &str) -> Vec<String> {
    let folders = folders.to_lowercase();
    // Not split at `_`, because of `x86_64`.
    folders
        .split(['/', '-', ' '])
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the folders named like a version of three numbers, without a leading `v`. Versions
/// of two numbers are ignored: operating system releases look like that (22.04).
fn find_versions(folders: &str) -> Vec<&str> {
    folders
        .split('/')
        .map(|name| name.strip_prefix(['v', 'V']).unwrap_or(name))
        .filter(|name| is_version(name))
        .collect()
}

fn is_version(name: &str) -> bool {
    let mut parts = name.split('.');
    parts.clone().count() == 3
        && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
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
            assert_eq!(is_different_build(listed, wanted), is_other, "{listed}");
        }
        // The wanted path says nothing about the build.
        for listed in ["bin/windows/arm64/a.exe", "v2.0/a.exe", "a.exe"] {
            assert!(!is_different_build(listed, "download/a.exe"), "{listed}");
        }
    }
}
