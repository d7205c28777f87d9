//! A publisher's checksum file: fetched, verified if it is signed, and parsed.

use crate::runtime::run_blocking;
use crate::store::{ExpectedBytes, SignatureDemand, check_groups};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Located;
use winimg_recipe::{FileAddress, SignatureSpec};
use winimg_trust::checksum::{self, WantedChecksum};
use winimg_trust::{FileSubject, SignatureRule, Signer, openpgp};

use super::evidence::{EvidenceRequest, GatheredEvidence};
use super::failure::refuse_plain_http;
use super::signatures::SignatureFetcher;
use super::{FetchContext, FetchRequest};

/// Fetches the checksum file at `url`; returns its digest for the wanted file, and its signers.
pub(super) async fn read(
    context: &FetchContext,
    request: &FetchRequest,
    url: &Located<FileAddress>,
    wanted: WantedChecksum<'_>,
    signatures: &[Vec<SignatureSpec>],
    gathered: &mut GatheredEvidence,
) -> Result<(ExpectedBytes, Vec<Signer>)> {
    let what = format!("the checksum file of {}", request.id);
    let address = &url.value;
    let shown = address.to_string();
    if address.is_plain_http() && signatures.is_empty() {
        return Err(refuse_plain_http(&what, &shown, &url.place));
    }
    let asked = EvidenceRequest {
        context,
        watch: context.watch(&what),
        locked: request.origin.locked.as_ref(),
        limit: checksum::LIMIT,
        missing: Kind::Fetch,
        called: "checksum file",
        refetch: true,
    };
    let bytes = asked.fetch(address, gathered).await;
    let bytes = bytes.map_err(|e| e.or_place(&url.place))?;
    let digest = Digest::sha256_of(&bytes);
    let bring = SignatureFetcher {
        context,
        what: &what,
        groups: signatures,
        locked: request.origin.locked.as_ref(),
        // As current as the file itself.
        refetch: true,
    };
    let groups = bring.fetch_all(Some(&digest), gathered).await?;
    let (bytes, vouched) = if groups.is_empty() {
        (bytes, Vec::new())
    } else {
        verify_signed(context, &what, address, bytes, digest, groups).await?
    };
    let found = checksum::find(&bytes, wanted).map_err(|problem| {
        let problem = problem.with_prefix(format_args!("{what} "));
        let error = Error::from_problem(Kind::Unproved, problem).at(&shown);
        error.or_place(&url.place)
    })?;
    let expected = ExpectedBytes::ChecksumFile {
        url: shown.clone(),
        line: found.line,
        digest: found.digest,
        also: found.also,
    };
    let vouched = vouched.into_iter().map(|mut signer| {
        signer
            .remarks
            .push(format!("signed the checksum file {shown}"));
        signer
    });
    Ok((expected, vouched.collect()))
}

/// Verifies the signatures; returns the text that may be used, and its signers.
async fn verify_signed(
    context: &FetchContext,
    what: &str,
    address: &FileAddress,
    bytes: Vec<u8>,
    digest: Digest,
    groups: Vec<Vec<SignatureDemand>>,
) -> Result<(Vec<u8>, Vec<Signer>)> {
    let store = context.store.clone();
    let (what, file, at) = (what.to_string(), address.file_name(), address.to_string());
    let watch = context.watch(&what);
    run_blocking(move || {
        let blob = store
            .find(ExpectedBytes::Digest(digest), &watch)?
            .ok_or_else(|| Error::new(Kind::Failed, format!("{what} is not in the store")))?;
        let subject = FileSubject {
            path: blob.path(),
            name: &file,
            published: &file,
            digest: blob.digest(),
        };
        judge(&what, subject, bytes, &groups).map_err(|e| e.or_at(at))
    })
    .await
}

/// Verifies the groups. Only the signed part of a clearsigned file is returned.
fn judge(
    what: &str,
    subject: FileSubject<'_>,
    bytes: Vec<u8>,
    groups: &[Vec<SignatureDemand>],
) -> Result<(Vec<u8>, Vec<Signer>)> {
    let mut signed: Option<String> = None;
    let signers = check_groups(what, groups, |demand| {
        // Without a separate signature, the file contains its own.
        let signer = match (&demand.rule, &demand.evidence.signature, &demand.lacking) {
            (SignatureRule::Openpgp(rule), None, None) => {
                let (text, signer) =
                    openpgp::signed_text(rule, &bytes, std::time::SystemTime::now())?;
                signed = Some(text);
                signer
            }
            _ => demand.judge(subject)?,
        };
        Ok(vec![signer])
    })?;
    let bytes = signed.map_or(bytes, String::into_bytes);
    Ok((bytes, signers))
}
