//! `kind = "cms"`: a detached CMS signature beside the file.

use super::chain::read_chain;
use super::{SignedFile, address_beside, make_signature};
use crate::SignatureSpec;
use crate::fields::TableReader;
use winimg_trust::cms::CmsRule;
use winimg_trust::{Scheme, SignatureRule};

pub fn read_cms(fields: &TableReader<'_>, signed: &SignedFile<'_>) -> Option<SignatureSpec> {
    let chain = read_chain(fields);
    let url = address_beside(fields, "url", signed, Scheme::Cms.signature_suffix());
    let chain = chain?;
    let rule = SignatureRule::Cms(CmsRule { pins: chain.pins });
    Some(SignatureSpec {
        url: Some(url?),
        crls: chain.crls,
        keys: chain.files,
        ..make_signature(fields, rule, format!("cms, {}", chain.words))
    })
}
