#!/usr/bin/env python3
"""Writes a catalog that lists files by their names and SHA-256, as inf2cat does, for osslsigncode to sign.

    catalog.py TO FILE...

Of a PE32+ image without a certificate table it lists what Authenticode covers, of any other file all bytes. The same call
writes the same bytes. Formats: Microsoft, Certificate Trust List, PE Format.
"""

import hashlib
import os
import struct
import sys


def der(tag, *parts):
    value = b"".join(parts)
    length = len(value)
    if length < 128:
        return bytes([tag, length]) + value
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + length.to_bytes(size, "big") + value


def oid(text):
    first, second, *rest = map(int, text.split("."))
    out = b""
    for number in [40 * first + second, *rest]:
        part = bytes([number & 127])
        while number := number >> 7:
            part = bytes([number & 127 | 128]) + part
        out += part
    return der(0x06, out)


SEQUENCE, SET, OCTETS, NULL = 0x30, 0x31, 0x04, b"\x05\0"
ALGORITHMS = {"sha1": "1.3.14.3.2.26", "sha256": "2.16.840.1.101.3.4.2.1", "sha384": "2.16.840.1.101.3.4.2.2"}


def member(digest, algorithm, image, name):
    """An entry of a catalog as inf2cat writes it: a tag, the file's name, and the digest of the file."""
    link = der(0xA2, der(0x80))  # SpcLink file, an empty name
    if image:
        data = der(SEQUENCE, oid("1.3.6.1.4.1.311.2.1.15"), der(SEQUENCE, b"\x03\x01\0", der(0xA0, link)))
    else:
        data = der(SEQUENCE, oid("1.3.6.1.4.1.311.2.1.25"), link)
    info = der(SEQUENCE, der(SEQUENCE, oid(ALGORITHMS[algorithm]), NULL), der(OCTETS, digest))
    tag = digest if algorithm != "sha1" else (digest.hex().upper() + "\0").encode("utf-16le")
    named = der(SEQUENCE, der(0x1E, "File".encode("utf-16be")), der(0x02, b"\x10\x01\0\x01"),
                der(OCTETS, (name + "\0").encode("utf-16le")))
    return der(SEQUENCE, der(OCTETS, tag), der(
        SET,
        der(SEQUENCE, oid("1.3.6.1.4.1.311.12.2.1"), der(SET, named)),
        der(SEQUENCE, oid("1.3.6.1.4.1.311.2.1.4"), der(SET, der(SEQUENCE, data, info))),
    ))


def tagged(digest, image, name):
    """An entry whose tag is the digest, and which says by a mark whether that is of a PE file."""
    named = der(SEQUENCE, der(0x1E, "File".encode("utf-16be")), der(0x02, b"\x10\x01\0\x01"),
                der(OCTETS, (name + "\0").encode("utf-16le")))
    return der(SEQUENCE, der(OCTETS, digest), der(
        SET,
        der(SEQUENCE, oid("1.3.6.1.4.1.311.12.2.3"), der(SET, der(0x80 if image else 0x82))),
        der(SEQUENCE, oid("1.3.6.1.4.1.311.12.2.1"), der(SET, named)),
    ))


def trust_list(members, usage="1.3.6.1.4.1.311.12.1.1", kind="1.3.6.1.4.1.311.12.1.2"):
    """A CertificateTrustList in a SignedData that nobody has signed yet."""
    listed = der(
        SEQUENCE,
        der(SEQUENCE, oid(usage)),
        der(OCTETS, bytes(range(16))),
        der(0x17, b"260901000000Z"),
        der(SEQUENCE, oid(kind), NULL),
        der(SEQUENCE, *members),
    )
    content = der(SEQUENCE, oid("1.3.6.1.4.1.311.10.1"), der(0xA0, listed))
    signed = der(SEQUENCE, b"\x02\x01\x01", der(SET), content, der(SET))
    return der(SEQUENCE, oid("1.2.840.113549.1.7.2"), der(0xA0, signed))


def image_digest(data, algorithm):
    """What Authenticode covers of a PE32+ file without a certificate table: all but the checksum and the table's entry."""
    header = struct.unpack_from("<I", data, 60)[0]
    checksum, entry = header + 24 + 64, header + 24 + 144
    return hashlib.new(algorithm, data[:checksum] + data[checksum + 4:entry] + data[entry + 8:]).digest()


def listed(name):
    with open(name, "rb") as file:
        data = file.read()
    is_image = data[:2] == b"MZ"
    digest = image_digest(data, "sha256") if is_image else hashlib.sha256(data).digest()
    return member(digest, "sha256", is_image, os.path.basename(name))


def main():
    to, *files = sys.argv[1:]
    with open(to, "wb") as file:
        file.write(trust_list([listed(name) for name in files]))


if __name__ == "__main__":
    main()
