"""Judges one record with its field's own library: judge.py KIND FILE [PUBLIC-KEY].

Ends with 0, or with 1 and what is wrong. Run with target/record-venv/bin/python.
"""

import json
import sys


def cyclonedx(text):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        return [str(error.data.message)]
    # The schema does not look where references lead.
    bom = json.loads(text)
    known, todo = set(), [bom["metadata"]["component"], *bom["components"]]
    wrong = []
    while todo:
        component = todo.pop()
        todo += component.get("components", [])
        if component["bom-ref"] in known:
            wrong.append(f"two components are {component['bom-ref']}")
        known.add(component["bom-ref"])
        wrong += purl(component.get("purl"))
    used = [d["ref"] for d in bom["dependencies"]]
    used += [ref for d in bom["dependencies"] for ref in d.get("dependsOn", [])]
    return wrong + [f"no component is {ref}" for ref in used if ref not in known]


def purl(text):
    from packageurl import PackageURL

    if text is None:
        return []
    try:
        again = PackageURL.from_string(text).to_string()
    except ValueError as error:
        return [str(error)]
    return [] if again == text else [f"{text} is canonically {again}"]


def spdx(text):
    from spdx_tools.spdx.parser.error import SPDXParsingError
    from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    try:
        document = JsonLikeDictParser().parse(json.loads(text))
    except SPDXParsingError as error:
        return error.get_messages()
    return [m.validation_message for m in validate_full_spdx_document(document, "SPDX-2.3")]


def statement(text):
    import in_toto_attestation.predicates.provenance.v1.provenance_pb2 as provenance
    from google.protobuf import json_format
    from in_toto_attestation.v1.statement import Statement
    import in_toto_attestation.v1.statement_pb2 as statement_pb2

    try:
        parsed = json_format.Parse(text, statement_pb2.Statement())
        Statement.copy_from_pb(parsed).validate()
        predicate = json_format.MessageToDict(parsed.predicate)
        json_format.ParseDict(predicate, provenance.Provenance())
    except (json_format.ParseError, ValueError) as error:
        return [str(error)]
    return []


def envelope(text, key_file):
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    with open(key_file, "rb") as file:
        key = load_pem_public_key(file.read())
    document = json.loads(text)
    key = SSlibKey.from_crypto(key, keyid=document["signatures"][0]["keyid"])
    try:
        Envelope.from_dict(document).verify([key], 1)
    except VerificationError as error:
        return [str(error)]
    return []


JUDGES = {"cyclonedx": cyclonedx, "spdx": spdx, "statement": statement, "envelope": envelope}


def main():
    kind, path, *more = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        wrong = JUDGES[kind](file.read(), *more)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
