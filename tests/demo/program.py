#!/usr/bin/env python3
"""Writes a small Windows console program: a PE32+ image for x86-64 that prints a fixed text and ends with 0.

    program.py FILE [--fill BYTES] [--plays NAME] 'ARGUMENTS=OUTPUT'...

On Windows (or Wine) it prints the first OUTPUT whatever it is asked. The stand-in knows it by its DOS header and gives
the OUTPUT that belongs to the arguments, or, with --plays, runs its own program of that NAME for any others (cloudbase-init,
service-runner). --fill adds bytes that do not compress. The same call writes the same bytes.
Layout: Microsoft, PE Format.
"""

import random
import struct
import sys

ALIGN, PAGE = 0x200, 0x1000
IMPORTS = ["ExitProcess", "GetStdHandle", "WriteFile"]
TEXT, DATA = 0x1000, 0x2000  # where the two sections lie in memory


def up(number, to):
    return -(-number // to) * to


def imports(base):
    """An import directory for kernel32.dll at `base`: its bytes, and where each function's address will be."""
    count = len(IMPORTS) + 1
    lookup, table, names = base + 40, base + 40 + 8 * count, base + 40 + 16 * count
    hints, at = b"", []
    for name in IMPORTS:
        at.append(names + len(hints))
        hints += struct.pack("<H", 0) + name.encode() + b"\0"
        hints += b"\0" * (len(hints) % 2)
    library = names + len(hints)
    entries = struct.pack(f"<{count}Q", *at, 0)
    directory = struct.pack("<5I", lookup, 0, 0, library, table) + bytes(20)
    data = directory + entries + entries + hints + b"kernel32.dll\0"
    return data, {name: table + 8 * i for i, name in enumerate(IMPORTS)}, table


def code(address, text, length):
    """WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), text, length, …); ExitProcess(0)"""
    out = b""

    def at(opcode, target):  # an instruction whose last four bytes are relative to its end
        nonlocal out
        out += opcode + struct.pack("<i", target - (TEXT + len(out) + len(opcode) + 4))

    out += b"\x48\x83\xec\x38"  # sub rsp, 56
    out += b"\xb9" + struct.pack("<i", -11)  # mov ecx, -11
    at(b"\xff\x15", address["GetStdHandle"])
    out += b"\x48\x89\xc1"  # mov rcx, rax
    at(b"\x48\x8d\x15", text)  # lea rdx, [text]
    out += b"\x41\xb8" + struct.pack("<I", length)  # mov r8d, length
    out += b"\x4c\x8d\x4c\x24\x30"  # lea r9, [rsp+48]
    out += b"\x48\xc7\x44\x24\x20" + bytes(4)  # mov qword [rsp+32], 0
    at(b"\xff\x15", address["WriteFile"])
    out += b"\x31\xc9"  # xor ecx, ecx
    at(b"\xff\x15", address["ExitProcess"])
    return out


def image(answers, fill, seed, plays):
    table, address, iat = imports(DATA)
    head = b"winimg stand-in answers:\n"
    first = DATA + len(table) + len(head) + len(answers[0][0].encode()) + 1
    records = b"".join(f"{a}\x1f{o}\x1e".encode() for a, o in answers)
    data = table + head + records + b"\0" + random.Random(seed).randbytes(fill)
    text = code(address, first, len(answers[0][1].encode()))

    headers = up(0x40 + 4 + 20 + 240 + 2 * 40, ALIGN)
    text_size, data_size = up(len(text), ALIGN), up(len(data), ALIGN)
    end = DATA + up(len(data), PAGE)
    dos = f"MZ winimg stand-in program: {plays}\r\n".encode().ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    coff = struct.pack("<2H3I2H", 0x8664, 2, 0, 0, 0, 240, 0x22)
    optional = struct.pack("<HBB5I", 0x20B, 14, 0, text_size, data_size, 0, TEXT, TEXT)
    optional += struct.pack("<QII6H4I", 0x140000000, PAGE, ALIGN, 6, 0, 0, 0, 6, 0, 0, end, headers, 0)
    optional += struct.pack("<HH4QII", 3, 0x8100, 1 << 20, PAGE, 1 << 20, PAGE, 0, 16)
    directories = [(0, 0)] * 16
    directories[1] = (DATA, 40)
    directories[12] = (iat, 8 * (len(IMPORTS) + 1))
    optional += b"".join(struct.pack("<II", *entry) for entry in directories)
    sections = section(b".text", len(text), TEXT, text_size, headers, 0x60000020)
    sections += section(b".data", len(data), DATA, data_size, headers + text_size, 0xC0000040)
    start = (dos + b"PE\0\0" + coff + optional + sections).ljust(headers, b"\0")
    return start + text.ljust(text_size, b"\0") + data.ljust(data_size, b"\0")


def section(name, size, address, raw, at, flags):
    return struct.pack("<8s6I2HI", name, size, address, raw, at, 0, 0, 0, 0, flags)


def main(words):
    file, words = words[0], words[1:]
    fill, plays = 0, "answers"
    if words and words[0] == "--fill":
        fill, words = int(words[1]), words[2:]
    if words and words[0] == "--plays":
        plays, words = words[1], words[2:]
    answers = [tuple(word.split("=", 1)) for word in words]
    if not answers or any(len(answer) != 2 for answer in answers):
        sys.exit(__doc__)
    with open(file, "wb") as out:
        out.write(image(answers, fill, file.rsplit("/", 1)[-1], plays))


if __name__ == "__main__":
    main(sys.argv[1:])
