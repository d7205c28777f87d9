//! What carries a signed statement: the DSSE envelope, and the Sigstore bundle around it.
//!
//! The bundle is of the managed-key kind: `publicKey.hint` says which key, nothing says who or when. Refuses an envelope
//! with more or fewer than one signature, as the bundle's definition does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// in-toto: Envelope layer.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// sigstore/protobuf-specs: `sigstore_bundle.proto`, version 0.3.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The bytes that are signed (DSSE v1: pre-authentication encoding).
pub fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
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
    fn json(&self, key: &str) -> Value {
        json!({
            "payload": STANDARD.encode(&self.payload),
            "payloadType": self.payload_type,
            "signatures": [{ "sig": STANDARD.encode(&self.signature), "keyid": key }],
        })
    }

    /// The error says what is wrong in words that fit after "it ".
    pub fn read(value: &Value) -> Result<Self, String> {
        let text = |value: &Value, key: &str| {
            let found = value.get(key).and_then(Value::as_str);
            found.map(str::to_owned).ok_or(format!("has no `{key}`"))
        };
        let bytes = |value: &Value, key: &str| {
            let text = text(value, key)?;
            STANDARD
                .decode(text)
                .map_err(|_| format!("has a `{key}` that is not base64"))
        };
        let signatures = value.get("signatures").and_then(Value::as_array);
        let [signature] = signatures.map(Vec::as_slice).unwrap_or_default() else {
            let count = signatures.map_or(0, Vec::len);
            return Err(format!("has {count} signatures where one is expected"));
        };
        Ok(Self {
            payload_type: text(value, "payloadType")?,
            payload: bytes(value, "payload")?,
            signature: bytes(signature, "sig")?,
        })
    }

    /// `provenance.dsse.json`; `key` is base64 of the SHA-256 of the key's SubjectPublicKeyInfo. Python's reader asks for a
    /// name of the key (securesystemslib: `dsse.py`).
    pub fn document(&self, key: &str) -> String {
        format!("{:#}\n", self.json(key))
    }

    /// `provenance.sigstore.json`, which names the key outside of the envelope alone: Go's reader, so cosign, passes over a
    /// signature by any other name than it gives the key itself (go-securesystemslib: `dsse/verify.go`).
    pub fn bundle(&self, key: &str) -> String {
        let bundle = json!({
            "mediaType": BUNDLE,
            "verificationMaterial": { "publicKey": { "hint": key } },
            "dsseEnvelope": self.json(""),
        });
        format!("{bundle:#}\n")
    }

    /// Reads a bundle: the envelope and the key that the bundle names. A name in the envelope, as others write it, may not be
    /// another.
    pub fn read_bundle(text: &str) -> Result<(Self, String), String> {
        let value: Value = serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
        match value.get("mediaType").and_then(Value::as_str) {
            Some(BUNDLE) => {}
            other => {
                let other = other.unwrap_or("nothing");
                return Err(format!("says {other} for its media type, not {BUNDLE}"));
            }
        }
        let envelope = value.get("dsseEnvelope").ok_or("has no `dsseEnvelope`")?;
        let named = envelope.pointer("/signatures/0/keyid");
        let named = named.and_then(Value::as_str).unwrap_or_default();
        let envelope = Self::read(envelope)?;
        let hint = value
            .pointer("/verificationMaterial/publicKey/hint")
            .and_then(Value::as_str)
            .ok_or("names no public key")?;
        if !named.is_empty() && hint != named {
            return Err(format!("names the key {hint} outside and {named} inside"));
        }
        Ok((envelope, hint.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_bytes_in_decimal() {
        // DSSE: protocol.md, the example.
        let bytes = signed_bytes("http://example.com/HelloWorld", b"hello world");
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
        assert_eq!(signed_bytes("ä", b""), "DSSEv1 2 ä 0 ".as_bytes());
    }

    #[test]
    fn what_is_no_bundle_is_said_in_words() {
        let envelope = Envelope {
            payload_type: PAYLOAD_TYPE.into(),
            payload: b"{}".to_vec(),
            signature: b"s".to_vec(),
        };
        let text = envelope.bundle("k");
        let read = (envelope, "k".to_owned());
        assert_eq!(Envelope::read_bundle(&text), Ok(read.clone()));
        // With the key's name, and as cosign leaves it out.
        let named = text.replacen("\"keyid\": \"\"", "\"keyid\": \"k\"", 1);
        assert_eq!(Envelope::read_bundle(&named), Ok(read.clone()));
        let unnamed = text.replacen(",\n        \"keyid\": \"\"", "", 1);
        assert_ne!(unnamed, text);
        assert_eq!(Envelope::read_bundle(&unnamed), Ok(read));
        let why = |from: &str, to: &str| {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            Envelope::read_bundle(&changed).unwrap_err()
        };
        assert_eq!(
            why("v0.3", "v0.9"),
            format!(
                "says {} for its media type, not {BUNDLE}",
                BUNDLE.replace("v0.3", "v0.9")
            )
        );
        assert_eq!(
            why("\"keyid\": \"\"", "\"keyid\": \"x\""),
            "names the key k outside and x inside"
        );
        assert_eq!(
            why("\"payload\": \"e30=\"", "\"payload\": \"e30\""),
            "has a `payload` that is not base64"
        );
        assert_eq!(why("\"payloadType\"", "\"type\""), "has no `payloadType`");
        let two = text.replace("\"signatures\": [", "\"signatures\": [{},");
        assert_eq!(
            Envelope::read_bundle(&two).unwrap_err(),
            "has 2 signatures where one is expected"
        );
    }
}
