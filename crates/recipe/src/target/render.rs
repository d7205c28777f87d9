//! Renders targets for users: conditions, the list of all targets, and a whole target.

use std::fmt::Write as _;

use serde::Serialize;

use super::condition::ServiceCondition;
use super::{
    AdministratorState, FactOrigin, FactProof, FileSetting, MediaChannel, MetadataForm,
    RegistryCondition, RegistryConditionData, RuleDemand, RuleSeverity, TargetCondition,
    TargetHardware, TargetSpec,
};
use crate::quantity::format_size;
use crate::{DiskBus, Firmware};
use winimg_base::text::{Place, column_width};

/// Renders a list of targets, one per line.
pub fn list(targets: &[TargetSpec]) -> String {
    let rows = targets.iter().map(|target| {
        let firmware: Vec<&str> = target
            .hardware
            .firmware
            .iter()
            .map(|f| f.as_str())
            .collect();
        [
            target.name.clone(),
            firmware.join(", "),
            serialized_name(&target.hardware.controller),
            target.metadata.describe(", "),
            target.title.clone(),
        ]
    });
    let head = ["target", "firmware", "disk", "metadata, agent", "platform"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> = (0..4)
        .map(|column| column_width(rows.iter().map(|row| row[column].len())))
        .collect();
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths.iter().copied()) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", row[4]);
    }
    text
}

impl TargetHardware {
    /// Describes the disk controllers: `vmbus-scsi; on some sizes vmbus-nvme`.
    pub fn describe_disk(&self) -> String {
        let also: Vec<String> = self.also.iter().map(serialized_name).collect();
        let usual = serialized_name(&self.controller);
        if also.is_empty() {
            return usual;
        }
        format!("{usual}; on some sizes {}", also.join(", "))
    }
}

/// Renders a whole target, each line with its source.
pub fn render_target(target: &TargetSpec) -> String {
    let TargetSpec {
        hardware, metadata, ..
    } = target;
    let firmware: Vec<&str> = hardware.firmware.iter().map(|f| f.as_str()).collect();
    let mut text = format!(
        "{}: {} ({})\n\nFirst boot\n",
        target.name, target.title, target.place.source.name
    );
    let rows = [
        ("firmware", firmware.join(" or ")),
        ("disk", hardware.describe_disk()),
        ("network", serialized_name(&hardware.nic)),
        ("TPM", serialized_name(&hardware.tpm)),
        ("Secure Boot", serialized_name(&hardware.secure_boot)),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<12} {value}");
    }
    let _ = writeln!(text, "      {}", hardware.origin.describe());
    let _ = writeln!(
        text,
        "  {:<12} {}\n      {}",
        "metadata",
        metadata.describe(", read by "),
        metadata.origin.describe()
    );
    for (report, title) in [
        (RuleSeverity::Refuse, "Refused"),
        (RuleSeverity::Warn, "Warned about"),
    ] {
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
            let _ = writeln!(text, "      {}", rule.describe_demand());
            let _ = writeln!(text, "      {}", rule.origin.describe());
        }
    }
    if !target.notes.is_empty() {
        text.push_str("\nNotes\n");
    }
    for note in &target.notes {
        let _ = writeln!(text, "  {}\n      {}", note.note, note.origin.describe());
    }
    text
}

/// Returns the name of an enum variant in files.
pub fn serialized_name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

impl super::TargetMetadata {
    /// Describes the form and the agent, separated by `between`; `none` without metadata.
    pub fn describe(&self, between: &str) -> String {
        match (self.by, self.agent.as_str()) {
            (MetadataForm::None, "none") => "none".into(),
            (by, agent) => format!("{}{between}{agent}", serialized_name(&by)),
        }
    }
}

impl super::TargetRule {
    /// Describes the demand: `refuses: the feature Microsoft-Hyper-V; only with: …`.
    pub fn describe_demand(&self) -> String {
        let mut words = match &self.demand {
            RuleDemand::Needs(condition) => format!("needs: {}", condition.describe()),
            RuleDemand::Refuses(condition) => format!("refuses: {}", condition.describe()),
        };
        if let Some(when) = &self.when {
            let _ = write!(words, "; only with: {}", when.describe());
        }
        if let Some(output) = self.output {
            let _ = write!(words, "; for each recipe with the output {}", output.name());
        }
        words
    }

