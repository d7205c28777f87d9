//! The answer file and the answer CD: what Windows Setup reads, and what the first hooks in the
//! guest find.
//!
//! Everything here is text and is decided before anything boots; [`lint`] checks a rendered file
//! by the rules that Setup applies silently or with a dialog. The Administrator's password is only
//! ever a [`winimg_base::text::Secret`]: it leaves this module inside the rendered file, which is
//! a secret itself, and inside the CD's tree.

mod bootstrap;
mod contract;
mod disc;
mod facts;
mod keys;
mod lint;
mod password;
mod render;
mod schema;
mod template;

use winimg_base::text::SourceText;

pub use bootstrap::render_bootstrap_files;
pub use contract::{check_contract, is_staged};
pub use disc::{AnswerDisc, FILE_NAME, build_disc, check as check_disc};
pub use facts::AnswerFacts;
pub use keys::{choose_product_key, is_published_key};
pub use lint::{LintFacts, lint, lint_clone};
pub use password::{check as check_password, generate as generate_password};
pub use render::render;
pub use template::{check_template, list_commands, read_template};

/// The letters that the answer CD may get in WinPE.
pub(crate) const CD_LETTERS: [char; 4] = ['D', 'E', 'F', 'G'];

/// The answer file template that comes with winimg.
pub fn built_in() -> SourceText {
    SourceText::new(
        "unattend/autounattend.xml",
        include_str!("../../unattend/autounattend.xml"),
    )
}
