//! A reader of the files in which Wine keeps its registry: UTF-8 text, a section a key (Wine: server/registry.c).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// `HKLM\Software\Example` → value name (empty: the default one) → type and data.
    keys: BTreeMap<String, BTreeMap<String, String>>,
}

impl Registry {
    pub fn read(prefix: &Path) -> Self {
        let mut registry = Self::default();
        for (file, root) in [
            ("system.reg", "HKLM"),
            ("user.reg", "HKCU"),
            ("userdef.reg", r"HKU\.DEFAULT"),
        ] {
            let text =
                fs::read_to_string(prefix.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            registry.add(root, &text);
        }
        registry
    }

    fn add(&mut self, root: &str, text: &str) {
        let joined = text.replace("\\\n  ", "");
        let mut key = String::new();
        for line in joined.lines() {
            if let Some(rest) = line.strip_prefix('[') {
                let end = rest.rfind(']').expect("a section ends");
                key = format!("{root}\\{}", unescaped(&rest[..end]));
                self.keys.entry(key.clone()).or_default();
            } else if let Some((name, data)) = value(line) {
                self.keys.entry(key.clone()).or_default().insert(name, data);
            }
        }
    }

    fn key(&self, key: &str) -> Option<&BTreeMap<String, String>> {
        let found = self
            .keys
            .iter()
            .find(|(k, _)| k.to_lowercase() == key.to_lowercase());
        found.map(|(_, values)| values)
    }

    /// `sz "gold"`, `dword 0x00000001` …
    pub fn value(&self, key: &str, name: &str) -> Option<&str> {
        let values = self.key(key)?;
        let found = values
            .iter()
            .find(|(n, _)| n.to_lowercase() == name.to_lowercase());
        found.map(|(_, data)| data.as_str())
    }

    pub fn since(&self, earlier: &Self) -> String {
        let mut out = String::new();
        for (key, values) in self.keys.iter().filter(|(k, _)| !is_noise(k)) {
            let before = earlier.keys.get(key);
            if before.is_none() {
                out.push_str(&format!("+ {key}\n"));
            }
            for (name, data) in values.iter().filter(|(n, _)| *n != "InstallDate") {
                let old = before.and_then(|b| b.get(name));
                if old != Some(data) {
                    out.push_str(&format!("+ {key} {name:?} = {data}\n"));
                }
            }
            for name in before
                .into_iter()
                .flat_map(BTreeMap::keys)
                .filter(|n| !values.contains_key(*n))
            {
                out.push_str(&format!("- {key} {name:?}\n"));
            }
        }
        // A key without values of its own is not written any more when it has keys below it.
        let below = |key: &str| self.keys.keys().any(|k| k.starts_with(&format!("{key}\\")));
        for key in earlier
            .keys
            .keys()
            .filter(|k| !self.keys.contains_key(*k) && !is_noise(k) && !below(k))
        {
            out.push_str(&format!("- {key}\n"));
        }
        out
    }
}

/// Keys that Wine itself writes to when it boots and when programs run.
fn is_noise(key: &str) -> bool {
    let key = key.to_lowercase();
    [
        r"hkcu\",
        r"hklm\hardware",
        r"hklm\system\currentcontrolset\control\class",
        r"hklm\system\currentcontrolset\control\deviceclasses",
        r"hklm\system\currentcontrolset\control\video",
        r"hklm\system\currentcontrolset\control\print",
        r"hklm\system\currentcontrolset\enum",
        r"hklm\software\microsoft\windows\currentversion\installer",
        r"hklm\software\classes\installer",
        r"hklm\system\mounteddevices",
        r"hklm\software\microsoft\windows nt\currentversion\networkcards",
    ]
    .iter()
    .any(|noise| key.starts_with(noise))
}

fn value(line: &str) -> Option<(String, String)> {
    let (name, data) = if let Some(data) = line.strip_prefix("@=") {
        (String::new(), data)
    } else {
        let rest = line.strip_prefix('"')?;
        let end = closing(rest)?;
        (unescaped(&rest[..end]), rest[end + 1..].strip_prefix('=')?)
    };
    Some((name, shown(data)))
}

/// Where the string that began before `text` ends.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        end.then_some(at)
    })
}

fn shown(data: &str) -> String {
    let string = |data: &str| {
        let inside = data.strip_prefix('"').and_then(|d| d.strip_suffix('"'));
        unescaped(inside.unwrap_or(data))
    };
    if data.starts_with('"') {
        format!("sz {:?}", string(data))
    } else if let Some(text) = data.strip_prefix("str(2):") {
        format!("expand_sz {:?}", string(text))
    } else if let Some(text) = data.strip_prefix("str(7):") {
        let text = string(text);
        let list: Vec<&str> = text.split_terminator('\0').collect();
        format!("multi_sz {list:?}")
    } else if let Some(number) = data.strip_prefix("dword:") {
        format!("dword 0x{number}")
    } else {
        data.to_owned()
    }
}

/// `\x17c`, `\0`, `\n`, `\\` … back to what they stand for (Wine: server/unicode.c, dump_strW).
fn unescaped(text: &str) -> String {
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            units.extend(c.encode_utf16(&mut [0; 2]).iter());
            continue;
        }
        let digits =
            |chars: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize| {
                let mut number = 0;
                for _ in 0..most {
                    match chars.peek().and_then(|c| c.to_digit(radix)) {
                        Some(digit) => number = number * radix + digit,
                        None => break,
                    }
                    chars.next();
                }
                u16::try_from(number).expect("16 bits")
            };
        units.push(match chars.peek() {
            Some('0'..='7') => digits(&mut chars, 8, 3),
            Some('x') => {
                chars.next();
                digits(&mut chars, 16, 4)
            }
            _ => match chars.next() {
                Some('a') => 7,
                Some('b') => 8,
                Some('t') => 9,
                Some('n') => 10,
                Some('v') => 11,
                Some('f') => 12,
                Some('r') => 13,
                Some('e') => 27,
                Some(c) => u16::try_from(u32::from(c)).expect("16 bits"),
                None => u16::from(b'\\'),
            },
        });
    }
    String::from_utf16_lossy(&units)
}

#[test]
fn wines_registry_text_is_read() {
    let text = "WINE REGISTRY Version 2\n\n[Software\\\\A\\[b\\]] 12\n#time=1\n@=\"x\"\n\"\\x17c\\x00f3 \\\"q\\\"\"=str(7):\"a\\0b\\0\"\n\"path\"=\"\\\"a b\\\"\"\n\"n\"=hex(b):01,\\\n  02\n";
    let mut registry = Registry::default();
    registry.add("HKLM", text);
    let key = r"hklm\software\a[B]";
    assert_eq!(registry.value(key, ""), Some("sz \"x\""));
    assert_eq!(
        registry.value(key, "żó \"q\""),
        Some("multi_sz [\"a\", \"b\"]")
    );
    assert_eq!(registry.value(key, "path"), Some(r#"sz "\"a b\"""#));
    assert_eq!(registry.value(key, "N"), Some("hex(b):01,02"));
}
