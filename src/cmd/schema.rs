//! `winimg schema`: the JSON schemas of the files and outputs.

use crate::cli::SchemaName;
use crate::{diff, doctor, record, report, trial, usage};

pub fn render(of: SchemaName) -> String {
    match of {
        SchemaName::Config => include_str!("../../schemas/config-1.json").into(),
        SchemaName::Recipe => include_str!("../../schemas/recipe-1.json").into(),
        SchemaName::Matrix => include_str!("../../schemas/matrix-1.json").into(),
        SchemaName::Manifest => record::manifest::render_schema(),
        SchemaName::Published => record::published::render_schema(),
        SchemaName::Doctor => doctor::generate_schema(),
        SchemaName::Try => trial::result::render_schema(),
        SchemaName::Diff => diff::generate_schema(),
        SchemaName::DiskUsage => usage::generate_schema(),
        SchemaName::Target => winimg_recipe::target::render_schema(),
        SchemaName::Events => report::stream::render_schema(),
    }
}
