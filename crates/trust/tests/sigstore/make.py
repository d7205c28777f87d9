#!/usr/bin/env python3
"""A Sigstore instance of three keys in one file: writes the files that the tests beside it judge.

    python3 -m venv venv && venv/bin/pip install cryptography sigstore
    venv/bin/python make.py                    writes own/ anew; the bytes come out the same each time
    venv/bin/python make.py --second-opinion   asks PyPI's `sigstore` about the same files, without a network

It plays Fulcio (certificates with an SCT), a certificate transparency log, and Rekor v1 (Merkle tree, checkpoint, signed
entry timestamp). The keys are derived from their names: nothing here is a secret, and nothing here is to be trusted.

Formats: RFC 6962 (SCT, Merkle tree), sigstore/protobuf-specs (bundle, trusted root), Rekor's types/hashedrekord/v0.0.1
and types/dsse/v0.0.1, transparency-dev's checkpoint format.
"""

import argparse
import base64
import datetime as dt
import hashlib
import json
import pathlib
import struct
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

OUT = pathlib.Path(__file__).parent / "own"
SIGNED_AT = dt.datetime(2026, 3, 1, 12, 0, 0, tzinfo=dt.timezone.utc)
IDENTITY = "https://github.com/example/tools/.github/workflows/release.yml@refs/tags/v1.2.0"
REPOSITORY = "https://github.com/example/tools"
ISSUER = "https://token.actions.githubusercontent.com"
SLSA = "https://slsa.dev/provenance/v1"
SCT_LIST = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
# Fulcio writes both: raw text in the old extension, a DER UTF8String in the new one.
FULCIO_ISSUER_OLD = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
FULCIO_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
SOURCE_REPOSITORY = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.12")
USER_NAME = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.7")
SHA256 = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)


def b64(data):
    return base64.b64encode(data).decode()


def key(name, curve=ec.SECP256R1()):
    return ec.derive_private_key(int.from_bytes(hashlib.sha256(name.encode()).digest(), "big"), curve)


def spki(private):
    return private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def key_id(private):
    return hashlib.sha256(spki(private)).digest()


def serial(name):
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")


def name(common):
    return x509.Name([
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "example.net"),
        x509.NameAttribute(NameOID.COMMON_NAME, common),
    ])


