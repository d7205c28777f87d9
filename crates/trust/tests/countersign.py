#!/usr/bin/env python3
"""Puts timestamps of 2026-01-02 into signatures, as signers do who ask a service: countersign.py. Works in the current folder.

    legacy.exe          short.exe with a countersignature (PKCS#9) by tsa, as signtool /t made them
    legacy-other.exe    the same countersignature under another signature
    legacy-sha1.exe     a countersignature made with SHA-1
    stamped.p7s         short-sums.p7s with an RFC 3161 token by tsa, as CMS carries it
    stamped-other.p7s   the same token under another signature
    stamped-*.exe       short.exe with tokens that are not what they should be, named after what is wrong
    tagged*.exe         good.exe or dual.exe with a payload in a signature, where nothing covers it: in the signature itself,
                        in one nested in it, in its timestamp, in its countersignature, in place of a second timestamp,
                        or as the content of a second timestamp or of a nested signature
    mixed.p7s           sums.p7s hashed by SHA-256 and signed over SHA-512
    twice.p7s           sums.p7s with two messageDigests, both signed
    undigested.p7s      sums.p7s without a messageDigest
    ber.p7s             sums.p7s with a length that is said at its end
    ber-signer.p7s      the same from the outside in, as far as the signer
    ber-attributes.p7s  the same as far as the signed attributes, which have to be DER
    ber-pieces.p7s      sums.p7s with content in pieces, of which the last is another's
    ber-cut.p7s         sums.p7s with a length that is said nowhere

DER is taken apart and put together by hand here, for no tool at hand makes these. (RFC 5652; RFC 3161)
"""

import hashlib
import struct
import subprocess


def der(tag, *parts):
    body = b"".join(parts)
    size = len(body)
    if size < 128:
        return bytes([tag, size]) + body
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + body


def elements(body):
    """Each element in these bytes, whole."""
    found = []
    while body:
        size, head = body[1], 2
        if size & 0x80:
            head += size & 0x7F
            size = int.from_bytes(body[2:head], "big")
        found.append(body[: head + size])
        body = body[head + size :]
    return found


def value(element):
    return element[2 + (element[1] & 0x7F if element[1] & 0x80 else 0) :]


def oid(dotted):
    first, second, *rest = map(int, dotted.split("."))
    out = b""
    for arc in [first * 40 + second, *rest]:
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.insert(0, 0x80 | arc & 0x7F)
        out += bytes(digits)
    return der(6, out)


def attribute(dotted, *values):
    return der(0x30, oid(dotted), der(0x31, *values))


