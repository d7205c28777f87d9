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
    pub key_id: String,
    /// DER.
    pub signature: Vec<u8>,
}

impl Envelope {
    pub fn json(&self) -> Value {
        json!({
            "payload": STANDARD.encode(&self.payload),
            "payloadType": self.payload_type,
            "signatures": [{ "sig": STANDARD.encode(&self.signature), "keyid": self.key_id }],
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
        let key_id = signature.get("keyid").and_then(Value::as_str);
        Ok(Self {
            payload_type: text(value, "payloadType")?,
            payload: bytes(value, "payload")?,
            key_id: key_id.unwrap_or_default().to_owned(),
            signature: bytes(signature, "sig")?,
        })
    }

    /// `provenance.dsse.json`
    pub fn document(&self) -> String {
        format!("{:#}\n", self.json())
    }

    /// `provenance.sigstore.json`
    pub fn bundle(&self) -> String {
        let bundle = json!({
            "mediaType": BUNDLE,
            "verificationMaterial": { "publicKey": { "hint": self.key_id } },
            "dsseEnvelope": self.json(),
        });
        format!("{bundle:#}\n")
    }

    /// Reads a bundle; the hint has to name the key that the envelope names.
    pub fn read_bundle(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
        match value.get("mediaType").and_then(Value::as_str) {
            Some(BUNDLE) => {}
            other => {
                let other = other.unwrap_or("nothing");
                return Err(format!("says {other} for its media type, not {BUNDLE}"));
            }
        }
        let envelope = value.get("dsseEnvelope").ok_or("has no `dsseEnvelope`")?;
        let envelope = Self::read(envelope)?;
        let hint = value
            .pointer("/verificationMaterial/publicKey/hint")
            .and_then(Value::as_str)
            .ok_or("names no public key")?;
        if hint != envelope.key_id {
            return Err(format!(
                "names the key {hint} outside and {} inside",
                envelope.key_id
            ));
        }
        Ok(envelope)
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
            key_id: "k".into(),
            signature: b"s".to_vec(),
        };
        let text = envelope.bundle();
        assert_eq!(Envelope::read_bundle(&text), Ok(envelope));
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
            why("\"hint\": \"k\"", "\"hint\": \"x\""),
            "names the key x outside and k inside"
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