class Fulcio:
    """A root that issues leaves by itself, and the certificate transparency log that sees them."""

    def __init__(self, common, ct="ct log"):
        self.key, self.ct, self.name = key(common), key(ct), name(common)
        self.named = self.key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(self.name).issuer_name(self.name)
            .public_key(self.key.public_key()).serial_number(serial(common))
            .not_valid_before(dt.datetime(2026, 1, 1)).not_valid_after(dt.datetime(2046, 1, 1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage(key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
        )
        self.certificate = builder.sign(self.key, hashes.SHA256(), ecdsa_deterministic=True)

    def issue(self, leaf, identity=IDENTITY, issuer=ISSUER, use=ExtendedKeyUsageOID.CODE_SIGNING, sct=True, ct=None,
              seen=None, source=REPOSITORY):
        """A certificate for ten minutes from SIGNED_AT on. `seen`: the SCT is for that certificate."""
        if "://" in identity:
            san = x509.UniformResourceIdentifier(identity)
        elif "!" in identity:
            san = x509.OtherName(USER_NAME, b"\x0c" + bytes([len(identity)]) + identity.encode())
        else:
            san = x509.RFC822Name(identity)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([])).issuer_name(self.name)
            .public_key(leaf.public_key()).serial_number(serial(identity + issuer))
            .not_valid_before(SIGNED_AT).not_valid_after(SIGNED_AT + dt.timedelta(minutes=10))
            .add_extension(usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(leaf.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.named), critical=False)
            .add_extension(x509.SubjectAlternativeName([san]), critical=True)
            .add_extension(x509.UnrecognizedExtension(FULCIO_ISSUER_OLD, issuer.encode()), critical=False)
            .add_extension(
                x509.UnrecognizedExtension(FULCIO_ISSUER, b"\x0c" + bytes([len(issuer)]) + issuer.encode()),
                critical=False,
            )
        )
        if source and "://" in identity:
            builder = builder.add_extension(
                x509.UnrecognizedExtension(SOURCE_REPOSITORY, b"\x0c" + bytes([len(source)]) + source.encode()),
                critical=False,
            )
        if sct:
            seen = seen or builder.sign(self.key, hashes.SHA256(), ecdsa_deterministic=True)
            builder = builder.add_extension(
                x509.UnrecognizedExtension(SCT_LIST, self.sct(seen, ct or self.ct)), critical=False
            )
        return builder.sign(self.key, hashes.SHA256(), ecdsa_deterministic=True)

    def sct(self, certificate, log):
        """RFC 6962 3.2: over the certificate as it is without the SCT."""
        at = struct.pack(">Q", int(SIGNED_AT.timestamp() * 1000))
        tbs = certificate.tbs_certificate_bytes
        issuer = hashlib.sha256(spki(self.key)).digest()
        signed = b"\0\0" + at + b"\0\1" + issuer + struct.pack(">I", len(tbs))[1:] + tbs + b"\0\0"
        signature = log.sign(signed, SHA256)
        one = b"\0" + key_id(log) + at + b"\0\0" + b"\x04\x03" + struct.pack(">H", len(signature)) + signature
        tls = struct.pack(">H", len(one) + 2) + struct.pack(">H", len(one)) + one
        # An OCTET STRING in the extension's value.
        assert len(tls) < 256
        return b"\x04" + (b"\x81" if len(tls) > 127 else b"") + bytes([len(tls)]) + tls


def usage(**on):
    every = ("digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign "
             "crl_sign encipher_only decipher_only").split()
    return x509.KeyUsage(**{u: on.get(u, False) for u in every})


class Rekor:
    """A Rekor v1 log of four entries, the third of which is the wanted one."""

    def __init__(self, common="rekor"):
        self.key, self.origin = key(common), f"{common}.example.net - 1"

    def entry(self, body, at):
        """An entry as Rekor's API answers it, without its ID."""
        body = canonical(body)
        leaves = [b"first", b"second", body, b"fourth"]
        hashed = [hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]
        left = hashlib.sha256(b"\1" + hashed[0] + hashed[1]).digest()
        right = hashlib.sha256(b"\1" + hashed[2] + hashed[3]).digest()
        root = hashlib.sha256(b"\1" + left + right).digest()
        note = f"{self.origin}\n4\n{b64(root)}\n"
        mark = b64(key_id(self.key)[:4] + self.key.sign(note.encode(), SHA256))
        promised = {
            "body": b64(body),
            "integratedTime": int(at.timestamp()),
            "logID": key_id(self.key).hex(),
            "logIndex": 1002,
        }
        promise = self.key.sign(canonical(promised), SHA256)
        return hashed[2].hex(), promised | {
            "verification": {
                "inclusionProof": {
                    "checkpoint": f"{note}\n\u2014 {self.origin.split(' ')[0]} {mark}\n",
                    "hashes": [hashed[3].hex(), left.hex()],
                    "logIndex": 2,
                    "rootHash": root.hex(),
                    "treeSize": 4,
                },
                "signedEntryTimestamp": b64(promise),
            },
        }


