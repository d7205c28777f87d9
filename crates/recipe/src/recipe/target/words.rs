//! Targets for people: conditions as words, the list of all, and one whole.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::quantity::show_size;
use super::super::{DiskBus, Firmware};
use super::condition::Service;
use super::{
    Administrator, Channel, Condition, Data, Demand, Form, Hardware, Origin, Proof, Report,
    Setting, Target, Value,
};
use winimg_base::text::{Place, column_width};

/// All targets, one a line.
pub fn list(targets: &[Target]) -> String {
    let rows = targets.iter().map(|target| {
        let firmware: Vec<&str> = target.hardware.firmware.iter().map(|f| f.word()).collect();
        [
            target.name.clone(),
            firmware.join(", "),
            word(&target.hardware.controller),
            target.metadata.words(", "),
            target.title.clone(),
        ]
    });
    let head = ["target", "firmware", "disk", "metadata, agent", "platform"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| column_width(rows.iter().map(|row| row[column].len()));
    let widths: Vec<usize> = (0..4).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths.iter().copied()) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", row[4]);
    }
    text
}

impl Hardware {
    /// `vmbus-scsi; of some sizes vmbus-nvme`
    pub fn disk_words(&self) -> String {
        let also: Vec<String> = self.also.iter().map(word).collect();
        let usual = word(&self.controller);
        if also.is_empty() {
            return usual;
        }
        format!("{usual}; of some sizes {}", also.join(", "))
    }
}

/// One target whole, each line with its source.
pub fn text(target: &Target) -> String {
    let Target {
        hardware, metadata, ..
    } = target;
    let firmware: Vec<&str> = hardware.firmware.iter().map(|f| f.word()).collect();
    let mut text = format!(
        "{}: {} ({})\n\nFirst boot\n",
        target.name, target.title, target.place.source.name
    );
    let rows = [
        ("firmware", firmware.join(" or ")),
        ("disk", hardware.disk_words()),
        ("network", word(&hardware.nic)),
        ("TPM", word(&hardware.tpm)),
        ("Secure Boot", word(&hardware.secure_boot)),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<12} {value}");
    }
    let _ = writeln!(text, "      {}", hardware.origin.words());
    let _ = writeln!(
        text,
        "  {:<12} {}\n      {}",
        "metadata",
        metadata.words(", read by "),
        metadata.origin.words()
    );
    for (report, title) in [(Report::Refuse, "Refused"), (Report::Warn, "Warned about")] {
        let mut rules = target
            .rules
            .iter()
            .filter(|r| r.report == report)
            .peekable();
        if rules.peek().is_some() {
            let _ = writeln!(text, "\n{title}");
        }
        for rule in rules {
            let _ = writeln!(text, "  {}", rule.why);
            let _ = writeln!(text, "      {}", rule.asks());
            let _ = writeln!(text, "      {}", rule.origin.words());
        }
    }
    if !target.notes.is_empty() {
        text.push_str("\nNotes\n");
    }
    for note in &target.notes {
        let _ = writeln!(text, "  {}\n      {}", note.note, note.origin.words());
    }
    text
}

/// As the file writes it.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

impl super::Metadata {
    /// The form, `between`, and the agent; `none` where a machine gets no metadata.
    pub fn words(&self, between: &str) -> String {
        match (self.by, self.agent.as_str()) {
            (Form::None, "none") => "none".into(),
            (by, agent) => format!("{}{between}{agent}", word(&by)),
        }
    }
}

impl super::Rule {
    /// `refuses: the feature Microsoft-Hyper-V; only with: …`
    pub fn asks(&self) -> String {
        let mut words = match &self.demand {
            Demand::Needs(condition) => format!("needs: {}", condition.words()),
            Demand::Refuses(condition) => format!("refuses: {}", condition.words()),
        };
        if let Some(when) = &self.when {
            let _ = write!(words, "; only with: {}", when.words());
        }
        if let Some(output) = self.output {
            let _ = write!(words, "; for each recipe with the output {}", output.name());
        }
        words
    }

