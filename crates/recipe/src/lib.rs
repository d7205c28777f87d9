//! The recipe: read, lowered, merged, locked and planned.
//!
//! Pure: knows no network and no machine, and no specific component.
//!
//! `document` reads TOML, follows includes and merges files; `vars` decides and substitutes
//! variables. `keys` has a row for every key, `fields` reads by these rows, and `lower` makes the
//! types of `model`, with `verbs` for those of steps; `ops` has what verbs compile to, and `plan`
//! puts it together.

mod clone_check;
mod context;
mod document;
mod effective;
mod fields;
pub mod host_config;
pub mod keys;
pub mod lock;
mod lock_request;
mod lower;
pub mod matrix;
mod mirrors;
mod model;
pub mod ops;
mod outdated_digest;
mod packer_checksum;
pub mod plan;
pub mod powershell;
pub mod quantity;
mod query;
mod read;
mod slot;
pub mod target;
mod trust_rules;
mod undecided;
mod vars;
pub mod verbs;

pub use clone_check::{CloneCheckSpec, CloneClaim};
pub use document::edit::{RecipeEdit, put, quote};
pub use document::overlay::{RecipeOverlay, RecipeSetting};
pub use document::raw::PIPED;
pub use document::sources::Quotable;
pub use document::value::MissingVariable;
pub use lock_request::{LockRequest, RequestedProof};
pub use mirrors::Mirrors;
pub use model::address::{FileAddress, percent_decoded};
pub(crate) use model::guest_name::file_name;
pub use model::guest_path::{GUEST_DIR, GuestPath};
pub use model::input::{InputId, InputIdError, InputSource, RecipeInput};
pub use model::lock_policy::LockPolicy;
pub use model::outputs::{
    AmiOptions, BoxOptions, OutputFormat, OutputOptions, Outputs, OvaOptions,
};
pub use model::reference::ImageReference;
pub use model::registry_key::RegistryKey;
pub use model::registry_value::RegistryValueData;
pub use model::version_list::{VersionList, VersionListFormat};
pub use model::{
    ArchiveKind, ComponentSpec, ContainerImage, DiskBus, DownloadSpec, EffectiveValue, Firmware,
    ImageProof, KeyFile, LockSource, LockedImage, LockedInput, MachineSpec, MediaSpec, PathRoot,
    ProofSpec, ReadFile, Recipe, ResolvedVariable, SetupSpec, SignatureScope, SignatureSpec,
    is_driver_name,
};
pub use read::{ReadOptions, read, read_judged};
pub use slot::ValueSlot;
pub use undecided::{MissingProof, UndecidedValue, to_errors};
pub use verbs::{RecipeStep, Verb};