    /// Describes the place and the source of the rule.
    pub fn describe_origin(&self) -> String {
        describe_rule_origin(&self.place, &self.origin)
    }
}

fn describe_rule_origin(place: &Place, origin: &FactOrigin) -> String {
    format!("its rule is at {place}; {}", origin.describe())
}

impl FactOrigin {
    /// Describes the source: `source: …`, and its reliability unless it is documented.
    pub fn describe(&self) -> String {
        let how = match self.proof {
            FactProof::Text => return format!("source: {}", self.source),
            FactProof::Field => "seen on real machines by others",
            FactProof::Inferred => "inferred, not seen",
            FactProof::Mem => "from memory",
            FactProof::Unproven => "unproven",
        };
        format!("source ({how}): {}", self.source)
    }
}

impl Firmware {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uefi => "uefi",
            Self::Bios => "bios",
        }
    }
}

impl DiskBus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::Virtio => "virtio",
            Self::Ahci => "ahci",
        }
    }
}

impl TargetCondition {
    /// Describes the condition as a noun phrase.
    pub fn describe(&self) -> String {
        match self {
            Self::Feature(names) => format!("the feature {}", join_or(names)),
            Self::Firmware(all) => {
                format!("`firmware` {}", join_or(all.iter().map(|f| f.as_str())))
            }
            Self::SecureBoot(on) => format!("`secure_boot` {on}"),
            Self::DiskBus(all) => format!("`disk_bus` {}", join_or(all.iter().map(|b| b.as_str()))),
            Self::DiskAbove(size) => format!("a disk larger than {}", format_size(size.0)),
            Self::DiskMultiple(size) => {
                format!("a disk size in multiples of {}", format_size(size.0))
            }
            Self::PartitionBehindWindows(true) => "a partition after the Windows partition".into(),
            Self::PartitionBehindWindows(false) => {
                "no partition after the Windows partition".into()
            }
            Self::Output(all) => format!("the output {}", join_or(all.iter().map(|o| o.name()))),
            Self::HardwareVersion(least) => format!("an OVA of hardware version {least} or later"),
            Self::Windows(all) => {
                format!("Windows Server {}", join_or(all.iter().map(|w| w.0.year())))
            }
            Self::Channel(all) => {
                let names = all.iter().map(|channel| match channel {
                    MediaChannel::Evaluation => "evaluation",
                    MediaChannel::Licensed => "volume or retail",
                });
                format!("{} media", join_or(names))
            }
            Self::LicenseType(all) => format!("`license_type` {}", join_or(all)),
            Self::AnswerFile(true) => "an answer file for sysprep".into(),
            Self::AnswerFile(false) => "no answer file for sysprep".into(),
            Self::Command(all) => {
                format!("a command with `{}` in sysprep's answer file", join_or(all))
            }
            Self::Administrator(AdministratorState::Disabled) => {
                "the built-in Administrator disabled on the clone".into()
            }
            Self::Administrator(AdministratorState::Enabled) => {
                "the built-in Administrator enabled on the clone".into()
            }
            Self::User(names) => format!("the account {}", names.join(" and ")),
            Self::Port(ports) => {
                let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                format!("the firewall open at TCP {}", ports.join(" and "))
            }
            Self::Registry(value) => value.describe(),
            Self::Service(ServiceCondition { name, start }) => {
                format!("the service {name} with start {}", serialized_name(start))
            }
            Self::File(paths) => join_or(paths.iter().map(|path| path.as_str())),
            Self::Setting(setting) => setting.describe(),
            Self::Driver(names) => format!("the drivers {}", names.join(" and ")),
        }
    }
}

fn join_or<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names
        .into_iter()
        .map(|name| name.as_ref().to_owned())
        .collect();
    names.join(" or ")
}

impl RegistryCondition {
    fn describe(&self) -> String {
        format!(r"{}\{} = {}", self.key, self.name, self.data.describe())
    }
}

impl RegistryConditionData {
    pub fn describe(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("\"{text}\""),
        }
    }
}

impl FileSetting {
    fn describe(&self) -> String {
        format!(
            "{} with {} in `{}`",
            self.file,
            join_or(&self.has),
            self.key
        )
    }
}
