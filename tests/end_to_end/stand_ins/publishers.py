#!/usr/bin/env python3
"""Signs stand-ins in the schemes of their publishers, by keys that nobody trusts: target/record-venv's Python runs it.

    publishers.py authority FOLDER SUBJECT            root.pem, signer.pem and .key of that subject, clock.pem and .key
    publishers.py keyless FOLDER FILE IDENTITY ISSUER  FILE.sig and FILE.cert, FILE.entry.json as Rekor answers, trusted_root.json
    publishers.py attest FOLDER FILE IDENTITY ISSUER REPOSITORY PREDICATE   FILE.intoto.jsonl, trusted_root.json

The Sigstore instance is the one of crates/trust/tests/sigstore/make.py.
"""

import datetime as dt
import importlib.util
import json
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

ROOT = pathlib.Path(__file__).resolve().parents[3]


def instance():
    spec = importlib.util.spec_from_file_location("sigstore_make", ROOT / "crates/trust/tests/sigstore/make.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def written(folder, name, certificate, key):
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def authority(folder, subject):
    """A root, a signer of code below it, and a clock that gives timestamps."""
    since = dt.datetime(2025, 12, 1)

    def issue(name, common, issuer, use):
        key = rsa.generate_private_key(public_exponent=65537, key_size=3072)
        signs, by = (key, common) if issuer is None else issuer
        builder = (
            x509.CertificateBuilder()
            .subject_name(common).issuer_name(by)
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(since).not_valid_after(since + dt.timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        )
        if use:
            # A timestamp authority's certificate says so critically (RFC 3161 2.3).
            critical = use == ExtendedKeyUsageOID.TIME_STAMPING
            builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=critical)
        written(folder, name, builder.sign(signs, hashes.SHA256()), key)
        return key, common

    def plain(text):
        return x509.Name.from_rfc4514_string(text)

    root = issue("root", plain("CN=winimg stand-in root"), None, None)
    issue("signer", plain(subject), root, ExtendedKeyUsageOID.CODE_SIGNING)
    issue("clock", plain("CN=winimg stand-in clock"), root, ExtendedKeyUsageOID.TIME_STAMPING)


def keyless(folder, file, identity, issuer):
    sigstore = instance()
    fulcio, rekor, leaf = sigstore.Fulcio("own fulcio"), sigstore.Rekor(), sigstore.key(file)
    certificate = fulcio.issue(leaf, identity=identity, issuer=issuer)
    _, entry, signature = sigstore.sign(pathlib.Path(file).read_bytes(), leaf, certificate, rekor)
    pathlib.Path(f"{file}.sig").write_text(sigstore.b64(signature))
    # Base64 of PEM, as cosign writes it.
    pathlib.Path(f"{file}.cert").write_text(sigstore.b64(certificate.public_bytes(Encoding.PEM)))
    pathlib.Path(f"{file}.entry.json").write_text(json.dumps(entry))
    trusted(folder, sigstore, fulcio, rekor)


def attest(folder, file, identity, issuer, repository, predicate):
    sigstore = instance()
    fulcio, rekor, leaf = sigstore.Fulcio("own fulcio"), sigstore.Rekor(), sigstore.key(file)
    source = f"https://github.com/{repository}"
    certificate = fulcio.issue(leaf, identity=identity, issuer=issuer, source=source)
    path = pathlib.Path(file)
    # Of several files, as a release's statement is.
    subjects = [("another.tar.gz", sigstore.digests(b"another")), (path.name, sigstore.digests(path.read_bytes()))]
    made = sigstore.attest(sigstore.statement(subjects, predicate), leaf, certificate, rekor)
    pathlib.Path(f"{file}.intoto.jsonl").write_text(json.dumps(made) + "\n")
    trusted(folder, sigstore, fulcio, rekor)


def trusted(folder, sigstore, fulcio, rekor):
    (folder / "trusted_root.json").write_text(json.dumps(sigstore.trusted_root(fulcio, rekor)))


def main():
    what, folder, *rest = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    {"authority": authority, "keyless": keyless, "attest": attest}[what](folder, *rest)


if __name__ == "__main__":
    main()
