//! The answer file and the answer CD: what Windows Setup reads, and what the first hooks in the guest find.
//!
//! Everything here is decided before anything boots and is text; [`lint`] checks a rendered file by the rules that Setup
//! applies silently or with a dialog. Refuses to hold the Administrator's password other than as a [`winimg_base::text::Secret`]: it leaves
//! this module only inside the rendered file, which is itself one, and inside the CD's tree.

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

use winimg_base::text::Source;

pub use bootstrap::files as bootstrap_files;
pub use contract::{check_contract, is_staged};
pub use disc::{Disc, FILE_NAME, check as check_disc, disc};
pub use facts::Facts;
pub use keys::{is_published_key, product_key};
pub use lint::{LintFacts, lint, lint_clone};
pub use password::{check as check_password, generate as generate_password};
pub use render::render;
pub use template::{check_template, commands, read_template};

/// The letters that the answer CD may get in WinPE.
pub(crate) const CD_LETTERS: [char; 4] = ['D', 'E', 'F', 'G'];

/// The answer file template that comes with winimg.
pub fn built_in() -> Source {
    Source::new(
        "unattend/autounattend.xml",
        include_str!("../../unattend/autounattend.xml"),
    )
}
