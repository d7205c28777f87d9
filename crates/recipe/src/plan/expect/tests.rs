//! Which expectations of two steps are left, kind by kind.

use super::super::check::{
    AclCheck, ExpectedPayload, FileDigest, FirewallCheck, FirewallScope, PlannedCheck,
    ServiceStartMode,
};
use super::*;

/// What is left of each step's checks, the first being the earliest.
fn lasting<F, D, I, const N: usize>(
    mut steps: [Vec<ImageCheck<F, D, I>>; N],
) -> [Vec<ImageCheck<F, D, I>>; N]
where
    F: CheckedContent + Clone + PartialEq,
    D: Clone + PartialEq,
    I: Clone + PartialEq,
{
    keep_what_lasts(steps.iter_mut());
    steps
}

/// What is left of an earlier step's check, the later one's being left as it is.
#[track_caller]
fn after(earlier: &PlannedCheck, later: &PlannedCheck) -> Option<PlannedCheck> {
    let [mut left, kept] = lasting([vec![earlier.clone()], vec![later.clone()]]);
    assert_eq!(kept, std::slice::from_ref(later));
    left.pop()
}

fn service(line: Option<&str>, start: Option<ServiceStartMode>) -> PlannedCheck {
    PlannedCheck::Service(ServiceCheck {
        name: "kubelet".into(),
        command_line: line.map(str::to_owned),
        start,
        ..ServiceCheck::default()
    })
}

fn value(key: &str, value: Option<&str>, data: RegistryValueData) -> PlannedCheck {
    PlannedCheck::Registry {
        key: key.parse().expect("a key"),
        value: value.map(str::to_owned),
        data,
    }
}

fn missing(path: &str) -> PlannedCheck {
    PlannedCheck::Missing {
        path: path.parse().expect("a path"),
    }
}

fn acl(path: &str, protected: bool) -> PlannedCheck {
    PlannedCheck::Acl(AclCheck {
        path: path.parse().expect("a path"),
        protected,
        owner: None,
        entries: Vec::new(),
    })
}

const KEY: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\kubelet";

#[test]
fn a_service_keeps_what_no_later_step_says() {
    let whole = service(Some("k.exe"), Some(ServiceStartMode::Auto));
    let mut demand = service(None, Some(ServiceStartMode::Demand));
    if let PlannedCheck::Service(service) = &mut demand {
        service.name = "KUBELET".into();
    }
    assert_eq!(after(&whole, &demand), Some(service(Some("k.exe"), None)));
    // Said again in full: the earlier one has nothing left to say.
    let again = service(Some("k.exe --v=2"), Some(ServiceStartMode::Demand));
    assert_eq!(after(&whole, &again), None);
    // Only that it is there.
    let there = service(None, None);
    assert_eq!(after(&whole, &there), Some(whole.clone()));
    assert_eq!(after(&there, &whole), None);
    // Gone, and made anew.
    let gone = value(KEY, None, RegistryValueData::Absent);
    assert_eq!(
        lasting([vec![whole], vec![gone], vec![again.clone()]]),
        [vec![], vec![], vec![again]]
    );
}

#[test]
fn a_service_and_its_registry_values_do_not_contradict_each_other() {
    let whole = service(Some("k.exe"), Some(ServiceStartMode::Auto));
    let start = value(KEY, Some("start"), RegistryValueData::Dword(3));
    let other = value(
        KEY,
        Some("Environment"),
        RegistryValueData::Sz("A=1".into()),
    );
    assert_eq!(after(&whole, &start), Some(service(Some("k.exe"), None)));
    assert_eq!(after(&whole, &other), Some(whole.clone()));
    assert_eq!(after(&start, &whole), None);
    assert_eq!(after(&other, &whole), Some(other));
    // The key's default value is no deletion.
    let default = value(KEY, None, RegistryValueData::Sz("x".into()));
    assert_eq!(after(&whole, &default), Some(whole));
}

#[test]
fn a_key_above_counts_for_what_is_below_it() {
    let whole = service(Some("k.exe"), None);
    let start = value(KEY, Some("Start"), RegistryValueData::Dword(2));
    let above = r"hklm\System\CurrentControlSet\Services";
    let gone = value(above, None, RegistryValueData::Absent);
    for below in [&whole, &start] {
        assert_eq!(after(below, &gone), None);
        assert_eq!(after(&gone, below), None);
    }
    let beside = format!("{KEY}-too");
    let gone = value(&beside, None, RegistryValueData::Absent);
    assert_eq!(after(&whole, &gone), Some(whole.clone()));
    assert_eq!(after(&gone, &whole), Some(gone));
}

#[test]
fn what_lay_in_a_removed_folder_is_not_expected() {
    let tree = PlannedCheck::File {
        path: GuestPath::from_static(r"C:\k"),
        content: ExpectedPayload::Tree(1),
    };
    let inside = PlannedCheck::Exists {
        path: GuestPath::from_static(r"C:\K\sub\x"),
    };
    for earlier in [&tree, &inside, &acl(r"C:\k\sub", true)] {
        assert_eq!(after(earlier, &missing(r"C:\k")), None);
    }
    // A part of the tree is gone; the rest is still looked at file by file.
    assert_eq!(after(&tree, &missing(r"C:\k\sub")), Some(tree.clone()));
    // It came back, with a file in it or with a list of its own.
    assert_eq!(after(&missing(r"C:\k"), &inside), None);
    assert_eq!(after(&missing(r"C:\k"), &acl(r"C:\K", false)), None);
    // An access list says nothing of the content, nor the content of the list.
    let list = acl(r"C:\k\sub\x", true);
    assert_eq!(after(&inside, &list), Some(inside.clone()));
    assert_eq!(after(&list, &inside), Some(list));
}

