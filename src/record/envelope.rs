//! Containers of a signed statement: the DSSE envelope, and the Sigstore bundle around it.
//!
//! The bundle is of the managed-key kind: `publicKey.hint` identifies the key; signer and time are
//! not recorded. Refuses an envelope without exactly one signature, as the bundle format requires.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// in-toto: Envelope layer.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// sigstore/protobuf-specs: `sigstore_bundle.proto`, version 0.3.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Returns the bytes to sign (DSSE v1: pre-authentication encoding).
pub fn encode_signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}

/// A DSSE envelope with one signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub payload_type: String,
    pub payload: Vec<u8>,
    /// DER.
    pub signature: Vec<u8>,
}

impl Envelope {
    fn to_json(&self, key: &str) -> Value {
        json!({
            "payload": STANDARD.encode(&self.payload),
            "payloadType": self.payload_type,
            "signatures": [{ "sig": STANDARD.encode(&self.signature), "keyid": key }],
        })
    }

    /// Parses an envelope. The error is a predicate that follows "it ".
    pub fn parse(value: &Value) -> Result<Self, String> {
        let signatures = value.get("signatures").and_then(Value::as_array);
        let [signature] = signatures.map(Vec::as_slice).unwrap_or_default() else {
            let count = signatures.map_or(0, Vec::len);
            return Err(format!("has {count} signatures instead of one"));
        };
        Ok(Self {
            payload_type: read_text(value, "payloadType")?.to_owned(),
            payload: read_base64(value, "payload")?,
            signature: read_base64(signature, "sig")?,
        })
    }

    /// Renders `provenance.dsse.json`; `key` is base64 of the SHA-256 of the key's
    /// SubjectPublicKeyInfo. Python's reader requires a key id (securesystemslib: `dsse.py`).
    pub fn render_document(&self, key: &str) -> String {
        format!("{:#}\n", self.to_json(key))
    }

    /// Renders `provenance.sigstore.json`, which names the key outside the envelope only: Go's
    /// reader, and so cosign, ignores a signature with a key id other than the one it computes
    /// (go-securesystemslib: `dsse/verify.go`).
    pub fn render_bundle(&self, key: &str) -> String {
        let bundle = json!({
            "mediaType": BUNDLE,
            "verificationMaterial": { "publicKey": { "hint": key } },
            "dsseEnvelope": self.to_json(""),
        });
        format!("{bundle:#}\n")
    }

    /// Reads a bundle: the envelope and the key that the bundle names. A key id in the envelope,
    /// which other tools write, has to be the same.
    pub fn parse_bundle(text: &str) -> Result<(Self, String), String> {
        let value: Value = serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
        match value.get("mediaType").and_then(Value::as_str) {
            Some(BUNDLE) => {}
            other => {
                let other = other.unwrap_or("nothing");
                return Err(format!("has the media type {other}, not {BUNDLE}"));
            }
        }
        let envelope = value.get("dsseEnvelope").ok_or("has no `dsseEnvelope`")?;
        let named = envelope
            .pointer("/signatures/0/keyid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let envelope = Self::parse(envelope)?;
        let hint = value
            .pointer("/verificationMaterial/publicKey/hint")
            .and_then(Value::as_str)
            .ok_or("names no public key")?;
        if !named.is_empty() && hint != named {
            return Err(format!(
                "names the key {hint} outside the envelope and {named} inside"
            ));
        }
        Ok((envelope, hint.to_owned()))
    }
}

fn read_text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    let found = value.get(key).and_then(Value::as_str);
    found.ok_or_else(|| format!("has no `{key}`"))
}

fn read_base64(value: &Value, key: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(read_text(value, key)?)
        .map_err(|_| format!("has a `{key}` that is not base64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_bytes_in_decimal() {
        // DSSE: protocol.md, the example.
        let bytes = encode_signed_bytes("http://example.com/HelloWorld", b"hello world");
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
        assert_eq!(encode_signed_bytes("ä", b""), "DSSEv1 2 ä 0 ".as_bytes());
    }

    #[test]
    fn what_is_no_bundle_is_said_in_words() {
        let envelope = Envelope {
            payload_type: PAYLOAD_TYPE.into(),
            payload: b"{}".to_vec(),
            signature: b"s".to_vec(),
        };
        let text = envelope.render_bundle("k");
        let read = (envelope, "k".to_owned());
        assert_eq!(Envelope::parse_bundle(&text), Ok(read.clone()));
        // With the key's name, and as cosign leaves it out.
        let named = text.replacen("\"keyid\": \"\"", "\"keyid\": \"k\"", 1);
        assert_eq!(Envelope::parse_bundle(&named), Ok(read.clone()));
        let unnamed = text.replacen(",\n        \"keyid\": \"\"", "", 1);
        assert_ne!(unnamed, text);
        assert_eq!(Envelope::parse_bundle(&unnamed), Ok(read));
        let why = |from: &str, to: &str| {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            Envelope::parse_bundle(&changed).unwrap_err()
        };
        assert_eq!(
            why("v0.3", "v0.9"),
            format!(
                "has the media type {}, not {BUNDLE}",
                BUNDLE.replace("v0.3", "v0.9")
            )
        );
        assert_eq!(
            why("\"keyid\": \"\"", "\"keyid\": \"x\""),
            "names the key k outside the envelope and x inside"
        );
        assert_eq!(
            why("\"payload\": \"e30=\"", "\"payload\": \"e30\""),
            "has a `payload` that is not base64"
        );
        assert_eq!(why("\"payloadType\"", "\"type\""), "has no `payloadType`");
        let two = text.replace("\"signatures\": [", "\"signatures\": [{},");
        assert_eq!(
            Envelope::parse_bundle(&two).unwrap_err(),
            "has 2 signatures instead of one"
        );
    }
}
