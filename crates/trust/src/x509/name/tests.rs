//! Names as recipes and tools write them.

use super::*;

const WHOLE: &str = r"CN=Example\, Corp,OU=A+serialNumber=7,O=Example,C=US";

#[test]
fn a_pin_is_met_by_whole_attributes_only() {
    let name = DistinguishedName::parse(WHOLE).unwrap();
    assert_eq!(name.to_string(), WHOLE);
    for met in [
        WHOLE,
        r"CN=Example\, Corp",
        r"cn = Example\2C Corp , c=US",
        "C=US, O=Example",
        "2.5.4.10=Example",
        "O=#0c074578616d706c65",
        "SERIALNUMBER=7",
    ] {
        assert!(
            name.contains(&DistinguishedName::parse(met).unwrap()),
            "{met}"
        );
    }
    for other in [
        "CN=Example",
        "CN=example\\, corp",
        "O=Example,O=Example",
        "C=USA",
        "L=US",
        r"O=Example\ ",
    ] {
        assert!(
            !name.contains(&DistinguishedName::parse(other).unwrap()),
            "{other}"
        );
    }
}

/// The names as Get-AuthenticodeSignature, certutil, and OpenSSL in both of its forms print them.
#[test]
fn a_name_is_read_as_each_tool_prints_it() {
    let name = r"CN=Example\, Inc.,O=Example\, Inc.,L=Town,ST=California,C=US";
    for printed in [
        r#"CN="Example, Inc.", O="Example, Inc.", L=Town, S=California, C=US"#,
        r#"CN = "Example, Inc."; O = "Example, Inc." ;L=Town;S=California;C=US"#,
        "CN=\"Example, Inc.\"\r\n    O=\"Example, Inc.\"\n    L=Town\n    S=California\n    C=US\n",
        r#"C = US, ST = California, L = Town, O = "Example, Inc.", CN = "Example, Inc.""#,
        "/C=US/ST=California/L=Town/O=Example, Inc./CN=Example, Inc.",
        r"CN=Example\, Inc., O=Example\2C Inc., L=Town, ST=California, C=US",
    ] {
        let (read, whole) = (
            DistinguishedName::parse(printed).unwrap(),
            DistinguishedName::parse(name).unwrap(),
        );
        assert!(
            read.contains(&whole) && whole.contains(&read),
            "{printed}: {read}"
        );
    }
    for (printed, shown) in [
        (
            "OID.2.5.4.15=Private Organization",
            "businessCategory=Private Organization",
        ),
        ("oid.1.3.6.1.4.1.311.60.2.1.3=US", "jurisdictionC=US"),
        ("SERIALNUMBER=7", "serialNumber=7"),
        ("E=a@example.com", "emailAddress=a@example.com"),
        (r#"O="The ""Best"" Co""#, r#"O=The \"Best\" Co"#),
        (r#"O="The \"Best\" Co""#, r#"O=The \"Best\" Co"#),
        (r#"O="A+B=C; D""#, r"O=A\+B=C\; D"),
        (r#"CN=a + O="b + c""#, r"CN=a+O=b \+ c"),
        (r#"O="""#, "O="),
        (r#"O=5" disk"#, r#"O=5\" disk"#),
        ("/O=a/b/CN=c", "O=a/b,CN=c"),
    ] {
        assert_eq!(
            DistinguishedName::parse(printed).unwrap().to_string(),
            shown,
            "{printed}"
        );
    }
    for broken in [
        r#"CN="Example, Inc."#,
        r#"CN="Example" Inc."#,
        "OID.=A",
        "OID.a=A",
        "/O",
    ] {
        assert!(DistinguishedName::parse(broken).is_err(), "{broken}");
    }
    // Another value than what the quotation marks hold.
    let name = DistinguishedName::parse(r#"CN="Example, Inc.", C=US"#).unwrap();
    for other in [
        r#"CN="Example""#,
        r"CN=Example\, Inc",
        r#"O="Example, Inc.""#,
    ] {
        assert!(
            !name.contains(&DistinguishedName::parse(other).unwrap()),
            "{other}"
        );
    }
}

#[test]
fn what_looks_alike_is_another_and_is_shown_as_it_is() {
    let pin = DistinguishedName::parse("CN=Example Corp").unwrap();
    for (other, shown) in [
        ("CN=Example\u{a0}Corp", "CN=Example\u{a0}Corp"),
        ("CN=Еxample Corp", "CN=Еxample Corp"),
        (r"CN=Example Corp\00", r"CN=Example Corp\00"),
        (r"CN=Example Corp\00.evil", r"CN=Example Corp\00.evil"),
        ("CN=Example\u{200b} Corp", r"CN=Example\E2\80\8B Corp"),
        ("CN=\u{202e}proC elpmaxE", r"CN=\E2\80\AEproC elpmaxE"),
        (r"CN=Example Corp\, Inc", r"CN=Example Corp\, Inc"),
        (r"O=A\,CN=Example Corp", r"O=A\,CN=Example Corp"),
        (r"O=A\+CN=Example Corp", r"O=A\+CN=Example Corp"),
        ("OU=Example Corp", "OU=Example Corp"),
    ] {
        let other = DistinguishedName::parse(other).unwrap();
        assert!(!other.contains(&pin), "{other}");
        assert_eq!(other.to_string(), shown);
    }
}

#[test]
fn a_name_says_who_and_not_only_where() {
    for nobody in [
        "C=US",
        "L=Redmond,ST=Washington,C=US",
        "OU=Code",
        "CN=",
        "1.2.3=A",
    ] {
        assert!(
            !DistinguishedName::parse(nobody).unwrap().is_identifying(),
            "{nobody}"
        );
    }
    for somebody in ["CN=A", "C=US,O=A", "serialNumber=7", "2.5.4.3=A"] {
        assert!(
            DistinguishedName::parse(somebody).unwrap().is_identifying(),
            "{somebody}"
        );
    }
}

#[test]
fn what_is_no_name_is_reported() {
    let refusal = |text: &str| DistinguishedName::parse(text).unwrap_err();
    assert_eq!(
        refusal("Example Corp"),
        r#"contains "Example Corp", but expected an attribute such as CN=Example Corp"#
    );
    assert_eq!(
        refusal("CN=A,"),
        r#"contains "", but expected an attribute such as CN=Example Corp"#
    );
    assert_eq!(
        refusal("X=A"),
        "has the attribute X, which is neither a known keyword nor an OID"
    );
    assert_eq!(
        refusal("CN=A\\"),
        r#"has a backslash with nothing to escape in "A\\""#
    );
    assert_eq!(
        refusal("CN=#zz"),
        "has CN=#… that is not the hexadecimal of a DER value"
    );
}
