//! Monitor commands used here, and the parts of their replies that are read (QEMU: QMP reference).
//!
//! Pure. Optional members are omitted, so that older versions of QEMU accept the commands.

use std::path::Path;

use qapi::Enum as _;
use qapi::qmp::{
    BlockdevChangeReadOnlyMode, ImageFormat, KeyValue, QKeyCode, QKeyCodeWrapper, RunState,
    blockdev_change_medium, eject, query_blockstats, query_status, screendump, send_key,
};
use serde::Deserialize;

use super::args::{ANSWER_CD, INSTALL_CD};
use super::qmp::QmpQuery;

/// Presses and releases one key.
pub fn send_key_press(key: QKeyCode) -> send_key {
    send_key {
        keys: vec![KeyValue::qcode(QKeyCodeWrapper { data: key })],
        hold_time: None,
    }
}

/// Writes the screen as a PPM. `file` is absolute and Unicode.
pub fn take_picture(file: &Path) -> screendump {
    screendump {
        filename: to_text(file),
        format: Some(ImageFormat::ppm),
        device: None,
        head: None,
    }
}

/// Empties both drives. The guest may have locked the trays: they are forced.
#[allow(
    deprecated,
    reason = "`device`, which is left out, is a member nevertheless"
)]
pub fn eject_all() -> [eject; 2] {
    [ANSWER_CD, INSTALL_CD].map(|id| eject {
        id: Some(id.into()),
        force: Some(true),
        device: None,
    })
}

/// Inserts an ISO into the answer drive in place of the current disc. `iso` is absolute and
/// Unicode.
#[allow(
    deprecated,
    reason = "`device`, which is left out, is a member nevertheless"
)]
pub fn insert(iso: &Path) -> blockdev_change_medium {
    blockdev_change_medium {
        id: Some(ANSWER_CD.into()),
        filename: to_text(iso),
        format: Some("raw".into()),
        force: Some(true),
        read_only_mode: Some(BlockdevChangeReadOnlyMode::retain),
        device: None,
    }
}

fn to_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// State of the machine, by QEMU's name. Not qapi's type, which only knows the names of one
/// release.
#[derive(Deserialize)]
pub struct QemuStatus {
    pub status: String,
}

impl QemuStatus {
    pub fn is_running(&self) -> bool {
        self.status == RunState::running.name()
    }
}

impl QmpQuery for query_status {
    type Reply = QemuStatus;
}

/// Bytes moved by a drive. Not qapi's type, which requires counters that exist only since QEMU 8.1.
#[derive(Deserialize)]
pub struct DriveStats {
    /// The drive's `id`; older versions omit it for a node without one.
    #[serde(default)]
    pub device: String,
    pub stats: DriveCounters,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct DriveCounters {
    /// Bytes.
    pub rd_bytes: u64,
    /// Bytes.
    pub wr_bytes: u64,
    pub failed_wr_operations: u64,
}

impl QmpQuery for query_blockstats {
    type Reply = Vec<DriveStats>;
}

#[cfg(test)]
mod tests {
    use qapi::qmp::{cont, qmp_capabilities, quit, stop, system_powerdown, system_reset};
    use serde_json::json;

    use super::super::qmp::request_line;
    use super::*;

    #[test]
    fn what_goes_over_the_wire() {
        let [answer, install] = eject_all();
        let lines = [
            request_line(&qmp_capabilities { enable: None }, 1),
            request_line(&cont {}, 2),
            request_line(&stop {}, 3),
            request_line(&system_reset {}, 4),
            request_line(&quit {}, 5),
            request_line(&query_status {}, 6),
            request_line(&query_blockstats { query_nodes: None }, 7),
            request_line(&send_key_press(QKeyCode::up), 8),
            request_line(&take_picture(Path::new("/run/w/last.ppm")), 9),
            request_line(&take_picture(Path::new("/w/żółw \"1\".ppm")), 10),
            request_line(&answer, 11),
            request_line(&install, 12),
            request_line(&insert(Path::new("/run/w/payload.iso")), 13),
            request_line(&system_powerdown {}, 14),
        ];
        assert_eq!(
            lines.concat(),
            r#"{"execute":"qmp_capabilities","arguments":{},"id":1}
{"execute":"cont","arguments":{},"id":2}
{"execute":"stop","arguments":{},"id":3}
{"execute":"system_reset","arguments":{},"id":4}
{"execute":"quit","arguments":{},"id":5}
{"execute":"query-status","arguments":{},"id":6}
{"execute":"query-blockstats","arguments":{},"id":7}
{"execute":"send-key","arguments":{"keys":[{"data":"up","type":"qcode"}]},"id":8}
{"execute":"screendump","arguments":{"filename":"/run/w/last.ppm","format":"ppm"},"id":9}
{"execute":"screendump","arguments":{"filename":"/w/żółw \"1\".ppm","format":"ppm"},"id":10}
{"execute":"eject","arguments":{"force":true,"id":"answer"},"id":11}
{"execute":"eject","arguments":{"force":true,"id":"install"},"id":12}
{"execute":"blockdev-change-medium","arguments":{"filename":"/run/w/payload.iso","force":true,"format":"raw","id":"answer","read-only-mode":"retain"},"id":13}
{"execute":"system_powerdown","arguments":{},"id":14}
"#
        );
    }

    /// Replies of an older QEMU, and of one that is newer than qapi's schema.
    #[test]
    fn replies_of_other_releases_are_read() {
        let old = json!([
            {"device": "disk0", "parent": {"stats": {}}, "stats": {"rd_bytes": 7, "wr_bytes": 9, "failed_wr_operations": 1}},
            {"node-name": "#block042", "stats": {}},
        ]);
        assert!(<query_blockstats as qapi::Command>::Ok::deserialize(&old).is_err());
        let read = <query_blockstats as QmpQuery>::Reply::deserialize(&old).expect("drives");
        let figures = |d: &DriveStats| {
            let s = &d.stats;
            (
                d.device.clone(),
                s.rd_bytes,
                s.wr_bytes,
                s.failed_wr_operations,
            )
        };
        assert_eq!(
            read.iter().map(figures).collect::<Vec<_>>(),
            [("disk0".into(), 7, 9, 1), (String::new(), 0, 0, 0)]
        );
        let new = json!({"running": false, "status": "hibernated", "since": 4});
        assert!(<query_status as qapi::Command>::Ok::deserialize(&new).is_err());
        let read = QemuStatus::deserialize(&new).expect("a status");
        assert_eq!(
            (read.is_running(), read.status.as_str()),
            (false, "hibernated")
        );
        let running = QemuStatus::deserialize(&json!({"status": "running"})).expect("a status");
        assert!(running.is_running());
    }
}
