//! Analyzes answer files for the rules of targets: the one given to sysprep for the clone, and the
//! one that partitions the disk.
//!
//! Recognizes commands that enable or disable an account; the effect of other scripts is unknown.

use super::super::{PayloadEntry, PlannedStep};
use crate::target::AdministratorState;
use crate::verbs::SealAnswer;
use crate::verbs::generalize::DISABLE_ADMINISTRATOR;
use crate::{Recipe, Verb};
use winimg_base::text::Place;

/// Parameters of sysprep.
pub struct SealFacts {
    /// The place that names a custom answer file, or the step without one.
    pub place: Place,
    /// True if sysprep gets an answer file.
    pub is_answered: bool,
    /// Commands of that file's specialize and oobeSystem passes, in order.
    pub commands: Vec<String>,
}

impl SealFacts {
    pub fn from_recipe(
        recipe: &Recipe,
        steps: &[PlannedStep],
        payload: &[PayloadEntry],
    ) -> Option<Self> {
        let mut steps = recipe.steps.iter().zip(steps);
        steps.find_map(|(step, planned)| {
            if step.skipped.is_some() {
                return None;
            }
            let Verb::Generalize(generalize) = &step.verb else {
                return None;
            };
            let place = match &generalize.answer_file {
                SealAnswer::Own(own) => &own.place,
                SealAnswer::BuiltIn | SealAnswer::None => &step.place,
            };
            let text = planned.answer_file(payload);
            Some(Self {
                place: place.clone(),
                is_answered: !matches!(generalize.answer_file, SealAnswer::None),
                commands: text.map(parse_commands).unwrap_or_default(),
            })
        })
    }

    /// Returns the state of the built-in account after the commands; `None` if they do not change
    /// it.
    pub fn find_administrator_state(&self) -> Option<AdministratorState> {
        self.commands
            .iter()
            .rev()
            .find_map(|command| parse_account_switch(command))
    }
}

/// Parses the commands for Setup (Microsoft: Unattended Windows Setup Reference,
/// RunSynchronousCommand and SynchronousCommand).
fn parse_commands(text: &str) -> Vec<String> {
    let Ok(document) = roxmltree::Document::parse(text) else {
        return Vec::new();
    };
    document
        .descendants()
        .filter(|node| matches!(node.tag_name().name(), "Path" | "CommandLine"))
        .filter_map(|node| node.text())
        .map(|text| text.trim().to_owned())
        .collect()
}

/// Parses the names of the accounts that an answer file creates (Microsoft: Unattended Windows
/// Setup Reference, LocalAccounts).
pub fn local_accounts(text: &str) -> Vec<String> {
    let Ok(document) = roxmltree::Document::parse(text) else {
        return Vec::new();
    };
    document
        .descendants()
        .filter(|node| node.tag_name().name() == "LocalAccount")
        .filter_map(|account| Some(child_text(account, "Name")?.to_owned()))
        .collect()
}

fn child_text<'a>(node: roxmltree::Node<'a, '_>, name: &str) -> Option<&'a str> {
    let mut children = node.children();
    let child = children.find(|child| child.tag_name().name() == name)?;
    Some(child.text()?.trim())
}

/// Recognizes `{{disable_administrator}}`, `net user Administrator /active:no`, or a cmdlet for the
/// account with the RID 500 (Microsoft: net user; Disable-LocalUser; well-known SIDs).
fn parse_account_switch(command: &str) -> Option<AdministratorState> {
    if command == DISABLE_ADMINISTRATOR {
        return Some(AdministratorState::Disabled);
    }
    let lower = command.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let by_net = words.contains(&"administrator");
    let by_sid = lower.contains("-500'") || lower.contains("-500\"") || lower.contains("-500$");
    if by_net && words.contains(&"/active:no") || by_sid && lower.contains("disable-localuser") {
        return Some(AdministratorState::Disabled);
    }
    let is_enabled =
        by_net && words.contains(&"/active:yes") || by_sid && lower.contains("enable-localuser");
    is_enabled.then_some(AdministratorState::Enabled)
}

/// Partition that an answer file for Setup creates behind the Windows partition.
#[derive(Debug, PartialEq, Eq)]
pub enum BehindWindows {
    Nothing,
    /// The partition with this number.
    Partition(u32),
}

/// Returns what an answer file for Setup creates behind the Windows partition; `None` if the file
/// does not tell (Microsoft: Unattended Windows Setup Reference, CreatePartition, InstallTo).
pub fn partition_behind_windows(text: &str) -> Option<BehindWindows> {
    let document = roxmltree::Document::parse(text).ok()?;
    let windows: u32 = document
        .descendants()
        .filter(|node| node.tag_name().name() == "InstallTo")
        .find_map(|node| child_text(node, "PartitionID")?.parse().ok())?;
    let last: Option<u32> = document
        .descendants()
        .filter(|node| node.tag_name().name() == "CreatePartition")
        .filter_map(|node| child_text(node, "Order")?.parse().ok())
        .max();
    let behind = last.filter(|last| *last > windows);
    Some(behind.map_or(BehindWindows::Nothing, BehindWindows::Partition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_switch_the_built_in_account_are_known() {
        for (command, state) in [
            (
                "net user Administrator /ACTIVE:YES /LOGONPASSWORDCHG:NO",
                Some(AdministratorState::Enabled),
            ),
            (
                r"C:\Windows\System32\net.exe user administrator /active:no",
                Some(AdministratorState::Disabled),
            ),
            (
                "powershell.exe -Command \"Get-LocalUser | Where-Object SID -like 'S-1-5-21-*-500' | Disable-LocalUser\"",
                Some(AdministratorState::Disabled),
            ),
            (DISABLE_ADMINISTRATOR, Some(AdministratorState::Disabled)),
            (
                "powershell.exe -Command \"Disable-LocalUser -Name Guest\"",
                None,
            ),
            ("net user Guest /active:no", None),
        ] {
            assert_eq!(parse_account_switch(command), state, "{command}");
        }
    }

    #[test]
    fn accounts_of_an_answer_file_are_known() {
        let file = "<unattend><UserAccounts><AdministratorPassword><Value>x</Value></AdministratorPassword><LocalAccounts>\
                    <LocalAccount><Password><Value>v</Value></Password><Group>Administrators</Group><Name> vagrant </Name>\
                    </LocalAccount><LocalAccount><Name>ops</Name></LocalAccount></LocalAccounts></UserAccounts>\
                    <Name>nobody</Name></unattend>";
        assert_eq!(local_accounts(file), ["vagrant", "ops"]);
        assert!(local_accounts("<unattend/>").is_empty());
        assert!(local_accounts("no XML").is_empty());
    }

    #[test]
    fn a_partition_behind_windows_is_found() {
        let layout = |orders: &[u32]| {
            let made: String = orders
                .iter()
                .map(|n| format!("<CreatePartition><Order>{n}</Order></CreatePartition>"))
                .collect();
            format!(
                "<unattend>{made}<InstallTo><DiskID>0</DiskID><PartitionID>3</PartitionID></InstallTo></unattend>"
            )
        };
        assert_eq!(
            partition_behind_windows(&layout(&[1, 2, 3])),
            Some(BehindWindows::Nothing)
        );
        assert_eq!(
            partition_behind_windows(&layout(&[1, 2, 3, 4])),
            Some(BehindWindows::Partition(4))
        );
        assert_eq!(partition_behind_windows("<unattend/>"), None);
        assert_eq!(partition_behind_windows("{{#if}}"), None);
    }
}