#[test]
fn bytes_outlive_a_later_word_that_something_is_there() {
    let file = PlannedCheck::File {
        path: GuestPath::from_static(r"C:\k\kubelet.exe"),
        content: ExpectedPayload::File(1),
    };
    let tree = |entry| PlannedCheck::File {
        path: GuestPath::from_static(r"C:\k"),
        content: ExpectedPayload::Tree(entry),
    };
    let there = |path: &str| PlannedCheck::Exists {
        path: path.parse().expect("a path"),
    };
    assert_eq!(
        lasting([
            vec![file.clone(), tree(2)],
            vec![there(r"C:\K\kubelet.exe"), there(r"C:\k")],
        ]),
        [vec![file, tree(2)], vec![there(r"C:\k")]]
    );
    // Two archives in one folder; the same one twice is expected once.
    assert_eq!(after(&tree(2), &tree(3)), Some(tree(2)));
    assert_eq!(after(&tree(2), &tree(2)), None);
}

#[test]
fn the_later_one_of_a_name_wins() {
    let rule = |name: &str, present| {
        PlannedCheck::Firewall(FirewallCheck {
            name: name.into(),
            present,
            inbound: true,
            allow: true,
            protocol: Some(6),
            ports: vec!["10250".into()],
            remote_ports: Vec::new(),
            scope: Some(FirewallScope::default()),
        })
    };
    let feature = |name: &str, enabled| PlannedCheck::Feature {
        name: name.into(),
        enabled,
    };
    let capability = |name: &str, present| PlannedCheck::Capability {
        name: name.into(),
        present,
    };
    let user = |name: &str, present| PlannedCheck::User {
        name: name.into(),
        present,
        disabled: false,
    };
    let task = |name: &str, present| PlannedCheck::Task {
        name: name.into(),
        present,
    };
    let pairs = [
        (rule("kubelet", true), rule("KUBELET", false)),
        (feature("Containers", true), feature("containers", false)),
        (capability("A~~~~1", true), capability("a~~~~1", false)),
        (user("Żółw", true), user("żółw", false)),
        (task(r"\X\y", true), task(r"\x\Y", false)),
        (acl(r"C:\k", true), acl(r"c:\K", false)),
    ];
    for (earlier, later) in pairs {
        assert_eq!(after(&earlier, &later), None);
    }
    let a = feature("A", true);
    assert_eq!(after(&a, &capability("A", false)), Some(a));
}

#[test]
fn members_of_a_group_add_up_until_they_are_gone() {
    let group = |members: &[&str], present| PlannedCheck::Group {
        name: "Administrators".into(),
        present,
        members: members.iter().map(|m| (*m).to_owned()).collect(),
    };
    let a = group(&["a"], true);
    assert_eq!(after(&a, &group(&["b"], true)), Some(a.clone()));
    assert_eq!(after(&a, &group(&[], false)), None);
    let gone = PlannedCheck::User {
        name: "A".into(),
        present: false,
        disabled: false,
    };
    assert_eq!(
        lasting([vec![group(&["a", "b"], true), a], vec![gone.clone()]]),
        [vec![group(&["b"], true), group(&[], true)], vec![gone]]
    );
}

/// The files of archives, which are known when these are there.
fn file(path: &str, content: &str) -> ImageCheck {
    ImageCheck::File {
        path: path.parse().expect("a path"),
        content: FileDigest {
            size: 1,
            sha256: content.into(),
        },
    }
}

#[test]
fn a_file_whose_bytes_are_expected_is_not_asked_for_twice() {
    let there = |path: &str| ImageCheck::Exists {
        path: path.parse().expect("a path"),
    };
    let own = file(r"C:\k\a.exe", "own");
    assert_eq!(
        lasting([
            vec![own.clone()],
            vec![there(r"c:\K\A.exe"), there(r"C:\k")]
        ]),
        [vec![own.clone()], vec![there(r"C:\k")]]
    );
    // Gone, and there again with other bytes.
    let gone = ImageCheck::Missing {
        path: GuestPath::from_static(r"C:\k\a.exe"),
    };
    assert_eq!(
        lasting([vec![own], vec![gone], vec![there(r"C:\k\a.exe")]]),
        [vec![], vec![], vec![there(r"C:\k\a.exe")]]
    );
}

#[test]
fn the_last_word_on_a_file_counts() {
    let gone = ImageCheck::Missing {
        path: GuestPath::from_static(r"C:\k\docs"),
    };
    let back = file(r"C:\k\logs\x", "own");
    let no_logs = ImageCheck::Missing {
        path: GuestPath::from_static(r"C:\k\logs"),
    };
    assert_eq!(
        lasting([
            vec![
                file(r"C:\k\a.toml", "tree"),
                file(r"C:\k\b.exe", "tree"),
                file(r"C:\k\docs\x.md", "tree"),
                file(r"C:\k\docs-too\x.md", "tree"),
            ],
            vec![file(r"c:\K\A.toml", "own"), gone.clone(), no_logs],
            vec![back.clone()],
        ]),
        [
            vec![
                file(r"C:\k\b.exe", "tree"),
                file(r"C:\k\docs-too\x.md", "tree")
            ],
            vec![file(r"c:\K\A.toml", "own"), gone],
            vec![back],
        ]
    );
}