def canonical(value):
    """RFC 8785, as far as ASCII strings and integers go."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def hashedrekord(artifact, signature, certificate):
    return {
        "apiVersion": "0.0.1",
        "kind": "hashedrekord",
        "spec": {
            "data": {"hash": {"algorithm": "sha256", "value": hashlib.sha256(artifact).hexdigest()}},
            "signature": {
                "content": b64(signature),
                "publicKey": {"content": b64(certificate.public_bytes(Encoding.PEM))},
            },
        },
    }


def dsse_body(envelope, certificate):
    payload = base64.b64decode(envelope["payload"])
    return {
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(canonical(envelope)).hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{
                "signature": envelope["signatures"][0]["sig"],
                "verifier": b64(certificate.public_bytes(Encoding.PEM)),
            }],
        },
    }


def tlog_entry(entry, kind):
    """Rekor's answer as a bundle holds it."""
    proof = entry["verification"]["inclusionProof"]
    return {
        "logIndex": str(entry["logIndex"]),
        "logId": {"keyId": b64(bytes.fromhex(entry["logID"]))},
        "kindVersion": {"kind": kind, "version": "0.0.1"},
        "integratedTime": str(entry["integratedTime"]),
        "inclusionPromise": {"signedEntryTimestamp": entry["verification"]["signedEntryTimestamp"]},
        "inclusionProof": {
            "logIndex": str(proof["logIndex"]),
            "rootHash": b64(bytes.fromhex(proof["rootHash"])),
            "treeSize": str(proof["treeSize"]),
            "hashes": [b64(bytes.fromhex(h)) for h in proof["hashes"]],
            "checkpoint": {"envelope": proof["checkpoint"]},
        },
        "canonicalizedBody": entry["body"],
    }


def bundle(certificate, entry, kind, content):
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            "certificate": {"rawBytes": b64(certificate.public_bytes(Encoding.DER))},
            "tlogEntries": [tlog_entry(entry, kind)],
            "timestampVerificationData": {"rfc3161Timestamps": []},
        },
        **content,
    }


def sign(artifact, leaf, certificate, rekor, at=SIGNED_AT + dt.timedelta(seconds=5)):
    """The bundle of a signed file, with its loose parts."""
    signature = leaf.sign(artifact, SHA256)
    uuid, entry = rekor.entry(hashedrekord(artifact, signature, certificate), at)
    made = bundle(certificate, entry, "hashedrekord", {
        "messageSignature": {
            "messageDigest": {"algorithm": "SHA2_256", "digest": b64(hashlib.sha256(artifact).digest())},
            "signature": b64(signature),
        },
    })
    return made, {uuid: entry}, signature


def attest(statement, leaf, certificate, rekor):
    payload = canonical(statement)
    kind = "application/vnd.in-toto+json"
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    envelope = {
        "payload": b64(payload),
        "payloadType": kind,
        "signatures": [{"sig": b64(leaf.sign(signed, SHA256))}],
    }
    _, entry = rekor.entry(dsse_body(envelope, certificate), SIGNED_AT + dt.timedelta(seconds=5))
    return bundle(certificate, entry, "dsse", {"dsseEnvelope": envelope})


def statement(subjects, predicate_type, kind="https://in-toto.io/Statement/v1"):
    return {
        "_type": kind,
        "subject": [{"name": n, "digest": d} for n, d in subjects],
        "predicateType": predicate_type,
        "predicate": {"buildDefinition": {"buildType": "https://example.net/build/v1"}},
    }


def trusted_root(fulcio, rekor):
    since = {"start": "2026-01-01T00:00:00Z"}

    def log(private, host):
        return {
            "baseUrl": f"https://{host}.example.net",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": b64(spki(private)),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": since,
            },
            "logId": {"keyId": b64(key_id(private))},
        }

    return {
        "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
        "tlogs": [log(rekor.key, "rekor")],
        "certificateAuthorities": [{
            "subject": {"organization": "example.net", "commonName": "own fulcio"},
            "uri": "https://fulcio.example.net",
            "certChain": {"certificates": [{"rawBytes": b64(fulcio.certificate.public_bytes(Encoding.DER))}]},
            "validFor": since,
        }],
        "ctlogs": [log(fulcio.ct, "ctfe")],
        "timestampAuthorities": [],
    }


def digests(data, *algorithms):
    return {a: hashlib.new(a, data).hexdigest() for a in algorithms or ("sha256",)}


