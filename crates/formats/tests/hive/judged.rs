//! The same hive read by winimg and by libhivex.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use winimg_formats::hive::{Hive, HiveKey as Read, HiveValueData};

use support::hive::{Key, List, SEGMENT, hive, sz};

fn run(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program} (package libhivex-bin): {e}"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let out = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {arguments:?}: {complaint}");
    String::from_utf8(out.stdout).unwrap()
}

fn many(texts: &[&str]) -> Vec<u8> {
    let mut bytes: Vec<u8> = texts.iter().flat_map(|t| sz(t)).collect();
    bytes.extend([0, 0]);
    bytes
}

fn large(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// All kinds of lists, names and values.
fn rich() -> Key {
    let names: Vec<&'static str> = (0..1200)
        .map(|i| -> &'static str { Box::leak(format!("k{i:04}").into_boxed_str()) })
        .collect();
    let number = |name: &&'static str| Key::new(name).value("n", 4, &[name.len() as u8, 0, 0, 0]);
    Key::new("ROOT").keys(
        List::Lf,
        [
            Key::new("Few").keys(List::Li, names[..3].iter().map(number)),
            Key::new("Many").keys(List::Ri(507), names.iter().map(number)),
            Key::new("Names").keys(
                List::Lh,
                [
                    Key::new("Größe").value("Ä", 1, &sz("ä")),
                    Key::new("zażółć gęślą").value("ĄĘ", 1, &sz("żółw 🐢")),
                ],
            ),
            Key::new("Values")
                .value("", 1, &sz("the default"))
                .value("Sz", 1, &sz("gold"))
                .value("Expand", 2, &sz(r"%SystemRoot%\x y"))
                .value("Binary", 3, &large(300))
                .value("Empty", 3, b"")
                .value("Dword", 4, &[1, 2, 3, 4])
                .value("Big endian", 5, &[1, 2, 3, 4])
                .value("Link", 6, &sz("\\Registry")[..18])
                .value("Multi", 7, &many(&["a", "bc"]))
                .value("Qword", 11, &[1, 2, 3, 4, 5, 6, 7, 8])
                .value("None", 0, b"")
                .value("One segment", 3, &large(SEGMENT))
                .value("Two segments", 3, &large(SEGMENT + 1))
                .value("Segments", 3, &large(100_000)),
        ],
    )
}

/// Paths of all keys below one, each with its values, in lines.
fn lines(key: &Read<'_>, path: &str, out: &mut Vec<String>) {
    for (name, data) in key.read_values().unwrap() {
        out.push(format!("{path} {name:?} {}", short(&data)));
    }
    for child in key.read_keys().unwrap() {
        let path = format!("{path}\\{}", child.name());
        out.push(path.clone());
        lines(&child, &path, out);
    }
}

fn short(data: &HiveValueData) -> String {
    match data {
        HiveValueData::Binary(bytes) | HiveValueData::None(bytes) => hex::encode(bytes),
        HiveValueData::Link(text) | HiveValueData::Sz(text) | HiveValueData::ExpandSz(text) => {
            text.clone()
        }
        HiveValueData::MultiSz(texts) => texts.join("|"),
        HiveValueData::Dword(n) | HiveValueData::DwordBigEndian(n) => n.to_string(),
        HiveValueData::Qword(n) => n.to_string(),
        HiveValueData::Other { kind, bytes } => format!("{kind} {}", hex::encode(bytes)),
    }
}

/// The same lines from hivexml's report.
fn lines_of_xml(file: &Path) -> Vec<String> {
    let xml = run("hivexml", &[file.to_str().unwrap()], "");
    std::fs::write("/tmp/hx.xml", &xml).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let root = document.root_element().first_element_child().unwrap();
    let mut out = Vec::new();
    walk_xml(root, "", &mut out);
    out
}

fn walk_xml(node: roxmltree::Node<'_, '_>, path: &str, out: &mut Vec<String>) {
    use base64::Engine;
    let base64 = |text: &str| {
        let text: String = text.split_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        bytes.unwrap()
    };
    for value in node.children().filter(|n| n.has_tag_name("value")) {
        let text = value.attribute("value").unwrap_or_default();
        let encoded = value.attribute("encoding") == Some("base64");
        // hivexml shows the empty text that ends a list.
        let strings = value
            .descendants()
            .filter(|n| n.has_tag_name("string") && n.text().is_some());
        let data = match value.attribute("type").unwrap() {
            "string-list" => strings
                .map(|s| s.text().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
                .join("|"),
            "string" | "expand" | "link" if encoded => String::from_utf8(base64(text)).unwrap(),
            "binary" | "none" => hex::encode(base64(text)),
            _ => text.to_owned(),
        };
        let name = value.attribute("key").unwrap_or_default();
        out.push(format!("{path} {name:?} {data}"));
    }
    for child in node.children().filter(|n| n.has_tag_name("node")) {
        let path = format!("{path}\\{}", child.attribute("name").unwrap());
        out.push(path.clone());
        walk_xml(child, &path, out);
    }
}

#[test]
fn every_key_and_value_is_read_as_libhivex_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("SOFTWARE");
    let bytes = hive(&rich());
    fs::write(&file, &bytes).unwrap();
    let hive = Hive::parse(bytes).unwrap();
    let mut ours = Vec::new();
    lines(&hive.open_root().unwrap(), "", &mut ours);
    let theirs = lines_of_xml(&file);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.len() > 2400, "{} lines", ours.len());
    assert!(!hive.is_dirty());
}

#[test]
fn a_hive_that_libhivex_wrote_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("SYSTEM");
    fs::write(&file, hive(&Key::new("ROOT"))).unwrap();
    let mut script = String::from(
        "cd \\\nadd ControlSet001\ncd ControlSet001\nadd Services\ncd Services\nadd kubelet\ncd kubelet\n\
         setval 4\nImagePath\nexpandstring:C:\\k\\kubelet.exe --root \"C:\\x y\"\nStart\ndword:2\n\
         DependOnService\nhex:7:63,00,00,00,64,00,00,00,00,00\n@\nstring:default\ncd ..\n",
    );
    for i in 0..600 {
        script += &format!("add s{i}\n");
    }
    script += "commit\nexit\n";
    run("hivexsh", &["-w", file.to_str().unwrap()], &script);
    let hive = Hive::parse(fs::read(&file).unwrap()).unwrap();
    let key = hive.find_key(r"CONTROLSET001\services\KUBELET").unwrap();
    let key = key.unwrap();
    assert_eq!(key.name(), "kubelet");
    let rendered: Vec<String> = key
        .read_values()
        .unwrap()
        .iter()
        .map(|(name, data)| format!("{name} = {data}"))
        .collect();
    assert_eq!(
        rendered,
        [
            r#"ImagePath = REG_EXPAND_SZ "C:\k\kubelet.exe --root "C:\x y"""#,
            "Start = REG_DWORD 2 (0x2)",
            r#"DependOnService = REG_MULTI_SZ ["c", "d"]"#,
            r#" = REG_SZ "default""#,
        ]
    );
    let services = hive.find_key(r"ControlSet001\Services").unwrap().unwrap();
    assert_eq!(services.read_keys().unwrap().len(), 601);
    let mut ours = Vec::new();
    lines(&hive.open_root().unwrap(), "", &mut ours);
    assert_eq!(ours, lines_of_xml(&file));
}

#[test]
fn keys_and_values_are_found_without_regard_to_case() {
    let hive = Hive::parse(hive(&rich())).unwrap();
    let values = hive.find_key(r"\values\").unwrap().unwrap();
    assert_eq!(
        values.find_value("SZ").unwrap(),
        Some(HiveValueData::Sz("gold".into()))
    );
    let default = values.find_value("").unwrap();
    assert_eq!(default, Some(HiveValueData::Sz("the default".into())));
    assert_eq!(values.find_value("Szz").unwrap(), None);
    assert!(hive.find_key(r"Values\Nothing").unwrap().is_none());
    assert!(hive.find_key(r"Nothing\Values").unwrap().is_none());
    let names = hive
        .open_root()
        .unwrap()
        .find_key("NAMES")
        .unwrap()
        .unwrap();
    let turtle = names.find_key("ZAŻÓŁĆ GĘŚLĄ").unwrap().unwrap();
    let data = turtle.find_value("ąę").unwrap();
    assert_eq!(data, Some(HiveValueData::Sz("żółw 🐢".into())));
    assert!(names.find_key("GRÖSSE").unwrap().is_none());
    assert_eq!(hive.find_key("").unwrap().unwrap().name(), "ROOT");
}
