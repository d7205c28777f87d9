//! A package's tables, the properties of an installation, and formatted text.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use msi::{Package, Row, Select, Value};

use crate::windows::registry::Registry;

/// Rows of one table: text by column name; numbers as text, null as "".
pub type Rows = Vec<BTreeMap<String, String>>;

pub struct Database {
    tables: BTreeMap<String, Rows>,
    streams: BTreeMap<String, Vec<u8>>,
    /// The Windows directory that the package lies in.
    pub source: String,
    /// Files are stored beside the package, not in cabinets (summary word count, bit 1 clear).
    pub loose: bool,
}

impl Database {
    pub fn open(bytes: Vec<u8>, source: String) -> std::io::Result<Database> {
        let mut package = Package::open(Cursor::new(bytes))?;
        let loose = package.summary_info().word_count().unwrap_or(2) & 2 == 0;
        let names: Vec<(String, Vec<String>)> = package
            .tables()
            .map(|table| {
                (
                    table.name().to_owned(),
                    table
                        .columns()
                        .iter()
                        .map(|column| column.name().to_owned())
                        .collect(),
                )
            })
            .collect();
        let mut tables = BTreeMap::new();
        for (name, columns) in names.into_iter().filter(|(name, _)| !name.starts_with('_')) {
            let rows: Vec<Row> = package.select_rows(Select::table(name.as_str()))?.collect();
            let cell = |row: &Row, column: &String| match &row[column.as_str()] {
                // A binary cell's content is a stream of its own.
                Value::Null | Value::Binary => String::new(),
                Value::Int(number) => number.to_string(),
                Value::Str(text) => text.clone(),
            };
            let rows = rows.iter().map(|row| {
                columns
                    .iter()
                    .map(|column| (column.clone(), cell(row, column)))
                    .collect()
            });
            tables.insert(name, rows.collect());
        }
        let names: Vec<String> = package.streams().collect();
        let mut streams = BTreeMap::new();
        for name in names {
            let mut data = Vec::new();
            package.read_stream(&name)?.read_to_end(&mut data)?;
            streams.insert(name, data);
        }
        Ok(Database {
            tables,
            streams,
            source,
            loose,
        })
    }

    pub fn rows(&self, table: &str) -> &[BTreeMap<String, String>] {
        self.tables
            .get(table)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Names of tables that have rows.
    /// Sets a property that has no value yet.
    pub fn filled(&self) -> impl Iterator<Item = &str> {
        self.tables
            .iter()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(name, _)| name.as_str())
    }

    pub fn stream(&self, name: &str) -> Option<&[u8]> {
        self.streams.get(name).map(Vec::as_slice)
    }

    pub fn property(&self, name: &str) -> String {
        let row = self
            .rows("Property")
            .iter()
            .find(|row| row["Property"] == name);
        row.map(|row| row["Value"].clone()).unwrap_or_default()
    }

    pub fn product_code(&self) -> String {
        self.property("ProductCode")
    }
}

/// Property values; names are exact.
#[derive(Clone, Default)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// An empty value is an undefined property.
    pub fn set(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            self.0.remove(name);
        } else {
            self.0.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Sets a property that has no value yet.
    pub fn fill(&mut self, name: &str, value: &str) {
        if self.get(name).is_empty() {
            self.set(name, value);
        }
    }
}

/// Properties that Windows Installer sets itself, on a 64-bit Windows Server, as LocalSystem, with no window.
pub fn standard(registry: &Registry) -> Properties {
    let mut properties = Properties::default();
    let nt = crate::windows::NT;
    properties.set("WindowsBuild", "9600");
    properties.set(
        "WindowsBuildNumber",
        &registry.text(nt, "CurrentBuildNumber").unwrap_or_default(),
    );
    properties.set("ComputerName", &crate::windows::computer_name(registry));
    for (name, value) in [
        ("VersionNT", "603"),
        ("VersionNT64", "603"),
        ("VersionMsi", "5.00"),
        ("Msix64", "6"),
        ("MsiAMD64", "6"),
        ("Intel", "6"),
        ("MsiNTProductType", "3"),
        ("MsiNTSuiteDataCenter", "1"),
        ("Privileged", "1"),
        ("AdminUser", "1"),
        ("ALLUSERS", "1"),
        ("UILevel", "2"),
        ("INSTALLLEVEL", "1"),
        ("LogonUser", "SYSTEM"),
        ("UserLanguageID", "1033"),
        ("SystemLanguageID", "1033"),
        ("ROOTDRIVE", "C:\\"),
        ("WindowsVolume", "C:\\"),
        ("WindowsFolder", "C:\\Windows\\"),
        ("SystemFolder", "C:\\Windows\\SysWOW64\\"),
        ("System64Folder", "C:\\Windows\\System32\\"),
        ("TempFolder", "C:\\Windows\\Temp\\"),
        ("ProgramFilesFolder", "C:\\Program Files (x86)\\"),
        ("ProgramFiles64Folder", "C:\\Program Files\\"),
        (
            "CommonFilesFolder",
            "C:\\Program Files (x86)\\Common Files\\",
        ),
        ("CommonFiles64Folder", "C:\\Program Files\\Common Files\\"),
        ("CommonAppDataFolder", "C:\\ProgramData\\"),
        (
            "ProgramMenuFolder",
            "C:\\ProgramData\\Microsoft\\Windows\\Start Menu\\Programs\\",
        ),
        (
            "StartMenuFolder",
            "C:\\ProgramData\\Microsoft\\Windows\\Start Menu\\",
        ),
        ("DesktopFolder", "C:\\Users\\Public\\Desktop\\"),
        ("FontsFolder", "C:\\Windows\\Fonts\\"),
    ] {
        properties.set(name, value);
    }
    properties
}

/// What bracketed references in formatted text stand for.
pub struct Formatter<'a> {
    pub properties: &'a Properties,
    /// Full paths by File key (`[#key]`, `[!key]`) and by Component key (`[$key]`).
    pub files: &'a BTreeMap<String, String>,
    pub components: &'a BTreeMap<String, String>,
}

impl Formatter<'_> {
    /// `[PROPERTY]`, `[#file]`, `[!file]`, `[$component]`, `[~]`, `[%ENV]`, `[\x]`; inner brackets first.
    pub fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        // Innermost first; what can't be resolved becomes empty, so this ends.
        while let Some(end) = out.find(']') {
            let Some(start) = out[..end].rfind('[') else {
                break;
            };
            let value = self.reference(&out[start + 1..end]);
            out.replace_range(start..=end, &value);
        }
        out.replace('\u{1}', "[")
            .replace('\u{2}', "]")
            .replace(['{', '}'], "")
    }

    fn reference(&self, name: &str) -> String {
        let path =
            |map: &BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_default();
        match name.split_at(name.chars().next().map_or(0, char::len_utf8)) {
            ("#" | "!", key) => path(self.files, key),
            ("$", key) => path(self.components, key),
            ("~", "") => "\0".into(),
            ("\\", "[") => "\u{1}".into(),
            ("\\", "]") => "\u{2}".into(),
            ("\\", rest) => rest.into(),
            _ => self.properties.get(name).to_owned(),
        }
    }
}