def make():
    """Every file of own/, by its name."""
    fulcio, rekor = Fulcio("own fulcio"), Rekor()
    leaf = key("leaf")
    certificate = fulcio.issue(leaf)
    artifact = b"MZ, says the tool.\n"
    other = b"MZ, says another tool.\n"

    files = {"tool.exe": artifact, "other.exe": other, "trusted_root.json": trusted_root(fulcio, rekor)}

    good, entry, signature = sign(artifact, leaf, certificate, rekor)
    files["good.sigstore.json"] = good
    files["other.sigstore.json"] = sign(other, leaf, certificate, rekor)[0]
    email = fulcio.issue(leaf, identity="release@example.net", issuer="https://accounts.example.net")
    files["email.sigstore.json"] = sign(artifact, leaf, email, rekor)[0]

    # The loose parts, and the log's answers of three signers about one file: the wanted one stands in the middle.
    stranger = key("stranger")
    foreign = fulcio.issue(stranger, identity="mallory@example.org", issuer="https://accounts.example.net")
    answers = [sign(artifact, stranger, foreign, rekor)[1], entry, sign(artifact, leaf, email, rekor)[1]]
    pem = certificate.public_bytes(Encoding.PEM)
    files["tool.exe.sig"] = b64(signature).encode()
    files["tool.exe.cert"] = b64(pem).encode()
    files["tool.exe.pem"] = pem
    files["entries.json"] = answers
    files["stranger.json"] = answers[0]

    # What is wrong with these cannot be had by editing: a key has to sign it.
    def wrong(name, **options):
        authority = options.pop("fulcio", fulcio)
        log = options.pop("rekor", rekor)
        at = SIGNED_AT + dt.timedelta(seconds=options.pop("after", 5))
        files[f"{name}.sigstore.json"] = sign(artifact, leaf, authority.issue(leaf, **options), log, at)[0]

    wrong("no-sct", sct=False)
    wrong("foreign-sct", ct=key("another ct log"))
    wrong("borrowed-sct", seen=fulcio.issue(leaf, identity="release@example.net", sct=False))
    wrong("tls-server", use=ExtendedKeyUsageOID.SERVER_AUTH)
    wrong("expired", after=3600)
    wrong("too-early", after=-3600)
    # A reusable workflow, called by somebody else's repository; and a certificate that does not say by whose.
    wrong("called", source="https://github.com/mallory/tools")
    wrong("no-source", source=None)
    wrong("user-name", identity="jo!example.net")
    wrong("from-the-future", after=19 * 365 * 86400)
    wrong("foreign-log", rekor=Rekor("another log"))
    wrong("foreign-root", fulcio=Fulcio("another fulcio", "another ct log"), rekor=Rekor("another log"))
    # Its name and its key's name are those of the real authority; its key is not.
    impostor = Fulcio("own fulcio")
    impostor.key = key("impostor")
    wrong("impostor", fulcio=impostor)

    # A larger key goes with a longer digest.
    large = key("large leaf", ec.SECP384R1())
    certificate_384 = fulcio.issue(large)
    signature_384 = large.sign(artifact, ec.ECDSA(hashes.SHA384(), deterministic_signing=True))
    long = hashlib.sha384(artifact)
    for case, logged in [("p384", None), ("p384-logged", long)]:
        body = hashedrekord(artifact, signature_384, certificate_384)
        if logged:
            body["spec"]["data"]["hash"] = {"algorithm": "sha384", "value": logged.hexdigest()}
        _, entry = rekor.entry(body, SIGNED_AT + dt.timedelta(seconds=5))
        files[f"{case}.sigstore.json"] = bundle(certificate_384, entry, "hashedrekord", {
            "messageSignature": {
                "messageDigest": {"algorithm": "SHA2_384", "digest": b64(long.digest())},
                "signature": b64(signature_384),
            },
        })

    # Attestations.
    short, both = digests(artifact), digests(artifact, "sha256", "sha512")
    archive = ("tools.zip", digests(b"an archive"))

    def attestation(subjects, predicate=SLSA, cert=certificate, **options):
        return attest(statement(subjects, predicate, **options), leaf, cert, rekor)

    provenance = attestation([archive, ("tool.exe", both)])
    files["provenance.sigstore.json"] = provenance
    files["sha512-only.sigstore.json"] = attestation([("tool.exe", digests(artifact, "sha512"))])
    files["other-predicate.sigstore.json"] = attestation([("tool.exe", short)], "https://spdx.dev/Document")
    files["older.sigstore.json"] = attestation([("dist/tool.exe", digests(b"last month's"))])
    files["archive-only.sigstore.json"] = attestation([archive])
    files["by-another.sigstore.json"] = attestation([("tool.exe", short)], cert=email)
    files["strange-type.sigstore.json"] = attestation([("tool.exe", short)], kind="https://example.net/Statement")
    order = ["archive-only", "other-predicate", "by-another", "provenance"]
    files["release.intoto.jsonl"] = b"".join(canonical(files[f"{n}.sigstore.json"]) + b"\n" for n in order)
    # The last in the log, so that what was made before it stays as it is.
    caller = fulcio.issue(leaf, source="https://github.com/mallory/tools")
    files["called-provenance.sigstore.json"] = attestation([("tool.exe", short)], cert=caller)
    return {n: d if isinstance(d, bytes) else json.dumps(d, indent=1).encode() + b"\n" for n, d in files.items()}


