//! Serializes QMP and guest agent commands (QEMU: docs/interop/qmp-spec).
//!
//! Pure. The commands are qapi's types, which are generated from QEMU's own schema.

use qapi::{Command, Execute, Never};
use serde_json::{Value, json};

/// Serializes a command without an `id`. Members are sorted, because qapi's order varies between
/// builds.
pub fn to_json(command: &impl Command) -> Value {
    let mut request = json!(Execute::<_, Never>::with_command(command));
    request["arguments"].sort_all_objects();
    request
}