    /// Where the rule stands and where it comes from.
    pub fn described(&self) -> String {
        described(&self.place, &self.origin)
    }
}

fn described(place: &Place, origin: &Origin) -> String {
    format!("its rule is at {place}; {}", origin.words())
}

impl Origin {
    /// `source: …`, and how well it is known where no text says it.
    pub fn words(&self) -> String {
        let how = match self.proof {
            Proof::Text => return format!("source: {}", self.source),
            Proof::Field => "seen on real machines by others",
            Proof::Inferred => "inferred, not seen",
            Proof::Mem => "from memory",
            Proof::Unproven => "unproven",
        };
        format!("source ({how}): {}", self.source)
    }
}

impl Firmware {
    pub fn word(self) -> &'static str {
        match self {
            Self::Uefi => "uefi",
            Self::Bios => "bios",
        }
    }
}

impl DiskBus {
    pub fn word(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::Virtio => "virtio",
            Self::Ahci => "ahci",
        }
    }
}

impl Condition {
    /// A noun phrase.
    pub fn words(&self) -> String {
        match self {
            Self::Feature(names) => format!("the feature {}", any(names)),
            Self::Firmware(all) => format!("`firmware` {}", any(all.iter().map(|f| f.word()))),
            Self::SecureBoot(on) => format!("`secure_boot` {on}"),
            Self::DiskBus(all) => format!("`disk_bus` {}", any(all.iter().map(|b| b.word()))),
            Self::DiskAbove(size) => format!("a disk larger than {}", show_size(size.0)),
            Self::DiskMultiple(size) => format!("a disk of whole {}", show_size(size.0)),
            Self::PartitionBehindWindows(true) => "a partition behind Windows' own".into(),
            Self::PartitionBehindWindows(false) => "no partition behind Windows' own".into(),
            Self::Output(all) => format!("the output {}", any(all.iter().map(|o| o.name()))),
            Self::HardwareVersion(least) => format!("an OVA of hardware version {least} or later"),
            Self::Windows(all) => {
                format!("Windows Server {}", any(all.iter().map(|w| w.0.year())))
            }
            Self::Channel(all) => {
                let name = |channel: &Channel| match channel {
                    Channel::Evaluation => "evaluation",
                    Channel::Licensed => "volume or retail",
                };
                format!("{} media", any(all.iter().map(name)))
            }
            Self::LicenseType(all) => format!("`license_type` {}", any(all)),
            Self::AnswerFile(true) => "an answer file for sysprep".into(),
            Self::AnswerFile(false) => "no answer file for sysprep".into(),
            Self::Command(all) => format!("a command with `{}` in sysprep's answer file", any(all)),
            Self::Administrator(Administrator::Disabled) => {
                "the built-in Administrator disabled on the clone".into()
            }
            Self::Administrator(Administrator::Enabled) => {
                "the built-in Administrator enabled on the clone".into()
            }
            Self::User(names) => format!("the account {}", names.join(" and ")),
            Self::Port(ports) => {
                let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                format!("the firewall open at TCP {}", ports.join(" and "))
            }
            Self::Registry(value) => value.words(),
            Self::Service(Service { name, start }) => {
                format!("the service {name} with start {}", word(start))
            }
            Self::File(paths) => any(paths.iter().map(|path| path.as_str())),
            Self::Setting(setting) => setting.words(),
            Self::Driver(names) => format!("the drivers {}", names.join(" and ")),
        }
    }
}

fn any<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names
        .into_iter()
        .map(|name| name.as_ref().to_owned())
        .collect();
    names.join(" or ")
}

impl Value {
    fn words(&self) -> String {
        format!(r"{}\{} = {}", self.key, self.name, self.data.words())
    }
}

impl Data {
    pub fn words(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("\"{text}\""),
        }
    }
}

impl Setting {
    fn words(&self) -> String {
        format!("{} with {} in `{}`", self.file, any(&self.has), self.key)
    }
}