def second_opinion():
    """PyPI's sigstore on own/: what winimg takes it has to take, what winimg refuses it has to refuse."""
    import logging

    from sigstore.models import Bundle, TrustedRoot
    from sigstore.verify import Verifier, policy

    logging.disable(logging.CRITICAL)
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(OUT / "trusted_root.json")))
    artifact = (OUT / "tool.exe").read_bytes()
    rule = policy.Identity(identity=IDENTITY, issuer=ISSUER)
    mail = policy.Identity(identity="release@example.net", issuer="https://accounts.example.net")
    taken = {"called": rule, "called-provenance": rule, "no-source": rule, "good": rule, "email": mail, "provenance": rule, "sha512-only": rule, "by-another": mail}
    # It knows no digest but SHA-256; Rekor and cosign do.
    unknown = {"p384"}
    wrong = 0
    for path in sorted(OUT.glob("*.sigstore.json")):
        case = path.name.removesuffix(".sigstore.json")
        try:
            read = Bundle.from_json(path.read_bytes())
            if "dsseEnvelope" in json.loads(path.read_bytes()):
                _, payload = verifier.verify_dsse(read, taken.get(case, rule))
                said = json.loads(payload)
                known = digests(artifact, "sha256", "sha512").items()
                same = any(d in known for s in said["subject"] for d in s["digest"].items())
                if not same or said["predicateType"] != SLSA:
                    raise ValueError("another file, or another predicate")
                if said["_type"] != "https://in-toto.io/Statement/v1":
                    raise ValueError("another kind of statement")
            else:
                verifier.verify_artifact(artifact, read, taken.get(case, rule))
            verdict = "taken"
        except Exception as error:  # noqa: BLE001 - every refusal is a verdict
            verdict = f"refused: {type(error).__name__}: {error}"
        agrees = verdict.startswith("taken") == (case in taken)
        if case in unknown:
            print(f"(?) {case:<16} {verdict}")
            continue
        wrong += not agrees
        print(f"{'   ' if agrees else '!! '}{case:<16} {verdict}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--second-opinion", action="store_true")
    if parser.parse_args().second_opinion:
        sys.exit(1 if second_opinion() else 0)
    OUT.mkdir(exist_ok=True)
    for path in OUT.iterdir():
        path.unlink()
    for file, data in make().items():
        (OUT / file).write_bytes(data)


if __name__ == "__main__":
    main()
