//! `packer-manifest.json`, for pipelines that read what Packer's manifest post-processor writes
//! (`jq -r '.builds[-1].artifact_id'`).
//!
//! Runs are appended; an existing file of Packer itself is extended, never replaced.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;

/// One run, as an element of `builds`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackerBuild {
    /// The recipe's name.
    pub name: String,
    /// `winimg`
    pub builder_type: &'static str,
    /// Unix seconds.
    pub build_time: i64,
    pub files: Vec<PackerFile>,
    /// The identifier that later jobs read: the recipe's name and digest.
    pub artifact_id: String,
    #[serde(serialize_with = "uuid_text")]
    pub packer_run_uuid: Uuid,
    /// Strings only, as Packer's are.
    pub custom_data: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackerFile {
    pub name: String,
    /// Bytes.
    pub size: u64,
}

fn uuid_text<S: serde::Serializer>(uuid: &Uuid, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(uuid)
}

/// Appends `build` to the file at `path` and creates the file if necessary. Locks the directory, so
/// that no concurrent run is lost.
pub fn append(path: &Path, build: &PackerBuild) -> Result<()> {
    let _lock = io::lock_folder(io::folder_of(path))?;
    let old = match io::read_text_limited(path, io::limit::RECORD) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(Error::io("read", path, e)),
    };
    let text = append_to_text(old.as_deref(), build).map_err(|why| {
        Error::new(
            Kind::Export,
            "cannot append to the existing packer-manifest.json",
        )
        .at(path.display())
        .found(why)
        .cure("move it away")
    })?;
    io::write_atomically(path, text.as_bytes())
}

/// Returns the file's new text. The error briefly describes the fault of the old text.
fn append_to_text(old: Option<&str>, build: &PackerBuild) -> Result<String, String> {
    let mut file = match old {
        Some(text) => serde_json::from_str(text).map_err(|e| format!("no JSON: {e}"))?,
        None => json!({ "builds": [] }),
    };
    let builds = file.get_mut("builds").and_then(Value::as_array_mut);
    builds.ok_or("no list \"builds\"")?.push(json!(build));
    file["last_run_uuid"] = json!(build.packer_run_uuid.to_string());
    Ok(format!("{file:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(n: u128) -> PackerBuild {
        PackerBuild {
            name: "capi-ws2022".into(),
            builder_type: "winimg",
            build_time: 1_700_000_000,
            files: vec![PackerFile {
                name: "capi-ws2022.vhd".into(),
                size: 42_949_673_472,
            }],
            artifact_id: "capi-ws2022@sha256:00".into(),
            packer_run_uuid: Uuid::from_u128(n),
            custom_data: json!({ "firmware": "uefi" }),
        }
    }

    #[test]
    fn runs_are_appended_and_a_packers_own_stay() {
        let packers =
            r#"{"builds":[{"name":"x","files":null,"custom_data":null}],"last_run_uuid":"0"}"#;
        let text = append_to_text(Some(packers), &build(7)).unwrap();
        assert_eq!(
            text,
            r#"{
  "builds": [
    {
      "name": "x",
      "files": null,
      "custom_data": null
    },
    {
      "name": "capi-ws2022",
      "builder_type": "winimg",
      "build_time": 1700000000,
      "files": [
        {
          "name": "capi-ws2022.vhd",
          "size": 42949673472
        }
      ],
      "artifact_id": "capi-ws2022@sha256:00",
      "packer_run_uuid": "00000000-0000-0000-0000-000000000007",
      "custom_data": {
        "firmware": "uefi"
      }
    }
  ],
  "last_run_uuid": "00000000-0000-0000-0000-000000000007"
}
"#
        );
    }

    #[test]
    fn runs_at_the_same_time_all_get_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packer-manifest.json");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || append(path, &build(n)).unwrap());
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file["builds"].as_array().unwrap().len(), 8);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn another_programs_file_is_not_touched() {
        assert_eq!(
            append_to_text(Some("[]"), &build(1)).unwrap_err(),
            "no list \"builds\""
        );
        let why = append_to_text(Some("{"), &build(1)).unwrap_err();
        assert!(why.starts_with("no JSON"), "{why}");
    }
}
