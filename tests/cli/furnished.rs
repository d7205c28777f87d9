//! A build on the scripted machine whose disk holds what the steps leave, by hand: the fake machine runs nothing.

use crate::cli::site::{SEAL, Site};
use support::media;
use support::windows_disk::{REG_SZ, WindowsDisk, sz};

const STEPS: &str = r#"
[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }

[[steps]]
name = "site settings"
registry = { key = 'HKLM\SOFTWARE\Example', name = "Tier", type = "sz", data = "gold" }
"#;

/// What the steps leave.
pub fn furnished() -> WindowsDisk {
    let mut disk = WindowsDisk::sound();
    disk.file(r"C:\k\tool.exe", b"MZ the tool\n");
    disk.value(r"HKLM\SOFTWARE\Example", "Tier", REG_SZ, &sz("gold"));
    disk
}

/// A recipe with these `[outputs]`, for a machine that leaves this disk.
pub fn site(disk: &WindowsDisk, outputs: &str) -> Site {
    let site = Site::new(&format!("{STEPS}\n{SEAL}"));
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &recipe.replace("raw = {}\n", outputs));
    let raw = site.path("windows.raw");
    disk.write(&raw);
    media::convert(&["-O", "qcow2"], &raw, &site.path("sealed.qcow2"));
    site
}
