#!/usr/bin/env python3
"""Does to a signed program what an attacker would: tamper.py GOOD ANOTHER. Writes into the working folder."""

import struct
import sys


def table(image):
    """Offset of the directory's entry, and where and how long the certificate table is."""
    start = struct.unpack_from("<I", image, 0x3C)[0]
    entry = start + 24 + 144
    return entry, *struct.unpack_from("<II", image, entry)


def write(name, image):
    with open(name, "wb") as out:
        out.write(image)


good = open(sys.argv[1], "rb").read()
another = open(sys.argv[2], "rb").read()
entry, offset, size = table(good)


def with_table(body, listed=None):
    """The program with these bytes as its certificate table, of which the directory knows `listed`."""
    head = bytearray(good[:offset])
    struct.pack_into("<II", head, entry, offset, len(body) if listed is None else listed)
    return bytes(head) + body


def resized(body):
    """The one entry says that it is as long as this."""
    return struct.pack("<I", len(body)) + body[4:]


flipped = bytearray(good)
flipped[0x410] ^= 1
write("flipped.exe", flipped)

checksum = bytearray(good)
struct.pack_into("<I", checksum, entry - 128 - 16 + 64, 0x12345678)
write("checksum.exe", checksum)

write("cut.exe", good[:-64])
write("cut-program.exe", good[:0x300])
write("appended.exe", good + b"PK\3\4 an archive")
write("listed.exe", with_table(good[offset:] + b"PK\3\4 an archive".ljust(64)))
write("padded.exe", with_table(resized(good[offset:] + b"PK\3\4 an archive".ljust(64))))
write("zero-padded.exe", with_table(resized(good[offset:] + bytes(64))))
second = struct.pack("<IHH", 24, 0x0200, 0x0001) + b"payload".ljust(16)
write("second.exe", with_table(good[offset:] + second))
write("foreign.exe", with_table(struct.pack("<IHH", 24, 0x0200, 0x0001) + bytes(16)))
write("cut-entry.exe", with_table(struct.pack("<I", size + 64) + good[offset + 4:]))
write("cut-der.exe", with_table(resized(good[offset:offset + 1024])))
write("stripped.exe", with_table(b"")[:entry] + bytes(8) + good[entry + 8:offset])

_, there, _ = table(another)
write("transplanted.exe", with_table(another[there:]))

gap = bytearray(good[:0x400] + b"not of a section".ljust(0x200) + good[0x400:])
sections = struct.unpack_from("<I", good, 0x3C)[0] + 24 + 240
at = struct.unpack_from("<I", good, sections + 40 + 20)[0]
struct.pack_into("<I", gap, sections + 20, struct.unpack_from("<I", good, sections + 20)[0] + 0x200)
struct.pack_into("<I", gap, sections + 40 + 20, at + 0x200)
struct.pack_into("<I", gap, entry, offset + 0x200)
write("gap.exe", gap)

overlap = bytearray(good)
struct.pack_into("<I", overlap, sections + 40 + 20, at - 0x200)
write("overlap.exe", overlap)


def with_field(name, at, form, value):
    """The program with another number in its headers; `at` counts from the optional header."""
    image = bytearray(good)
    struct.pack_into(form, image, sections - 240 + at, value)
    write(name, image)


with_field("no-headers.exe", 60, "<I", 0)
with_field("long-headers.exe", 60, "<I", 0x600)
with_field("endless-headers.exe", 60, "<I", 0xFFFFFFFF)
with_field("few-directories.exe", 108, "<I", 4)
with_field("other-width.exe", 0, "<H", 0x10B)
with_field("short-optional.exe", -4, "<H", 0x40)
with_field("no-optional.exe", -4, "<H", 0)
with_field("many-sections.exe", -18, "<H", 0xFFFF)
with_field("beyond.exe", entry - sections + 240, "<I", 0xFFFFFFF8)
with_field("endless-table.exe", entry - sections + 244, "<I", 0xFFFFFFFF)
with_field("section-in-headers.exe", 240 + 20, "<I", 0x80)
with_field("endless-section.exe", 240 + 40 + 16, "<I", 0xFFFFFFFF)
write("dos.exe", b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40) + b"NE".ljust(64, b"\0"))
write("text.txt", b"hello\n")

signed = bytearray(good)
signed[offset + size // 2] ^= 1
write("flipped-signature.exe", signed)
