//! Renders the answer file that sysprep leaves for the clone, from `seal.xml` beside this file or
//! from a custom template.
//!
//! It is written in ASCII with character references, the only encoding that Setup's parser handles
//! reliably. Refuses passwords: the file stays readable in the image.

use handlebars::Handlebars;
use serde_json::json;

use crate::Recipe;
use crate::ops::{PayloadEntry, PlannedStep};
use winimg_base::markup::{escape_xml, to_ascii_xml};

/// Its name on the payload disc.
pub const ANSWER_FILE: &str = "seal.xml";

/// The `ImageState` of a Windows that sysprep has generalized (Microsoft: Windows Setup states).
pub const SEALED: &str = "IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE";

impl PlannedStep {
    /// Returns the text of the answer file that a `generalize` step passes to sysprep.
    pub fn answer_file<'p>(&self, payload: &'p [PayloadEntry]) -> Option<&'p str> {
        self.entries
            .iter()
            .filter_map(|&number| payload.get(number as usize))
            .find_map(|entry| match entry {
                PayloadEntry::Text { file, text, .. } if file == ANSWER_FILE => Some(text.as_str()),
                _ => None,
            })
    }
}

/// The built-in template (Microsoft: Unattended Windows Setup Reference,
/// Microsoft-Windows-PnpSysprep, -Shell-Setup and -International-Core).
pub const TEMPLATE: &str = include_str!("seal.xml");

/// Finds the account by its RID, because its name is translated on media of other languages
/// (Microsoft: Well-known SIDs). The program is started without a shell, so only PowerShell parses
/// the quoted text.
pub const DISABLE_ADMINISTRATOR: &str = concat!(
    r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe ",
    "-NoProfile -NonInteractive -Command ",
    r#""Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' } | Disable-LocalUser""#,
);

/// Limit per template: handlebars searches for the line of each from the start.
const MOST_NAMES: usize = 500;

/// Renders the file. Variables: `language`, `time_zone`, `computer_name`, and
/// `disable_administrator`, the command that disables the built-in Administrator. The error is one
/// sentence.
pub fn render(template: &str, recipe: &Recipe) -> Result<String, String> {
    if template.matches("{{").take(MOST_NAMES + 1).count() > MOST_NAMES {
        return Err(format!("it has more than {MOST_NAMES} `{{{{`"));
    }
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine.register_escape_fn(escape_xml);
    let values = json!({
        "language": recipe.media.language.value,
        "time_zone": recipe.media.time_zone.value,
        // Setup generates a random name for each clone.
        "computer_name": "*",
        "disable_administrator": DISABLE_ADMINISTRATOR,
    });
    let text = engine
        .render_template(template, &values)
        .map_err(|e| format!("the template cannot be rendered: {e}"))?;
    let document = roxmltree::Document::parse(&text).map_err(|e| format!("not XML: {e}"))?;
    let root = document.root_element();
    if root.tag_name().name() != "unattend" {
        return Err(format!(
            "the root element is `{}`, not `unattend`",
            root.tag_name().name()
        ));
    }
    let secret = ["AdministratorPassword", "Password", "ProductKey"];
    if let Some(node) = root
        .descendants()
        .find(|n| secret.contains(&n.tag_name().name()))
    {
        return Err(format!(
            "it contains `{}`, which would stay readable in the image",
            node.tag_name().name()
        ));
    }
    Ok(to_ascii_xml(&text))
}
