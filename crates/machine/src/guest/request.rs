//! A request as QMP and the guest agent both take it (QEMU: docs/interop/qmp-spec).
//!
//! Pure. Knows no command: each is one of qapi's types, which are made from QEMU's own schema.

use qapi::{Command, Execute, Never};
use serde_json::{Value, json};

/// `command` without an `id`, its members in the order of the alphabet: qapi's own order is another one in another build.
pub fn of(command: &impl Command) -> Value {
    let mut request = json!(Execute::<_, Never>::with_command(command));
    request["arguments"].sort_all_objects();
    request
}
