//! A publisher's checksum file: brought, judged where it is signed, and read.

use crate::store::{Demand, Expected, met};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Located;
use winimg_recipe::recipe::{Address, Signature};
use winimg_trust::checksum::{self, Wanted};
use winimg_trust::{Rule, Signer, Subject, openpgp};

use super::evidence::{Asked, Gathered};
use super::failure::plain_http;
use super::signatures::Bring;
use super::{Context, Request, blocking};

/// Asks `url` what the wanted file is, and who signed that.
pub(super) async fn read(
    context: &Context,
    request: &Request,
    url: &Located<Address>,
    wanted: Wanted<'_>,
    signatures: &[Vec<Signature>],
    gathered: &mut Gathered,
) -> Result<(Expected, Vec<Signer>)> {
    let what = format!("the checksum file of {}", request.id);
    let address = &url.value;
    let shown = address.to_string();
    if address.is_plain_http() && signatures.is_empty() {
        return Err(plain_http(&what, &shown, &url.place));
    }
    let asked = Asked {
        context,
        watch: context.watch(&what),
        locked: request.origin.locked.as_ref(),
        limit: checksum::LIMIT,
        missing: Kind::Fetch,
        called: "checksum file",
        anew: true,
    };
    let bytes = asked.bring(address, gathered).await;
    let bytes = bytes.map_err(|e| e.from_place(&url.place))?;
    let digest = Digest::sha256_of(&bytes);
    let bring = Bring {
        context,
        what: &what,
        groups: signatures,
        locked: request.origin.locked.as_ref(),
        // As fresh as the file itself.
        anew: true,
    };
    let groups = bring.all(Some(&digest), gathered).await?;
    let (bytes, vouched) = match groups.is_empty() {
        true => (bytes, Vec::new()),
        false => vouched(context, &what, address, bytes, digest, groups).await?,
    };
    let found = checksum::find(&bytes, wanted).map_err(|problem| {
        let problem = problem.prefixed(format_args!("{what} "));
        let error = Error::of(Kind::Unproved, problem).at(&shown);
        error.from_place(&url.place)
    })?;
    let expected = Expected::ChecksumFile {
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

/// The text that may be read, and who signed it.
async fn vouched(
    context: &Context,
    what: &str,
    address: &Address,
    bytes: Vec<u8>,
    digest: Digest,
    groups: Vec<Vec<Demand>>,
) -> Result<(Vec<u8>, Vec<Signer>)> {
    let store = context.store.clone();
    let (what, file, at) = (what.to_string(), address.file_name(), address.to_string());
    let watch = context.watch(&what);
    blocking(move || {
        let lost = || Error::new(Kind::Failed, format!("{what} is not in the store"));
        let blob = store
            .find(Expected::Digest(digest), &watch)?
            .ok_or_else(lost)?;
        let subject = Subject {
            path: blob.path(),
            name: &file,
            published: &file,
            digest: blob.digest(),
        };
        judge(&what, subject, bytes, &groups).map_err(|e| e.or_at(at))
    })
    .await
}

/// The same. Of a clearsigned file only what the signature covers.
fn judge(
    what: &str,
    subject: Subject<'_>,
    bytes: Vec<u8>,
    groups: &[Vec<Demand>],
) -> Result<(Vec<u8>, Vec<Signer>)> {
    let mut signed: Option<String> = None;
    let signers = met(what, groups, |demand| {
        // Without a signature beside it, the file holds its own.
        let signer = match (&demand.rule, &demand.evidence.signature, &demand.lacking) {
            (Rule::Openpgp(rule), None, None) => {
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
