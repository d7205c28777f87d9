//! A folder with keys, and the records of a build that they sign.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use winimg::record::check;
use winimg::record::inventory::SbomInventory;
use winimg::record::key::RecordKey;
use winimg::record::provenance::{self, ProvenanceByproduct};
use winimg::record::sign::{SignOptions, Signers};
use winimg::record::{cyclonedx, spdx, writer};
use winimg_base::digest::Digest;
use winimg_base::event::Cancel;

use crate::record::documents::asked;
use crate::record::judges::must;
use crate::record::sample::{EPOCH, manifest};

pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for name in ["ec", "other"] {
            place.openssl(&format!(
                "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out {name}.key"
            ));
            place.openssl(&format!("pkey -in {name}.key -pubout -out {name}.pub"));
        }
        for name in ["mini", "mini2"] {
            let (public, secret) = (format!("{name}.pub"), format!("{name}.key"));
            must(
                place.dir.path(),
                "minisign",
                &["-G", "-W", "-p", &public, "-s", &secret],
            );
        }
        place
    }

    /// `openssl` with these words, in the folder.
    pub fn openssl(&self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        must(self.dir.path(), "openssl", &words);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn open(&self, keys: &[&str]) -> Result<Signers, String> {
        self.open_with(SignOptions {
            files: keys.iter().map(|k| self.path(k)).collect(),
            ..SignOptions::default()
        })
    }

    pub fn open_with(&self, options: SignOptions) -> Result<Signers, String> {
        let folder = self.dir.path().display().to_string();
        Signers::open(&options, &Cancel::default())
            .map_err(|e| e.to_string().replace(&folder, "/site"))
    }

    /// Records as a build writes them, signed with `keys`.
    pub fn records(&self, keys: &[&str]) {
        let manifest = manifest();
        let inventory = SbomInventory::from_manifest(&manifest, EPOCH);
        let files = [
            ("manifest.json", manifest.to_json()),
            ("sbom.cdx.json", cyclonedx::render_document(&inventory)),
            ("sbom.spdx.json", spdx::render_document(&inventory)),
        ];
        let byproducts = files.each_ref().map(|(name, text)| ProvenanceByproduct {
            name,
            media_type: "application/json",
            digest: Digest::sha256_of(text.as_bytes()),
        });
        let statement = provenance::render_statement(&manifest, &asked(), &byproducts);
        for (name, text) in files {
            fs::write(self.path(name), text).unwrap();
        }
        fs::write(self.path("provenance.intoto.json"), statement).unwrap();
        let signers = self.open(keys).unwrap();
        writer::sign_all(self.dir.path(), &signers, EPOCH, &Cancel::default()).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn change(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from} is not in {name}");
        fs::write(self.path(name), changed).unwrap();
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// What `winimg verify --key` says of the records.
    pub fn checked(&self, key: &str) -> String {
        let path = self.path("manifest.json");
        let key = RecordKey::parse_argument(self.path(key).to_str().unwrap()).unwrap();
        let (report, _) = check::check_records(&path, &key).unwrap();
        let folder = self.dir.path().display().to_string();
        let findings = report.findings.iter();
        let findings = findings.map(|f| format!("{f}\n").replace(&folder, "/site"));
        report.summarize() + "\n" + &findings.collect::<String>()
    }
}
