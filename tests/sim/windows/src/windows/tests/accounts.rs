use super::guest::Guest;
use super::program::codes;
use crate::windows::Data;

const SAM: &str = r"HKLM\SAM\SAM\Domains";

fn binary(guest: &Guest, key: &str, name: &str) -> Vec<u8> {
    match guest.windows.value(key, name) {
        Some(Data::Binary(bytes)) => bytes,
        other => panic!("{key} {name}: {other:?}"),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// What chntpw, RegRipper and secretsdump read: RIDs, control bits, names, members.
#[test]
fn accounts_are_in_windows_own_form() {
    let guest = Guest::new();
    codes(
        &guest,
        &[
            (
                "net user builder Passw0rd!x /add /fullname:\"The Builder\"",
                0,
            ),
            ("net localgroup WireServerAccess /add /comment:wire", 0),
            ("net localgroup WireServerAccess builder /add", 0),
            ("net localgroup Administrators builder /add", 0),
        ],
    );
    let f = binary(&guest, &format!(r"{SAM}\Account\Users\000003E8"), "F");
    assert_eq!(
        (word(&f, 0x30), word(&f, 0x38)),
        (1000, 0x10),
        "RID and control bits"
    );
    let v = binary(&guest, &format!(r"{SAM}\Account\Users\000003E8"), "V");
    let text = |at: usize| {
        let (from, length) = (word(&v, at) as usize + 0xcc, word(&v, at + 4) as usize);
        let units: Vec<u16> = v[from..from + length]
            .chunks_exact(2)
            .map(|b| u16::from_le_bytes([b[0], b[1]]))
            .collect();
        String::from_utf16(&units).unwrap()
    };
    assert_eq!(
        (text(0x0c), text(0x18)),
        ("builder".into(), "The Builder".into())
    );
    let guest_flags = binary(&guest, &format!(r"{SAM}\Account\Users\000001F5"), "F");
    assert_eq!(word(&guest_flags, 0x38), 0x11, "Guest is disabled");
    let c = binary(&guest, &format!(r"{SAM}\Builtin\Aliases\00000220"), "C");
    assert_eq!((word(&c, 0), word(&c, 0x30)), (544, 2));
    let c = binary(&guest, &format!(r"{SAM}\Account\Aliases\000003E9"), "C");
    assert_eq!((word(&c, 0), word(&c, 0x30)), (1001, 1));
    let sid = 0x34 + word(&c, 0x28) as usize;
    assert_eq!(
        c[sid..sid + 8],
        [1, 5, 0, 0, 0, 0, 0, 5],
        "a SID of five parts"
    );
    assert_eq!(word(&c, sid + 24), 1000);
    codes(
        &guest,
        &[
            ("net user builder /active:no", 0),
            ("net localgroup WireServerAccess /delete", 0),
        ],
    );
    let f = binary(&guest, &format!(r"{SAM}\Account\Users\000003E8"), "F");
    assert_eq!(word(&f, 0x38), 0x11);
    codes(&guest, &[("net user builder /delete", 0)]);
    let administrators = guest.windows.value(
        &format!(r"{SAM}\Builtin\Aliases\Names\Administrators"),
        "Members",
    );
    assert_eq!(
        administrators,
        Some(Data::Multi(vec!["Administrator".into()]))
    );
    for gone in [r"Account\Users\000003E8", r"Account\Aliases\000003E9"] {
        assert!(
            guest
                .windows
                .value_names(&format!(r"{SAM}\{gone}"))
                .is_empty(),
            "{gone}"
        );
    }
}

#[test]
fn groups_and_their_refusals() {
    let guest = Guest::new();
    codes(
        &guest,
        &[
            ("net localgroup Ours /add", 0),
            ("net localgroup ours /add", 2),
            ("net localgroup Ours /comment:hello", 0),
            (r#"net localgroup Ours "NT AUTHORITY\SYSTEM" /add"#, 0),
            ("net localgroup Ours SYSTEM /add", 2),
            ("net localgroup Ours *S-1-5-18 /add", 2),
            ("net localgroup Ours nobody /add", 2),
            ("net localgroup Ours Administrator /delete", 2),
            ("net localgroup Administrators /delete", 2),
            ("net localgroup a/b /add", 2),
            ("net localgroup a+b /add", 2),
            ("net localgroup Administrator /add", 2),
            ("net localgroup Ours /add /delete", 1),
            ("net localgroup Ours /delete", 0),
            ("net localgroup Ours /delete", 2),
        ],
    );
    let said = |line: &str| guest.run(line).1;
    assert_eq!(
        said("net localgroup Users /add"),
        "System error 1379 has occurred.\n\nThe specified local group already exists.\n\n"
    );
    assert_eq!(
        said("net localgroup Administrators Administrator /add"),
        "System error 1378 has occurred.\n\nThe specified account name is already a member of the group.\n\n"
    );
    assert_eq!(
        said("net user nobody /delete"),
        "The user name could not be found.\n\nMore help is available by typing NET HELPMSG 2221.\n\n"
    );
}

/// The command of the packs' answer files, started without a shell.
#[test]
fn the_account_with_rid_500_is_disabled_and_other_powershell_is_refused() {
    let guest = Guest::new();
    let shell = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -NoProfile -NonInteractive -Command";
    let flags = || {
        word(
            &binary(&guest, &format!(r"{SAM}\Account\Users\000001F4"), "F"),
            0x38,
        )
    };
    assert_eq!(flags(), 0x10);
    let all = format!("{shell} \"Get-LocalUser | Disable-LocalUser\"");
    codes(&guest, &[(&all, 1)]);
    assert_eq!(flags(), 0x10);
    let one = format!(
        "{shell} \"Get-LocalUser | Where-Object {{ $_.SID.Value -like 'S-1-5-21-*-500' }} | Disable-LocalUser\""
    );
    codes(&guest, &[(&one, 0)]);
    assert_eq!(flags(), 0x11);
}
