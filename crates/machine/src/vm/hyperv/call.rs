//! Cmdlet calls as values, rendered as JSON for the host process and in PowerShell syntax for
//! people.
//!
//! Pure. No text of a call is ever executed as PowerShell: parameters are data. `scripts/host.ps1`
//! has the list of allowed cmdlets.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Scripts of the host process.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("host", include_str!("scripts/host.ps1")),
    ("probe", include_str!("scripts/probe.ps1")),
    ("credential", include_str!("scripts/credential.ps1")),
    ("screen", include_str!("scripts/screen.ps1")),
    ("key", include_str!("scripts/key.ps1")),
    ("own", include_str!("scripts/own.ps1")),
];

/// Limit for simple cmdlets.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum characters of a value in messages.
const LONGEST: usize = 200;

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum CallArgument {
    Text(String),
    Number(u64),
    Flag(bool),
    /// Object kept by an earlier call.
    Kept(&'static str),
    /// Several kept objects.
    AllKept(Vec<&'static str>),
    /// Script block of a guest script.
    Block(&'static str),
    List(Vec<Value>),
    /// Sent, but never shown.
    Secret(String),
    Null,
}

/// One call. `with` keeps the order for messages.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct CmdletCall {
    /// Name of a cmdlet, or `script:NAME`.
    pub name: &'static str,
    pub with: Vec<(&'static str, CallArgument)>,
    pub select: Vec<&'static str>,
    pub keep: Option<&'static str>,
    pub patience: Duration,
}

impl CmdletCall {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            with: Vec::new(),
            select: Vec::new(),
            keep: None,
            patience: PATIENCE,
        }
    }

    pub fn with(mut self, name: &'static str, value: CallArgument) -> Self {
        self.with.push((name, value));
        self
    }

    pub fn with_text(self, name: &'static str, value: impl Into<String>) -> Self {
        self.with(name, CallArgument::Text(value.into()))
    }

    pub fn with_number(self, name: &'static str, value: u64) -> Self {
        self.with(name, CallArgument::Number(value))
    }

    pub fn flag(self, name: &'static str, value: bool) -> Self {
        self.with(name, CallArgument::Flag(value))
    }

    pub fn with_switch(self, name: &'static str) -> Self {
        self.flag(name, true)
    }

    pub fn with_kept(self, name: &'static str, what: &'static str) -> Self {
        self.with(name, CallArgument::Kept(what))
    }

    pub fn select(mut self, names: &[&'static str]) -> Self {
        self.select = names.to_vec();
        self
    }

    pub fn keep(mut self, name: &'static str) -> Self {
        self.keep = Some(name);
        self
    }

    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Renders the request without its newline.
    pub fn request(&self, id: u64) -> String {
        let with: Map<String, Value> = self
            .with
            .iter()
            .map(|(name, arg)| ((*name).to_string(), arg.to_json()))
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

impl CallArgument {
    fn to_json(&self) -> Value {
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

/// Renders the call in PowerShell syntax, with kept objects as variables and script blocks by name.
impl fmt::Display for CmdletCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (name, arg) in &self.with {
            match arg {
                CallArgument::Flag(true) => write!(f, " -{name}")?,
                CallArgument::Flag(false) => write!(f, " -{name}:$false")?,
                CallArgument::Text(text) => write!(f, " -{name} {}", render_text(text))?,
                CallArgument::Number(number) => write!(f, " -{name} {number}")?,
                CallArgument::Kept(kept) => write!(f, " -{name} ${kept}")?,
                CallArgument::AllKept(kept) => write!(f, " -{name} ${}", kept.join(",$"))?,
                CallArgument::Block(script) => write!(f, " -{name} {{{script}}}")?,
                CallArgument::List(values) => {
                    let each: Vec<String> = values.iter().map(shown_value).collect();
                    write!(f, " -{name} @({})", each.join(","))?;
                }
                CallArgument::Secret(_) => write!(f, " -{name} ***")?,
                CallArgument::Null => write!(f, " -{name} $null")?,
            }
        }
        Ok(())
    }
}

fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => render_text(text),
        other => other.to_string(),
    }
}

/// Renders a text, in single quotes if PowerShell needs them. Long texts are shown by their length.
fn render_text(text: &str) -> String {
    if text.chars().count() > LONGEST {
        return format!("[{} characters]", text.chars().count());
    }
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || r":\/._-".contains(c));
    if !text.is_empty() && is_plain {
        text.to_string()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_data_for_the_host_and_a_line_for_people() {
        let call = CmdletCall::new(r"Hyper-V\New-VHD")
            .with_text("Path", r"C:\a b\disk.vhdx")
            .with_number("SizeBytes", 34_359_738_368)
            .with_switch("Dynamic")
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
        let order = CmdletCall::new(r"Hyper-V\Set-VMFirmware")
            .with_kept("VM", "vm")
            .with("BootOrder", CallArgument::AllKept(vec!["disk", "install"]));
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
        let call = CmdletCall::new("script:credential")
            .with_text("User", "Administrator")
            .with("Password", CallArgument::Secret("Open-Sesame-42!".into()))
            .keep("credential");
        assert!(call.request(1).contains("Open-Sesame-42!"));
        assert_eq!(
            call.to_string(),
            "script:credential -User Administrator -Password ***"
        );
        let invoke = CmdletCall::new(r"Microsoft.PowerShell.Core\Invoke-Command")
            .with_kept("Session", "session")
            .with("ScriptBlock", CallArgument::Block("put"))
            .with(
                "ArgumentList",
                CallArgument::List(vec![json!(r"C:\x y"), json!("A".repeat(300)), json!(64)]),
            );
        assert_eq!(
            invoke.to_string(),
            r"Microsoft.PowerShell.Core\Invoke-Command -Session $session -ScriptBlock {put} -ArgumentList @('C:\x y',[300 characters],64)"
        );
    }
}
