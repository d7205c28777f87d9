use super::guest::Guest;
use super::program::codes;
use crate::windows::Data;

const RULES: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules";

fn list(guest: &Guest, path: &str) -> String {
    let (_, shown) = guest.run(&format!("icacls {path}"));
    let (_, list) = shown.split_once("D:").unwrap();
    list.lines().next().unwrap().to_owned()
}

/// What a folder gives on is what lies below it has, until that is protected.
#[test]
fn lists_are_inherited() {
    let guest = Guest::new();
    guest.put(r"C:\k\bin\kubelet.exe", b"x");
    guest.put(r"C:\k\own\secret", b"x");
    codes(
        &guest,
        &[
            (r#"icacls "C:\k\own" /inheritance:d /q"#, 0),
            (
                r#"icacls "C:\k" /grant:r "*S-1-5-18:(OI)(CI)F" "*S-1-5-32-544:(OI)(CI)F" /q"#,
                0,
            ),
            (r#"icacls "C:\k" /inheritance:r /q"#, 0),
            (r#"icacls "C:\k" /setowner "*S-1-5-32-544" /q"#, 0),
        ],
    );
    let below = "(A;OICIID;0x1f01ff;;;S-1-5-18)(A;OICIID;0x1f01ff;;;S-1-5-32-544)";
    assert_eq!(
        list(&guest, r"C:\k"),
        format!("P{}", below.replace("ID", ""))
    );
    assert_eq!(list(&guest, r"C:\k\bin"), below);
    assert_eq!(
        list(&guest, r"C:\k\bin\kubelet.exe"),
        below.replace("OICIID", "ID")
    );
    guest.put(r"C:\k\bin\later.exe", b"x");
    assert_eq!(
        list(&guest, r"C:\k\bin\later.exe"),
        below.replace("OICIID", "ID")
    );
    assert!(list(&guest, r"C:\k\own\secret").contains("S-1-5-32-545"));
    codes(&guest, &[(r#"icacls "C:\k" /reset /t /q"#, 0)]);
    let all =
        "(A;ID;0x1f01ff;;;S-1-5-18)(A;ID;0x1f01ff;;;S-1-5-32-544)(A;ID;0x1200a9;;;S-1-5-32-545)";
    assert_eq!(list(&guest, r"C:\k\own\secret"), all);
}

#[test]
fn entries_of_several_trustees_and_single_rights() {
    let guest = Guest::new();
    guest.put(r"C:\v\pods\x", b"x");
    codes(
        &guest,
        &[
            (
                r"icacls C:\v\pods /inheritance:r /grant:r *S-1-5-18:(OI)(CI)(F) *S-1-3-0:(OI)(CI)(IO)(F)",
                0,
            ),
            (
                r"icacls C:\v\pods /grant *S-1-5-32-545:(CI)(AD) *S-1-5-32-545:(CI)(IO)(WD)",
                0,
            ),
            (r"icacls C:\v\pods /deny Guests:(W)", 0),
            (r"icacls C:\v\pods /remove:d Guests /remove:g Nobody", 1332),
            (r"icacls C:\v\pods /reset /setowner SYSTEM", 87),
            (r"icacls C:\v\pods /grant", 87),
            (r"icacls C:\v\pods /grant *S-1-5-18", 87),
            (r"icacls C:\v\pods /grant *S-1-5-18:(I)F", 87),
            (r"icacls C:\v\none\x /reset", 3),
            (r"icacls C:\v\none\* /reset", 3),
            (r"icacls C:\v\pods\*.no /reset", 2),
        ],
    );
    assert_eq!(
        list(&guest, r"C:\v\pods"),
        "P(D;;0x100116;;;S-1-5-32-546)(A;OICI;0x1f01ff;;;S-1-5-18)(A;OICIIO;0x1f01ff;;;S-1-3-0)(A;CI;0x4;;;S-1-5-32-545)(A;CIIO;0x2;;;S-1-5-32-545)"
    );
}

/// The SID of a service is the SHA-1 of its name: `sc showsid` gives this one for TrustedInstaller.
#[test]
fn services_have_their_sids() {
    let guest = Guest::new();
    guest.put(r"C:\k\x", b"x");
    codes(
        &guest,
        &[
            (
                r#"icacls C:\k /inheritance:r /grant:r "NT SERVICE\TrustedInstaller:F""#,
                0,
            ),
            (r#"icacls C:\k /grant "NT SERVICE\trustedinstaller:R""#, 0),
            (r#"icacls C:\k /grant "NT SERVICE\nope:R""#, 1332),
        ],
    );
    let sid = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464";
    assert_eq!(
        list(&guest, r"C:\k"),
        format!("P(A;;0x1f01ff;;;{sid})(A;;0x120089;;;{sid})")
    );
}

fn rule(guest: &Guest, words: &str) -> String {
    let line = format!("netsh advfirewall firewall add rule {words}");
    assert_eq!(guest.run(&line).0, 0, "{line}");
    let names = guest.windows.value_names(RULES);
    match guest.windows.value(RULES, names.last().unwrap()) {
        Some(Data::Text(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rules_have_microsofts_grammar() {
    let guest = Guest::new();
    assert_eq!(
        rule(
            &guest,
            r#"name=node dir=in action=allow profile=public,domain protocol=TCP localport=80,30000-32767 remoteport=1-2 remoteip=10.0.0.0/8,LocalSubnet,fd00::/8,10.1.1.1-10.1.1.9 "program=C:\k\x y.exe" edge=yes"#
        ),
        r"v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|Profile=Domain|Profile=Public|LPort=80|LPort2_10=30000-32767|RPort2_10=1-2|RA4=10.0.0.0/255.0.0.0|RA4=LocalSubnet|RA6=LocalSubnet|RA6=fd00::/8|RA4=10.1.1.1-10.1.1.9|App=C:\k\x y.exe|Name=node|Edge=TRUE|"
    );
    assert_eq!(
        rule(
            &guest,
            "name=ping dir=out action=block profile=any protocol=icmpv4"
        ),
        "v2.31|Action=Block|Active=TRUE|Dir=Out|Protocol=1|Name=ping|"
    );
    let add = |words: &str| {
        let line = format!("netsh advfirewall firewall add rule name=x action=allow {words}");
        guest.run(&line).0
    };
    for refused in [
        "dir=out edge=yes",
        "dir=in profile=any,public",
        "dir=in remoteip=10.0.0.0/33",
        "dir=in remoteip=10.0.0.9-10.0.0.1",
        "dir=in remoteip=example.com",
        "dir=in protocol=sctp",
        "dir=in security=authenticate",
        "dir=in interfacetype=wireless",
        "dir=in description=a|b",
    ] {
        assert_eq!(add(refused), 1, "{refused}");
    }
    codes(
        &guest,
        &[
            ("netsh advfirewall show allprofiles state", 0),
            ("netsh advfirewall show bogus state", 1),
            (
                "netsh advfirewall firewall delete rule name=node localport=80",
                1,
            ),
            (
                "netsh advfirewall firewall delete rule name=node dir=out",
                1,
            ),
            (
                "netsh advfirewall firewall delete rule name=node profile=domain,public dir=in",
                0,
            ),
            ("netsh advfirewall firewall show rule name=node", 1),
            (
                "netsh int ipv4 set dynamicportrange protocol=tcp startport=34000 numberofports=31536 store=persistent",
                0,
            ),
        ],
    );
}
