//! The answer file that sysprep left for the clones.

use roxmltree::{Document, Node};

use super::super::answer_file;
use super::super::image::{CheckResult, InspectedImage};

pub const PATH: &str = r"C:\Windows\Panther\unattend.xml";
const LIMIT: u64 = 16 << 20;

pub struct CloneAnswerFile {
    /// Commands that Setup runs on a clone, in lower case.
    commands: Vec<String>,
    /// Sets a password for the built-in Administrator.
    has_password: bool,
}

impl CloneAnswerFile {
    /// Reads the file; `None` if it is missing or unreadable, which `answer_file` reports.
    pub fn read(image: &InspectedImage<'_>) -> CheckResult<Option<Self>> {
        let bytes = image.volume.read(PATH, LIMIT)?;
        let text = bytes.and_then(|bytes| answer_file::decode_text(&bytes));
        Ok(text.and_then(|text| Self::parse(&text)))
    }

    fn parse(text: &str) -> Option<Self> {
        let document = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
        Some(Self {
            commands: document
                .descendants()
                .filter(is_command)
                .filter_map(|node| node.text())
                .map(str::to_lowercase)
                .collect(),
            has_password: document
                .descendants()
                .any(|node| node.tag_name().name() == "AdministratorPassword"),
        })
    }

    /// Returns true if a command contains one of the words.
    fn has(&self, words: &[&str]) -> bool {
        self.commands
            .iter()
            .any(|command| words.iter().any(|word| command.contains(word)))
    }

    /// Returns true if it disables the built-in Administrator.
    pub fn disables_administrator(&self) -> bool {
        self.has(&["disable-localuser", "/active:no"])
    }

    /// Returns true if it handles the built-in Administrator. Scripts are not analyzed: any
    /// mention of the account counts.
    pub fn handles_administrator(&self) -> bool {
        self.has_password || self.has(&["administrator", "localuser", "-500"])
    }

    pub fn runs_cloudbase(&self) -> bool {
        self.has(&["cloudbase"])
    }
}

/// Returns true for the command line of RunSynchronousCommand and SynchronousCommand (Microsoft:
/// Unattended Windows Setup Reference).
fn is_command(node: &Node<'_, '_>) -> bool {
    matches!(node.tag_name().name(), "Path" | "CommandLine")
}
