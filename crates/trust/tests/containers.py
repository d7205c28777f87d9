#!/usr/bin/env python3
"""Makes what the tests of signed packages, cabinets, scripts and catalogs judge: throw-away certificates, files that the
field's own tools (wixl, gcab, osslsigncode) make and sign, and each of them damaged in one way.

    containers.py DIR
    containers.py --stream PACKAGE NAME

The second writes a stream of a package to standard output, whatever the order of its directory. Good files are named after what they are; a damaged one is FILE~DAMAGE. Formats: Microsoft, MS-CFB, MS-CAB, PE Format,
Certificate Trust List.
"""

import hashlib
import os
import random
import struct
import subprocess
import sys

from catalog import image_digest, member, tagged, trust_list

FREE, END = 0xFFFFFFFF, 0xFFFFFFFE
WXS = """<?xml version="1.0"?>
<Wix xmlns="http://schemas.microsoft.com/wix/2006/wi">
 <Product Id="6E5E2B0A-4B8C-4D2B-9E61-0C6C7D2F7F01" Name="Example" Language="1033" Version="1.0.0"
   Manufacturer="Example Corp" UpgradeCode="6E5E2B0A-4B8C-4D2B-9E61-0C6C7D2F7F02">
  <Package InstallerVersion="200" Compressed="yes"/>
  <Media Id="1" Cabinet="a.cab" EmbedCab="yes"/>
  <Directory Id="TARGETDIR" Name="SourceDir"><Directory Id="D" Name="Example">
   <Component Id="C" Guid="6E5E2B0A-4B8C-4D2B-9E61-0C6C7D2F7F03">
    <File Id="F" Source="payload.bin" Name="payload.bin" KeyPath="yes"/>
   </Component>
  </Directory></Directory>
  <Feature Id="M" Level="1"><ComponentRef Id="C"/></Feature>
 </Product>
</Wix>
"""
SCRIPT = 'Write-Host "signed"\r\nexit 0\r\n'


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


def read(name):
    with open(name, "rb") as file:
        return file.read()


def write(name, data):
    with open(name, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)


# --- certificates


def certificates():
    def root(name, subject):
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem",
            "-days", "3650", "-subj", subject, "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def leaf(name, issuer, subject, use):
        run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr",
            "-subj", subject)
        write(f"{name}.ext", f"extendedKeyUsage={use}\nkeyUsage=critical,digitalSignature\n")
        run("openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key",
            "-CAcreateserial", "-days", "3000", "-extfile", f"{name}.ext", "-out", f"{name}.pem")

    root("root", "/C=US/O=Example Corp/CN=Example Root")
    root("other-root", "/C=US/O=Other Corp/CN=Other Root")
    leaf("signer", "root", "/C=US/O=Example Corp/CN=Example Corp", "codeSigning")
    leaf("other", "other-root", "/C=US/O=Other Corp/CN=Other Corp", "codeSigning")
    leaf("clock", "root", "/C=US/O=Example Corp/CN=Example Clock", "critical,timeStamping")


def sign(name, to, *options, by="signer", digest="sha256", stamped=True):
    stamp = ["-TSA-certs", "clock.pem", "-TSA-key", "clock.key"] if stamped else []
    if os.path.exists(to):
        os.remove(to)
    run("osslsigncode", "sign", "-certs", f"{by}.pem", "-key", f"{by}.key", "-h", digest, *options, *stamp,
        "-in", name, "-out", to)


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


# --- packages


