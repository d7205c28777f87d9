//! The answer file that sysprep left for the clones, as far as the checks of a seal ask for it.

use roxmltree::{Document, Node};

use super::super::answer_file;
use super::super::image::{Answer, Image};

pub const PATH: &str = r"C:\Windows\Panther\unattend.xml";
const LIMIT: u64 = 16 << 20;

pub struct AnswerFile {
    /// For Setup to run on a clone, in lower case.
    commands: Vec<String>,
    /// It gives the built-in Administrator a password.
    has_password: bool,
}

impl AnswerFile {
    /// `None`: there is none, or one that can't be read, which is a finding of its own (`answer_file`).
    pub fn of(image: &Image<'_>) -> Answer<Option<Self>> {
        let bytes = image.volume.read(PATH, LIMIT)?;
        let text = bytes.and_then(|bytes| answer_file::text(&bytes));
        Ok(text.and_then(|text| Self::parse(&text)))
    }

    fn parse(text: &str) -> Option<Self> {
        let document = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
        let nodes = || document.descendants();
        // Microsoft: Unattended Windows Setup Reference, RunSynchronousCommand and SynchronousCommand.
        let is_command =
            |node: &Node<'_, '_>| matches!(node.tag_name().name(), "Path" | "CommandLine");
        let commands = nodes().filter(is_command).filter_map(|node| node.text());
        Some(Self {
            commands: commands.map(str::to_lowercase).collect(),
            has_password: nodes().any(|n| n.tag_name().name() == "AdministratorPassword"),
        })
    }

    fn has(&self, words: &[&str]) -> bool {
        let speaks = |command: &String| words.iter().any(|word| command.contains(word));
        self.commands.iter().any(speaks)
    }

    /// It disables the built-in Administrator.
    pub fn disables_administrator(&self) -> bool {
        self.has(&["disable-localuser", "/active:no"])
    }

    /// It does something about that account. What a script does is not known, so one that only sounds like it counts.
    pub fn minds_administrator(&self) -> bool {
        self.has_password || self.has(&["administrator", "localuser", "-500"])
    }

    pub fn runs_cloudbase(&self) -> bool {
        self.has(&["cloudbase"])
    }
}
