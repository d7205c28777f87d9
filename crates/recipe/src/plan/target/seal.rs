//! What an answer file does that a target may mind: the one given to sysprep for the clone, and the one that lays out the disk.
//!
//! Reads the commands that are known to switch an account; what another script does is not known.

use super::super::seal::DISABLE_ADMINISTRATOR;
use super::super::{Entry, PlannedStep};
use crate::recipe::target::Administrator;
use crate::recipe::{Recipe, SealAnswer, Verb};
use winimg_base::text::Place;

/// How sysprep is run.
pub struct Seal {
    /// Where the recipe names the answer file, or the step where it names none of its own.
    pub place: Place,
    /// Whether sysprep is given an answer file.
    pub is_answered: bool,
    /// Of that file's specialize and oobeSystem passes, in order.
    pub commands: Vec<String>,
}

impl Seal {
    pub fn of(recipe: &Recipe, steps: &[PlannedStep], payload: &[Entry]) -> Option<Self> {
        let steps = recipe.steps.iter().zip(steps);
        let mut running = steps.filter(|(step, _)| step.skipped.is_none());
        running.find_map(|(step, planned)| {
            let Verb::Generalize { answer_file, .. } = &step.verb else {
                return None;
            };
            let place = match answer_file {
                SealAnswer::Own(own) => &own.place,
                SealAnswer::BuiltIn | SealAnswer::None => &step.place,
            };
            let text = planned.answer_file(payload);
            Some(Self {
                place: place.clone(),
                is_answered: !matches!(answer_file, SealAnswer::None),
                commands: text.map(commands).unwrap_or_default(),
            })
        })
    }

    /// What the commands make of the built-in account; `None`: they leave it alone.
    pub fn administrator(&self) -> Option<Administrator> {
        let mut states = self
            .commands
            .iter()
            .rev()
            .filter_map(|command| switched(command));
        states.next()
    }
}

/// The commands for Setup (Microsoft: Unattended Windows Setup Reference, RunSynchronousCommand and SynchronousCommand).
fn commands(text: &str) -> Vec<String> {
    let Ok(document) = roxmltree::Document::parse(text) else {
        return Vec::new();
    };
    let is_command =
        |node: &roxmltree::Node<'_, '_>| matches!(node.tag_name().name(), "Path" | "CommandLine");
    let nodes = document.descendants().filter(is_command);
    let texts = nodes.filter_map(|node| node.text());
    texts.map(|text| text.trim().to_owned()).collect()
}

/// The names of the accounts that an answer file makes (Microsoft: Unattended Windows Setup Reference, LocalAccounts).
pub fn local_accounts(text: &str) -> Vec<String> {
    let Ok(document) = roxmltree::Document::parse(text) else {
        return Vec::new();
    };
    let nodes = document.descendants();
    let accounts = nodes.filter(|node| node.tag_name().name() == "LocalAccount");
    let names = accounts.filter_map(|account| {
        let mut parts = account.children();
        let name = parts.find(|part| part.tag_name().name() == "Name")?;
        Some(name.text()?.trim().to_owned())
    });
    names.collect()
}

/// `{{disable_administrator}}`, `net user Administrator /active:no`, or a cmdlet over the account with the RID 500 (Microsoft: net user;
/// Disable-LocalUser; well-known SIDs).
fn switched(command: &str) -> Option<Administrator> {
    if command == DISABLE_ADMINISTRATOR {
        return Some(Administrator::Disabled);
    }
    let lower = command.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let by_net = words.contains(&"administrator");
    let by_sid = lower.contains("-500'") || lower.contains("-500\"") || lower.contains("-500$");
    let has = |cmdlet: &str| by_sid && lower.contains(cmdlet);
    if (by_net && words.contains(&"/active:no")) || has("disable-localuser") {
        return Some(Administrator::Disabled);
    }
    let is_on = (by_net && words.contains(&"/active:yes")) || has("enable-localuser");
    is_on.then_some(Administrator::Enabled)
}

/// The partition that an answer file for Setup makes behind that of Windows: its number. `None` inside: there is none. `None`:
/// the file does not say (Microsoft: Unattended Windows Setup Reference, CreatePartition, InstallTo).
pub fn partition_behind_windows(text: &str) -> Option<Option<u32>> {
    let document = roxmltree::Document::parse(text).ok()?;
    let number = |node: roxmltree::Node<'_, '_>, name: &str| -> Option<u32> {
        let mut children = node.children();
        let child = children.find(|child| child.tag_name().name() == name)?;
        child.text()?.trim().parse().ok()
    };
    let named = |name: &'static str| {
        let nodes = document.descendants();
        nodes.filter(move |node| node.tag_name().name() == name)
    };
    let windows = named("InstallTo").find_map(|node| number(node, "PartitionID"))?;
    let made = named("CreatePartition").filter_map(|node| number(node, "Order"));
    Some(made.max().filter(|last| *last > windows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_switch_the_built_in_account_are_known() {
        for (command, state) in [
            (
                "net user Administrator /ACTIVE:YES /LOGONPASSWORDCHG:NO",
                Some(Administrator::Enabled),
            ),
            (
                r"C:\Windows\System32\net.exe user administrator /active:no",
                Some(Administrator::Disabled),
            ),
            (
                "powershell.exe -Command \"Get-LocalUser | Where-Object SID -like 'S-1-5-21-*-500' | Disable-LocalUser\"",
                Some(Administrator::Disabled),
            ),
            (DISABLE_ADMINISTRATOR, Some(Administrator::Disabled)),
            (
                "powershell.exe -Command \"Disable-LocalUser -Name Guest\"",
                None,
            ),
            ("net user Guest /active:no", None),
        ] {
            assert_eq!(switched(command), state, "{command}");
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
        assert_eq!(partition_behind_windows(&layout(&[1, 2, 3])), Some(None));
        assert_eq!(
            partition_behind_windows(&layout(&[1, 2, 3, 4])),
            Some(Some(4))
        );
        assert_eq!(partition_behind_windows("<unattend/>"), None);
        assert_eq!(partition_behind_windows("{{#if}}"), None);
    }
}
