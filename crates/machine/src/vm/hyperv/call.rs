//! Calls of cmdlets as values: what is asked of the host process, as JSON for it and as PowerShell's own look for people.
//!
//! Pure. No text of a call is ever run as PowerShell: parameters are data. Which cmdlets may be called says `scripts/host.ps1`.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// The host process's scripts, written beside it.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("host", include_str!("scripts/host.ps1")),
    ("probe", include_str!("scripts/probe.ps1")),
    ("credential", include_str!("scripts/credential.ps1")),
    ("screen", include_str!("scripts/screen.ps1")),
    ("key", include_str!("scripts/key.ps1")),
    ("own", include_str!("scripts/own.ps1")),
];

/// For cmdlets that ask Hyper-V's service and do little.
const PATIENCE: Duration = Duration::from_secs(120);
/// Characters of one value in a line for people.
const LONGEST: usize = 200;

/// What a parameter is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    Text(String),
    Number(u64),
    Flag(bool),
    /// An object that an earlier call kept.
    Kept(&'static str),
    /// Several of them.
    AllKept(Vec<&'static str>),
    /// The script block of a guest script.
    Block(&'static str),
    List(Vec<Value>),
    /// Sent, and never shown.
    Secret(String),
    Null,
}

/// One call. `with` is in the order that people read.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// A cmdlet, or `script:NAME`.
    pub name: &'static str,
    pub with: Vec<(&'static str, Arg)>,
    pub select: Vec<&'static str>,
    pub keep: Option<&'static str>,
    pub patience: Duration,
}

impl Call {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            with: Vec::new(),
            select: Vec::new(),
            keep: None,
            patience: PATIENCE,
        }
    }

    pub fn with(mut self, name: &'static str, value: Arg) -> Self {
        self.with.push((name, value));
        self
    }

    pub fn text(self, name: &'static str, value: impl Into<String>) -> Self {
        self.with(name, Arg::Text(value.into()))
    }

    pub fn number(self, name: &'static str, value: u64) -> Self {
        self.with(name, Arg::Number(value))
    }

    pub fn flag(self, name: &'static str, value: bool) -> Self {
        self.with(name, Arg::Flag(value))
    }

    pub fn on(self, name: &'static str) -> Self {
        self.flag(name, true)
    }

    pub fn kept(self, name: &'static str, what: &'static str) -> Self {
        self.with(name, Arg::Kept(what))
    }

    pub fn select(mut self, names: &[&'static str]) -> Self {
        self.select = names.to_vec();
        self
    }

    pub fn keep(mut self, name: &'static str) -> Self {
        self.keep = Some(name);
        self
    }

    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The request's line, without its end.
    pub fn request(&self, id: u64) -> String {
        let with: Map<String, Value> = self
            .with
            .iter()
            .map(|(name, arg)| ((*name).to_string(), arg.json()))
            .collect();
        let mut request = json!({"id": id, "call": self.name, "with": with});
        if !self.select.is_empty() {
            request["select"] = json!(self.select);
        }
        if let Some(name) = self.keep {
            request["keep"] = json!(name);
        }
        request.to_string()
    }
}

impl Arg {
    fn json(&self) -> Value {
        match self {
            Self::Text(text) | Self::Secret(text) => json!(text),
            Self::Number(number) => json!(number),
            Self::Flag(flag) => json!(flag),
            Self::Kept(name) => json!({"$kept": name}),
            Self::AllKept(names) => json!({"$kept": names}),
            Self::Block(name) => json!({"$script": name}),
            Self::List(values) => json!(values),
            Self::Null => Value::Null,
        }
    }
}

/// As it would be typed; a kept object is a variable, a script block its name.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (name, arg) in &self.with {
            match arg {
                Arg::Flag(true) => write!(f, " -{name}")?,
                Arg::Flag(false) => write!(f, " -{name}:$false")?,
                Arg::Text(text) => write!(f, " -{name} {}", shown(text))?,
                Arg::Number(number) => write!(f, " -{name} {number}")?,
                Arg::Kept(kept) => write!(f, " -{name} ${kept}")?,
                Arg::AllKept(kept) => write!(f, " -{name} ${}", kept.join(",$"))?,
                Arg::Block(script) => write!(f, " -{name} {{{script}}}")?,
                Arg::List(values) => {
                    let each: Vec<String> = values.iter().map(shown_value).collect();
                    write!(f, " -{name} @({})", each.join(","))?;
                }
                Arg::Secret(_) => write!(f, " -{name} ***")?,
                Arg::Null => write!(f, " -{name} $null")?,
            }
        }
        Ok(())
    }
}

fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => shown(text),
        other => other.to_string(),
    }
}

/// In single quotes where PowerShell needs them. Contents of files are shown by their length.
fn shown(text: &str) -> String {
    if text.chars().count() > LONGEST {
        return format!("[{} characters]", text.chars().count());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || r":\/._-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_data_for_the_host_and_a_line_for_people() {
        let call = Call::new(r"Hyper-V\New-VHD")
            .text("Path", r"C:\a b\disk.vhdx")
            .number("SizeBytes", 34_359_738_368)
            .on("Dynamic")
            .select(&["Path"])
            .keep("disk");
        assert_eq!(
            call.request(7),
            r#"{"id":7,"call":"Hyper-V\\New-VHD","with":{"Path":"C:\\a b\\disk.vhdx","SizeBytes":34359738368,"Dynamic":true},"select":["Path"],"keep":"disk"}"#
        );
        assert_eq!(
            call.to_string(),
            r"Hyper-V\New-VHD -Path 'C:\a b\disk.vhdx' -SizeBytes 34359738368 -Dynamic"
        );
        let order = Call::new(r"Hyper-V\Set-VMFirmware")
            .kept("VM", "vm")
            .with("BootOrder", Arg::AllKept(vec!["disk", "install"]));
        assert_eq!(
            order.request(8),
            r#"{"id":8,"call":"Hyper-V\\Set-VMFirmware","with":{"VM":{"$kept":"vm"},"BootOrder":{"$kept":["disk","install"]}}}"#
        );
        assert_eq!(
            order.to_string(),
            r"Hyper-V\Set-VMFirmware -VM $vm -BootOrder $disk,$install"
        );
    }

    #[test]
    fn a_secret_is_sent_and_never_shown() {
        let call = Call::new("script:credential")
            .text("User", "Administrator")
            .with("Password", Arg::Secret("Open-Sesame-42!".into()))
            .keep("credential");
        assert!(call.request(1).contains("Open-Sesame-42!"));
        assert_eq!(
            call.to_string(),
            "script:credential -User Administrator -Password ***"
        );
        let invoke = Call::new(r"Microsoft.PowerShell.Core\Invoke-Command")
            .kept("Session", "session")
            .with("ScriptBlock", Arg::Block("put"))
            .with(
                "ArgumentList",
                Arg::List(vec![json!(r"C:\x y"), json!("A".repeat(300)), json!(64)]),
            );
        assert_eq!(
            invoke.to_string(),
            r"Microsoft.PowerShell.Core\Invoke-Command -Session $session -ScriptBlock {put} -ArgumentList @('C:\x y',[300 characters],64)"
        );
    }
}
