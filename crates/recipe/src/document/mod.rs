//! TOML as written: reading with places, includes, merging, quoting, and editing in place.

pub mod edit;
pub mod mask;
pub mod merge;
pub mod overlay;
pub mod raw;
pub mod sources;
pub mod syntax_error;
pub mod value;