def run(*words, data=b""):
    return subprocess.run(words, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout


def signer_of(signed):
    """The SignerInfo, and what stands around it: a function that puts another in its place, with more certificates."""
    kind, explicit = elements(value(signed))
    parts = elements(value(value(explicit)))
    (signer,) = elements(value(parts[-1]))

    def rebuilt(signer, certificates):
        certs = der(0xA0, value(parts[3]), *certificates)
        inside = der(0x30, *parts[:3], certs, *parts[4:-1], der(0x31, signer))
        return der(0x30, kind, der(0xA0, inside))

    return signer, rebuilt


def signature_value(signer):
    return value([e for e in elements(value(signer)) if e[0] == 4][-1])


def with_unsigned(signed, attribute, certificates=()):
    signer, rebuilt = signer_of(signed)
    parts = [e for e in elements(value(signer)) if e[0] != 0xA1]
    return rebuilt(der(0x30, *parts, der(0xA1, attribute)), certificates)


def certificate(name):
    return run("openssl", "x509", "-in", f"{name}.pem", "-outform", "DER")


def countersignature(signature, hash, algorithm):
    """A SignerInfo of tsa over another's signature value."""
    body = elements(value(elements(value(certificate("tsa")))[0]))
    attributes = [
        attribute("1.2.840.113549.1.9.3", oid("1.2.840.113549.1.7.1")),
        attribute("1.2.840.113549.1.9.5", der(0x17, b"260102000000Z")),
        attribute("1.2.840.113549.1.9.4", der(4, hashlib.new(hash, signature).digest())),
    ]
    attributes.sort()
    signed = run("openssl", "dgst", f"-{hash}", "-sign", "tsa.key", data=der(0x31, *attributes))
    return der(
        0x30,
        der(2, b"\1"),
        der(0x30, body[3], body[1]),
        der(0x30, oid(algorithm), der(5)),
        der(0xA0, *attributes),
        der(0x30, oid("1.2.840.113549.1.1.1"), der(5)),
        der(4, signed),
    )


def token(signature, by="tsa", hash="sha256", algorithm="2.16.840.1.101.3.4.2.1"):
    imprint = der(0x30, der(0x30, oid(algorithm), der(5)), der(4, hashlib.new(hash, signature).digest()))
    info = der(0x30, der(2, b"\1"), oid("1.2.3.4"), imprint, der(2, b"\7"), der(0x18, b"20260102000000.25Z"))
    made = run(
        *("openssl", "cms", "-sign", "-binary", "-nodetach", "-econtent_type", "1.2.840.113549.1.9.16.1.4"),
        *("-signer", f"{by}.pem", "-inkey", f"{by}.key", "-outform", "DER"),
        data=info,
    )
    return made


def table(image):
    entry = struct.unpack_from("<I", image, 0x3C)[0] + 24 + 144
    return entry, *struct.unpack_from("<II", image, entry)


def signature_in(name):
    image = open(name, "rb").read()
    entry, offset, _ = table(image)
    # What follows fills the table up, and is no element.
    digits = image[offset + 9] & 0x7F
    size = int.from_bytes(image[offset + 10 : offset + 10 + digits], "big")
    return image[offset + 8 : offset + 10 + digits + size]


def program(name, like, signed):
    image = bytearray(open(like, "rb").read())
    entry, offset, _ = table(image)
    signed += bytes(-len(signed) % 8)
    body = struct.pack("<IHH", len(signed) + 8, 0x0200, 0x0002) + signed
    struct.pack_into("<II", image, entry, offset, len(body))
    write(name, bytes(image[:offset]) + body)


def write(name, data):
    with open(name, "wb") as out:
        out.write(data)


SHA1, SHA256 = "1.3.14.3.2.26", "2.16.840.1.101.3.4.2.1"
COUNTERSIGNATURE = "1.2.840.113549.1.9.6"
authority = [certificate("tsa")]
short, unstamped = signature_in("short.exe"), signature_in("unstamped.exe")
counter = attribute(COUNTERSIGNATURE, countersignature(signature_value(signer_of(short)[0]), "sha256", SHA256))
program("legacy.exe", "short.exe", with_unsigned(short, counter, authority))
program("legacy-other.exe", "unstamped.exe", with_unsigned(unstamped, counter, authority))
counter = attribute(COUNTERSIGNATURE, countersignature(signature_value(signer_of(short)[0]), "sha1", SHA1))
program("legacy-sha1.exe", "short.exe", with_unsigned(short, counter, authority))

TOKEN = "1.3.6.1.4.1.311.3.3.1"
value_of_short = signature_value(signer_of(short)[0])
for name, made in [
    ("too", token(value_of_short, by="tsa-too")),
    ("loose", token(value_of_short, by="tsa-loose")),
    ("weak", token(value_of_short, hash="sha1", algorithm=SHA1)),
    ("other", token(b"the value of another signature")),
]:
    program(f"stamped-{name}.exe", "short.exe", with_unsigned(short, attribute(TOKEN, made)))

good = signature_in("good.exe")
signer, rebuilt = signer_of(good)
*parts, unsigned = elements(value(signer))
payload = attribute("1.3.6.1.4.1.311.99.1", der(4, b"a payload that nobody signed"))
program("tagged.exe", "good.exe", rebuilt(der(0x30, *parts, der(0xA1, value(unsigned), payload)), []))


def of_type(unsigned, dotted):
    (found,) = [e for e in elements(value(unsigned)) if oid(dotted) in e]
    return value(elements(value(found))[1])


NESTED = "1.3.6.1.4.1.311.2.4.1"
stamp = of_type(unsigned, TOKEN)
program("tagged-stamp.exe", "good.exe", with_unsigned(good, attribute(TOKEN, with_unsigned(stamp, payload))))
program("tagged-other.exe", "good.exe", with_unsigned(good, attribute(TOKEN, stamp, der(4, b"a payload that nobody signed"))))
nesting = signature_in("dual.exe")
outer, around = signer_of(nesting)
unsigned = [e for e in elements(value(outer)) if e[0] == 0xA1][0]
tagged = with_unsigned(of_type(unsigned, NESTED), payload)
program("tagged-nested.exe", "dual.exe", with_unsigned(nesting, attribute(NESTED, tagged)))
tagged = with_unsigned(good, attribute(NESTED, der(0x30, oid("1.2.3.4"), der(0xA0, der(4, b"a payload that nobody signed")))))
program("tagged-unread.exe", "good.exe", tagged)


def holding(kind, content, *options):
    """A SignedData of anybody's."""
    made = ("openssl", "cms", "-sign", "-binary", "-nodetach", "-econtent_type", kind)
    return run(*made, "-signer", "tsa.pem", "-inkey", "tsa.key", "-outform", "DER", *options, data=content)


TST_INFO, MINE = "1.2.840.113549.1.9.16.1.4", "1.3.6.1.4.1.311.99.2"
archive = bytes(16 << 10)
program("tagged-kind.exe", "good.exe", with_unsigned(good, attribute(TOKEN, stamp, holding(MINE, b"a payload"))))
program("tagged-large.exe", "good.exe", with_unsigned(good, attribute(TOKEN, stamp, holding(TST_INFO, 4 * archive))))
program("tagged-long.exe", "good.exe", with_unsigned(good, attribute(TOKEN, stamp, holding(TST_INFO, archive))))
program("tagged-data.exe", "good.exe", with_unsigned(good, attribute(TOKEN, stamp) + attribute(NESTED, holding(MINE, archive))))
counter = countersignature(signature_value(signer_of(short)[0]), "sha256", SHA256)
counter = der(0x30, value(counter), der(0xA1, payload))
program("tagged-counter.exe", "short.exe", with_unsigned(short, attribute(COUNTERSIGNATURE, counter), authority))

sums = open("sums.p7s", "rb").read()
signer, rebuilt = signer_of(sums)
version, who, digest, attributes, algorithm, _ = elements(value(signer))


def signed_anew(attributes, hash="sha256", algorithm=algorithm):
    """sums.p7s with these attributes, signed by its signer."""
    signed = run("openssl", "dgst", f"-{hash}", "-sign", "leaf.key", data=der(0x31, *attributes))
    return rebuilt(der(0x30, version, who, digest, der(0xA0, *attributes), algorithm, der(4, signed)), [])


attributes = elements(value(attributes))
is_digest = lambda a: oid("1.2.840.113549.1.9.4") in a
write("mixed.p7s", signed_anew(attributes, "sha512", der(0x30, oid("1.2.840.113549.1.1.13"), der(5))))
write("twice.p7s", signed_anew([*attributes, attribute("1.2.840.113549.1.9.4", der(4, bytes(32)))]))
write("undigested.p7s", signed_anew([a for a in attributes if not is_digest(a)]))


def ended(tag, *parts):
    """An element whose length is said at its end."""
    return bytes([tag, 0x80]) + b"".join(parts) + bytes(2)


kind, explicit = elements(value(sums))
head, hashes, content, certificates, _ = elements(value(value(explicit)))


def streamed(signer, content=content):
    inside = ended(0x30, head, hashes, content, certificates, ended(0x31, signer))
    return ended(0x30, kind, ended(0xA0, inside))


ours = elements(value(signer))
write("ber.p7s", ended(0x30, value(sums)))
write("ber-signer.p7s", streamed(ended(0x30, *ours), ended(0x30, *elements(value(content)))))
write("ber-attributes.p7s", streamed(ended(0x30, *ours[:3], ended(0xA0, value(ours[3])), *ours[4:])))
pieces = [der(4, piece) for piece in [b"the checksums ", b"of another release\n"]]
write("ber-pieces.p7s", streamed(signer, ended(0x30, *elements(value(content)), ended(0xA0, ended(0x24, *pieces)))))
write("ber-cut.p7s", b"\x30\x80" + value(sums))

short, other = open("short-sums.p7s", "rb").read(), open("sums.p7s", "rb").read()
stamp = attribute("1.2.840.113549.1.9.16.2.14", token(signature_value(signer_of(short)[0])))
write("stamped.p7s", with_unsigned(short, stamp))
write("stamped-other.p7s", with_unsigned(other, stamp))