class Package:
    """A compound file, to be damaged."""

    def __init__(self, data):
        self.data = bytearray(data)
        self.size = 1 << struct.unpack_from("<H", data, 30)[0]
        self.parts = [n for n in struct.unpack_from("<109I", data, 76) if n != FREE]
        following = struct.unpack_from("<I", data, 68)[0]
        while following < 0xFFFFFFFA:
            *more, following = struct.unpack_from(f"<{self.size // 4}I", data, self.at(following))
            self.parts += [n for n in more if n != FREE]
        self.fat = [n for part in self.parts for n in struct.unpack_from(f"<{self.size // 4}I", data, self.at(part))]

    def at(self, sector):
        return (sector + 1) * self.size

    def set(self, sector, following):
        part, index = divmod(sector, self.size // 4)
        struct.pack_into("<I", self.data, self.at(self.parts[part]) + 4 * index, following)
        self.fat[sector] = following

    def count(self):
        return len(self.data) // self.size - 1

    def chain(self, sector):
        found = []
        while sector < 0xFFFFFFFA:
            found.append(sector)
            sector = self.fat[sector]
        return found

    def entry(self, wanted):
        """The offset of a stream's entry in the directory."""
        for sector in self.chain(struct.unpack_from("<I", self.data, 48)[0]):
            for at in range(self.at(sector), self.at(sector) + self.size, 128):
                length = struct.unpack_from("<H", self.data, at + 64)[0]
                if self.data[at:at + max(length - 2, 0)].decode("utf-16le") == wanted:
                    return at
        sys.exit(f"the package has no stream {wanted!r}")

    def set_free(self, payload):
        """Moves a sector to the end of the file; where it was is free and holds the payload."""
        new = self.count()
        before = next(n for n, following in enumerate(self.fat) if following < new and following not in self.parts)
        old = self.fat[before]
        self.data += self.data[self.at(old):self.at(old) + self.size]
        self.set(new, self.fat[old])
        self.set(before, new)
        self.set(old, FREE)
        self.data[self.at(old):self.at(old) + self.size] = payload.ljust(self.size, b"\0")

    def grow(self):
        """One more sector of the allocation table."""
        number = self.count()
        self.data += b"\xff" * self.size
        struct.pack_into("<I", self.data, 76 + 4 * len(self.parts), number)
        self.parts.append(number)
        struct.pack_into("<I", self.data, 44, len(self.parts))
        self.fat += [FREE] * (self.size // 4)
        self.set(number, 0xFFFFFFFD)

    def append_sector(self, payload):
        """A sector that is not free, and that no stream has; returns its number."""
        if self.count() >= len(self.fat):
            self.grow()
        self.data += payload.ljust(self.size, b"\0")
        self.set(self.count() - 1, END)
        return self.count() - 1

    def append_sectors(self, payload):
        """A chain of sectors at the end of the file; returns its first."""
        parts = [payload[at:at + self.size] for at in range(0, len(payload), self.size)]
        chain = [self.append_sector(part) for part in parts]
        for sector, following in zip(chain, chain[1:]):
            self.set(sector, following)
        return chain[0]

    def small_sectors(self, payload):
        """More small sectors, which no stream has."""
        root = self.entry("Root Entry")
        start, length = struct.unpack_from("<II", self.data, root + 116)
        chain = self.chain(start)
        more = self.append_sectors(payload.ljust(self.size, b"\0"))
        self.set(chain[-1], more)
        struct.pack_into("<I", self.data, root + 120, len(chain) * self.size + self.size)

    def blank_entry(self):
        """The offset of an entry of the directory that is nobody's."""
        for sector in self.chain(struct.unpack_from("<I", self.data, 48)[0]):
            for at in range(self.at(sector), self.at(sector) + self.size, 128):
                if self.data[at + 66] == 0:
                    return at
        more = self.append_sectors(bytes(self.size))
        self.set(self.chain(struct.unpack_from("<I", self.data, 48)[0])[-1], more)
        return self.at(more)

    def orphan(self, payload):
        """A stream that stands in no storage."""
        at, name = self.blank_entry(), "Orphan".encode("utf-16le")
        start = self.append_sectors(payload.ljust(4096, b"\0"))
        self.data[at:at + 128] = (name.ljust(64, b"\0") + struct.pack("<HBBIII", len(name) + 2, 2, 1, FREE, FREE, FREE)
                                  + bytes(36) + struct.pack("<III", start, 4096, 0))

    def in_entry(self, payload):
        """Bytes in an entry of the directory that is nobody's."""
        at = self.blank_entry()
        self.data[at:at + len(payload)] = payload

    def in_table(self, payload):
        """Bytes in the table of small sectors, behind what it says of them."""
        table = self.chain(struct.unpack_from("<I", self.data, 60)[0])
        more = self.append_sectors(payload.ljust(self.size, b"\xff"))
        self.set(table[-1], more)
        struct.pack_into("<I", self.data, 64, len(table) + 1)

    def miscounted(self):
        """A header that knows fewer sectors of the table of small sectors than there are."""
        struct.pack_into("<I", self.data, 64, struct.unpack_from("<I", self.data, 64)[0] - 1)

    def behind_name(self, payload):
        """Bytes behind a name in the directory, up to the end of its field."""
        at = self.entry("\x05SummaryInformation")
        length = struct.unpack_from("<H", self.data, at + 64)[0]
        assert len(payload) <= 64 - length
        self.data[at + length:at + length + len(payload)] = payload

    def behind_stream(self, payload):
        """Bytes in the last sector of a stream, behind its end."""
        places, length = self.places("\x05SummaryInformation")
        at, size = places[-1]
        used = length - size * (len(places) - 1)
        assert used + len(payload) <= size, (used, size)
        self.data[at + used:at + used + len(payload)] = payload

    def shared(self):
        """Two streams that begin in one sector."""
        ours, other = self.entry("\x05DigitalSignature"), self.data.index(b"MSCF") // self.size - 1
        for sector in self.chain(struct.unpack_from("<I", self.data, 48)[0]):
            for at in range(self.at(sector), self.at(sector) + self.size, 128):
                if struct.unpack_from("<I", self.data, at + 116)[0] == other and self.data[at + 66] == 2:
                    self.data[at + 116:at + 120] = self.data[ours + 116:ours + 120]
                    return
        sys.exit("no stream holds the cabinet")

    def places(self, wanted):
        """Where a stream's parts are: offsets, each up to the end of its sector or small sector; and the length."""
        start, length = struct.unpack_from("<II", self.data, self.entry(wanted) + 116)
        if length >= 4096:
            return [(self.at(sector), self.size) for sector in self.chain(start)], length
        root = self.chain(struct.unpack_from("<I", self.data, self.entry("Root Entry") + 116)[0])
        table = [n for part in self.chain(struct.unpack_from("<I", self.data, 60)[0])
                 for n in struct.unpack_from(f"<{self.size // 4}I", self.data, self.at(part))]
        found = []
        while start < 0xFFFFFFFA:
            found.append((self.at(root[start * 64 // self.size]) + start * 64 % self.size, 64))
            start = table[start]
        return found, length

    def stream(self, wanted):
        places, length = self.places(wanted)
        return b"".join(self.data[at:at + size] for at, size in places)[:length]

    def behind_signature(self, payload):
        """The signature's stream gets longer by what has room in its last sector."""
        places, length = self.places("\x05DigitalSignature")
        at, size = places[-1]
        room = size * len(places) - length
        assert len(payload) <= room, (length, room)
        self.data[at + size - room:at + size - room + len(payload)] = payload
        struct.pack_into("<I", self.data, self.entry("\x05DigitalSignature") + 120, length + len(payload))


def roomy(name, *options):
    """Signs so that bytes have room behind the signature in its last sector."""
    for more in range(1, 40):
        sign("unsigned.msi", name, *options, "-n", "Example".ljust(7 + more, "!"))
        places, length = Package(read(name)).places("\x05DigitalSignature")
        if sum(size for _, size in places) - length >= 4:
            return
    sys.exit(f"{name}: no signature leaves room behind it")


def packages():
    write("package.wxs", WXS)
    run("wixl", "-o", "unsigned.msi", "package.wxs")
    roomy("plain.msi")
    roomy("extended.msi", "-add-msi-dse")
    sign("unsigned.msi", "sha384.msi", "-add-msi-dse", digest="sha384")
    sign("unsigned.msi", "sha1.msi", "-add-msi-dse", digest="sha1")
    sign("unsigned.msi", "other.msi", by="other")
    # two signatures: SHA-1 for old systems, SHA-256 nested in it; and one nested signature of another publisher
    sign("unsigned.msi", "sha1-only.msi", digest="sha1")
    sign("sha1-only.msi", "dual.msi", "-nest")
    sign("sha1-only.msi", "dual-other.msi", "-nest", by="other")

    def damaged(name, damage, change):
        package = Package(read(f"{name}.msi"))
        write(f"{name}.msi~{damage}", change(package) or bytes(package.data))

    for name in ["plain", "extended"]:
        damaged(name, "stream", lambda p: flipped(p.data, p.data.index(b"MSCF") + 100))
        damaged(name, "state", lambda p: flipped(p.data, p.entry("\x05SummaryInformation") + 96))
        damaged(name, "time", lambda p: flipped(p.data, p.entry("\x05SummaryInformation") + 100))
        damaged(name, "truncated", lambda p: p.data[:-p.size])
        damaged(name, "cut", lambda p: p.data[:len(p.data) // 2 + 100])
        damaged(name, "appended", lambda p: p.data + b"PK\x05\x06" + bytes(18))
        damaged(name, "zeros", lambda p: p.data + bytes(p.size))
        damaged(name, "free-zero", lambda p: p.set_free(b""))
        damaged(name, "free", lambda p: p.set_free(b"payload"))
        damaged(name, "unowned", lambda p: p.append_sector(b"payload") and None)
        damaged(name, "small", lambda p: p.small_sectors(b"payload"))
        damaged(name, "orphan", lambda p: p.orphan(b"payload"))
        damaged(name, "entry", lambda p: p.in_entry(b"payload"))
        damaged(name, "table", lambda p: p.in_table(b"payload!"))
        damaged(name, "shared", lambda p: p.shared())
        damaged(name, "miscounted", lambda p: p.miscounted())
        damaged(name, "behind-name", lambda p: p.behind_name(b"PK\x05\x06"))
        damaged(name, "behind-stream", lambda p: p.behind_stream(b"PK\x05\x06"))
        damaged(name, "many-small", lambda p: [p.small_sectors(b"payload!" * 64) for _ in range(140)] and None)
        damaged(name, "behind", lambda p: p.behind_signature(b"\0\0\0\1"))
        damaged(name, "header", lambda p: flipped(p.data, 36))
    # one byte of MsiDigitalSignatureEx itself
    extended = read("extended.msi")
    package = Package(extended)
    write("extended.msi~digest", flipped(extended, package.places("\x05MsiDigitalSignatureEx")[0][0][0]))
    # under another name it is a stream like any other, and the first of them
    at = package.entry("\x05MsiDigitalSignatureEx")
    write("extended.msi~renamed", flipped(extended, at + 2 + 2 * len("MsiDigital")))


# --- cabinets


def cabinets():
    write("hello.txt", "hello\n")
    run("gcab", "-c", "unsigned.cab", "hello.txt", "payload.bin")
    sign("unsigned.cab", "signed.cab")
    sign("unsigned.cab", "other.cab", by="other")
    sign("unsigned.cab", "sha1.cab", digest="sha1")
    sign("sha1.cab", "dual.cab", "-nest")
    good = read("signed.cab")
    offset, size = struct.unpack_from("<II", good, 44)

    def with_size(data, extra):
        return data[:48] + struct.pack("<I", size + extra) + data[52:]

    write("signed.cab~stream", flipped(good, 2000))
    write("signed.cab~header", flipped(good, 32))
    write("signed.cab~truncated", good[:-16])
    write("signed.cab~cut", good[:3000])
    write("signed.cab~appended", good + b"tail")
    write("signed.cab~behind", with_size(good + b"PADDING!", 8))
    write("signed.cab~zeros", with_size(good + bytes(8), 8))
    write("signed.cab~reserve", flipped(good, 53))
    write("signed.cab~folders", flipped(good, 38))
    write("signed.cab~set", flipped(good, 34))
    between = good[:44] + struct.pack("<I", offset + 8) + good[48:offset] + b"between!" + good[offset:]
    write("signed.cab~between", between)


# --- scripts


def scripts():
    plain = SCRIPT.encode()
    write("unsigned.ps1", plain)
    for name in ["signed.ps1", "module.psm1", "data.psd1"]:
        write("unsigned" + name[name.index("."):], plain)
        sign("unsigned" + name[name.index("."):], name)
    write("unsigned-mark.ps1", b"\xef\xbb\xbf" + 'Write-Host "größer"\r\n'.encode())
    sign("unsigned-mark.ps1", "mark.ps1")
    write("unsigned-utf8.ps1", 'Write-Host "größer"\r\n')
    sign("unsigned-utf8.ps1", "utf8.ps1")
    write("unsigned-wide.ps1", b"\xff\xfe" + 'Write-Host "größer 𝄞"\r\n'.encode("utf-16le"))
    sign("unsigned-wide.ps1", "wide.ps1")
    write("unsigned-lf.ps1", plain.replace(b"\r\n", b"\n"))
    sign("unsigned-lf.ps1", "lf.ps1")
    write("unsigned.ps1xml", '<?xml version="1.0"?>\r\n<Types/>\r\n')
    sign("unsigned.ps1xml", "format.ps1xml")
    write("unsigned-utf8.ps1xml", '<?xml version="1.0"?>\r\n<Types>größer</Types>\r\n')
    sign("unsigned-utf8.ps1xml", "utf8.ps1xml")
    sign("unsigned.ps1", "other.ps1", by="other")

    good = read("signed.ps1")
    block = good.index(b"\r\n# SIG # Begin")
    write("signed.ps1~text", flipped(good, 15))
    write("signed.ps1~appended", good + b"Remove-Item C:\\ -Recurse\r\n")
    write("signed.ps1~blank", good + b"\r\n")
    write("signed.ps1~lf", good.replace(b"\r\n", b"\n"))
    write("signed.ps1~text-lf", good[:block].replace(b"\r\n", b"\n") + good[block:])
    write("signed.ps1~two", good + good[block:])
    write("signed.ps1~truncated", good[:-300])
    write("signed.ps1~stripped", good[:block])
    write("signed.ps1~base64", good.replace(b"# MII", b"# M!I", 1))
    write("signed.ps1~code", good.replace(b"# MII", b"Remove-Item\r\n# MII", 1))
    write("signed.ps1~headless", good.replace(b"# SIG # Begin signature block\r\n", b""))
    write("signed.ps1~ansi", good.replace(b"signed", b"sign\xe9d", 1))
    write("signed.ps1~no-end", good.rstrip())


# --- catalogs


def block(key, value, *children, text=False):
    """A block of VERSIONINFO."""
    head = (key + "\0").encode("utf-16le")
    body = head.ljust((len(head) + 6 + 3) // 4 * 4 - 6, b"\0") + value
    for child in children:
        body = body.ljust((len(body) + 6 + 3) // 4 * 4 - 6, b"\0") + child
    length = len(value) // 2 if text else len(value)
    return struct.pack("<3H", len(body) + 6, length, text) + body


def versioned(product, name, version, again=None):
    """A program that says which product it is, as which file it was made, and its version; `again` in a second language."""
    a, b, c, d = version
    fixed = struct.pack("<13I", 0xFEEF04BD, 0x10000, a << 16 | b, c << 16 | d, a << 16 | b, c << 16 | d, 63, 0, 4, 1, 0, 0, 0)

    def strings(product):
        both = [block(key, (text + "\0").encode("utf-16le"), text=True)
                for key, text in [("ProductName", product), ("OriginalFilename", name)]]
        info = block("StringFileInfo", b"", block("040904b0", b"", *both, text=True), text=True)
        return block("VS_VERSION_INFO", fixed, info)

    infos = [strings(product)] + ([strings(again)] if again else [])
    leaves = 16 + 8 + 16 + 8 + 16 + 8 * len(infos)
    data = leaves + 16 * len(infos)
    tree = struct.pack("<IIHHHH", 0, 0, 0, 0, 0, 1) + struct.pack("<II", 16, 0x80000000 | 24)
    tree += struct.pack("<IIHHHH", 0, 0, 0, 0, 0, 1) + struct.pack("<II", 1, 0x80000000 | 48)
    tree += struct.pack("<IIHHHH", 0, 0, 0, 0, 0, len(infos))
    tree += b"".join(struct.pack("<II", 0x409 + n, leaves + 16 * n) for n in range(len(infos)))
    content = b""
    for info in infos:
        content = content.ljust((len(content) + 3) // 4 * 4, b"\0")
        tree += struct.pack("<IIII", 0x2000 + data + len(content), len(info), 0, 0)
        content += info
    resources = tree + content
    size = (len(resources) + 511) // 512 * 512
    program = bytearray(image())
    struct.pack_into("<H", program, 0x80 + 6, 2)
    optional = 0x80 + 24
    struct.pack_into("<I", program, optional + 56, 0x3000)
    struct.pack_into("<II", program, optional + 112 + 16, 0x2000, len(resources))
    section = b".rsrc\0\0\0" + struct.pack("<IIIIIIHHI", len(resources), 0x2000, size, len(program), 0, 0, 0, 0, 0x40000040)
    program[optional + 240 + 40:optional + 240 + 80] = section
    return bytes(program) + resources.ljust(size, b"\0")


def programs():
    """Programs of one publisher, and packages: its tool, an older one, another, and one that says nothing."""
    for name, content in {
        "tool.exe": versioned("Example Tool", "tool.exe", (2, 3, 4, 0)),
        "tool.exe~older": versioned("Example Tool", "tool.exe", (2, 2, 9, 9)),
        "tool.exe~other": versioned("Example Other", "tool.exe", (9, 0, 0, 0)),
        "tool.exe~called": versioned("Example Tool", "other.exe", (9, 0, 0, 0)),
        "tool.exe~twice": versioned("Example Tool", "tool.exe", (2, 3, 4, 0), again="Example Other"),
        "tool.exe~silent": image(),
    }.items():
        write("unsigned", content)
        sign("unsigned", name)


def image():
    """A driver's PE file: headers and one section."""
    pe = 0x80
    dos = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", pe)
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x22)
    optional = struct.pack("<HBBIIIIIQIIHHHHHHIIIIHHQQQQII", 0x20B, 14, 0, 0x200, 0, 0, 0x1000, 0x1000, 0x140000000,
                           0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0, 0x2000, 0x200, 0, 1, 0, 1 << 20, 1 << 12, 1 << 20,
                           1 << 12, 0, 16) + bytes(128)
    section = b".text\0\0\0" + struct.pack("<IIIIIIHHI", 0x200, 0x1000, 0x200, 0x200, 0, 0, 0, 0, 0x60000020)
    headers = dos.ljust(pe, b"\0") + coff + optional + section
    return headers.ljust(0x200, b"\0") + b"\xc3".ljust(0x200, b"\xcc")


def catalog(name, members, **options):
    write(name, trust_list(members, **options))


def catalogs():
    driver, text = image(), b"[Version]\r\nSignature=\"$WINDOWS NT$\"\r\n"
    write("driver.sys", driver)
    write("driver.inf", text)
    write("driver.sys~byte", flipped(driver, 0x201))
    write("driver.inf~byte", flipped(text, 3))
    write("stranger.txt", "nobody named me\n")
    # a driver that is signed itself, too; what follows its own signature is in no digest
    sign("driver.sys", "embedded.sys", by="other")
    write("driver.sys~embedded", read("embedded.sys"))
    write("driver.sys~appended", read("embedded.sys") + b"PAYLOAD!")

    def both(algorithm):
        return [member(image_digest(driver, algorithm), algorithm, True, "driver.sys"),
                member(hashlib.new(algorithm, text).digest(), algorithm, False, "driver.inf")]

    catalog("unsigned.cat", both("sha1") + both("sha256"))
    catalog("unsigned-sha1.cat", both("sha1"))
    catalog("unsigned-sha384.cat", both("sha384"))
    catalog("unsigned-list.cat", both("sha256"), usage="1.3.6.1.4.1.311.10.3.9")
    def tags(algorithm):
        return [tagged(image_digest(driver, algorithm), True, "driver.sys"),
                tagged(hashlib.new(algorithm, text).digest(), False, "driver.inf")]

    catalog("unsigned-tags.cat", tags("sha1") + tags("sha256"), kind="1.3.6.1.4.1.311.12.1.3")
    catalog("unsigned-tags-sha1.cat", tags("sha1"), kind="1.3.6.1.4.1.311.12.1.3")
    # the bytes of the image as a flat file, and the other way round
    catalog("unsigned-kinds.cat", [
        member(hashlib.sha256(driver).digest(), "sha256", False, "driver.sys"),
        member(hashlib.sha256(text).digest(), "sha256", True, "driver.inf"),
    ])
    for name in ["", "-sha1", "-sha384", "-list", "-kinds", "-tags", "-tags-sha1"]:
        sign(f"unsigned{name}.cat", f"signed{name}.cat")
    sign("unsigned.cat", "other.cat", by="other")
    sign("unsigned.cat", "unstamped.cat", stamped=False)
    # a folder may have two catalogs, each for a part of it; and one of another driver
    catalog("unsigned-image.cat", both("sha256")[:1])
    catalog("unsigned-text.cat", both("sha256")[1:])
    catalog("unsigned-stranger.cat", [member(hashlib.sha256(b"nobody named me\n").digest(), "sha256", False, "stranger.sys")])
    for name in ["image", "text", "stranger"]:
        sign(f"unsigned-{name}.cat", f"{name}.cat")
    sign("unsigned.cat", "weak.cat", digest="sha1")
    good = read("signed.cat")
    write("signed.cat~member", flipped(good, good.index(hashlib.sha256(text).digest())))
    write("signed.cat~truncated", good[:-100])
    write("signed.cat~appended", good + b"tail")
    # a second opinion of the membership itself
    run("osslsigncode", "verify", "-in", "driver.sys", "-catalog", "signed.cat", "-CAfile", "root.pem",
        "-TSA-CAfile", "root.pem", "-ignore-crl", "-ignore-cdp")


def main():
    if sys.argv[1] == "--stream":
        sys.stdout.buffer.write(Package(read(sys.argv[2])).stream(sys.argv[3]))
        return
    if sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    write("payload.bin", random.Random(1).randbytes(9000))
    certificates()
    packages()
    cabinets()
    scripts()
    catalogs()
    programs()


main()
