"""Reads a VMA as Proxmox does, and refuses what its reader or qmrestore refuses: `vma.py ARCHIVE FOLDER [--dissect]`.

Writes each device into the folder and prints the configuration. With --dissect the devices are those that dissect.archive finds.
Sources: pve-qemu: vma_spec.txt, vma-reader.c; qemu-server: PVE/QemuServer.pm (parse_backup_hints, restore_update_config_line).
"""

import hashlib
import re
import struct
import sys
from pathlib import Path

BLOCK, CLUSTER, FIXED = 4096, 65536, 12288


def need(holds, why):
    if not holds:
        sys.exit(f"{sys.argv[1]}: {why}")


def sum_holds(head, at):
    blank = head[:at] + bytes(16) + head[at + 16 :]
    return hashlib.md5(blank).digest() == head[at : at + 16]


def read_head(file):
    head = file.read(FIXED)
    need(len(head) == FIXED and head[:4] == b"VMA\0", "no header")
    version, = struct.unpack_from(">I", head, 4)
    start, length, size = struct.unpack_from(">III", head, 48)
    need(version == 1, "another version")
    need(size > FIXED and size % 512 == 0, "the header's size is wrong")
    head += file.read(size - FIXED)
    need(len(head) == size and sum_holds(head, 32), "the header's sum is wrong")
    need(start >= FIXED and start + length <= size, "the texts lie outside the header")
    need(not any(head[60:2044]) and not any(head[4092:4128]), "what is reserved is in use")
    texts, at = {}, 1
    while at + 2 <= length:
        n, = struct.unpack_from("<H", head, start + at)
        need(at + 2 + n <= length, "a text is cut short")
        texts[at] = head[start + at + 2 : start + at + 2 + n]
        at += 2 + n
    return head, texts


def name_of(texts, at):
    need(at in texts and texts[at].endswith(b"\0"), "a name is missing or has no end")
    return texts[at][:-1].decode()


def devices_of(head, texts):
    found = {}
    for number in range(1, 256):
        name, _, size = struct.unpack_from(">IIQ", head, 4096 + 32 * number)
        if name or size:
            need(size, "a device without a size")
            found[number] = (name_of(texts, name), size)
    need(found, "no device")
    return found


def config_of(head, texts):
    configs = {}
    for n in range(256):
        name, data = (struct.unpack_from(">I", head, at + 4 * n)[0] for at in (2044, 3068))
        if name and data:
            need(data in texts, "a configuration is missing")
            configs[name_of(texts, name)] = texts[data].decode()
    need(list(configs) == ["qemu-server.conf"], "not the one configuration")
    return configs["qemu-server.conf"]


def read_extents(file, archive, devices, outs):
    seen = {number: set() for number in devices}
    while head := file.read(512):
        need(len(head) == 512 and head[:4] == b"VMAE", "no extent where one should begin")
        need(head[8:24] == archive, "an extent of another archive")
        need(sum_holds(head, 24), "an extent's sum is wrong")
        count, stored = struct.unpack_from(">H", head, 6)[0], 0
        for info in struct.unpack_from(">59Q", head, 40):
            mask, number, cluster = info >> 48, info >> 32 & 0xFF, info & 0xFFFFFFFF
            need(info >> 40 & 0xFF == 0, "what is reserved is in use")
            if not number:
                need(info == 0, "a cluster of no device")
                continue
            need(number in devices, "a cluster of an unknown device")
            need(cluster not in seen[number], "a cluster twice")
            seen[number].add(cluster)
            for block in range(16):
                if not mask >> block & 1:
                    continue
                at = cluster * CLUSTER + block * BLOCK
                need(at < devices[number][1], "a block beyond the device's end")
                content = file.read(BLOCK)
                need(len(content) == BLOCK, "an extent is cut short")
                need(any(content), "a block of zeros is stored")
                outs[number].seek(at)
                outs[number].write(content[: devices[number][1] - at])
                stored += 1
        need(stored == count, "an extent's number of blocks is wrong")
    for number, (name, size) in devices.items():
        need(seen[number] == set(range(-(-size // CLUSTER))), f"missing clusters of {name}")


def judge_config(config, devices):
    """What qmrestore makes of it: every disk's line is found by its map, and every device has one."""
    maps = {}
    for line in config.splitlines():
        if found := re.fullmatch(r"#qmdump#map:(\S+):(\S+):(\S*):(\S*):", line):
            maps[found[1]] = found[2]
        else:
            need(re.fullmatch(r"[a-z0-9]+: \S.*", line), f"no line of a configuration: {line}")
    disks = re.findall(r"^((?:ide|scsi|virtio|sata|efidisk|tpmstate)\d+):\s*(\S+)\s*$", config, re.M)
    need({name for name, _ in disks} == set(maps), "a disk without a map")
    need(set(maps.values()) == {name for name, _ in devices.values()}, "a device without a disk")
    order = re.search(r"^boot: order=(\S+)$", config, re.M)
    need(order and order[1] in maps, "it starts from no disk")
    name = re.search(r"^name: (\S+)$", config, re.M)
    need(name and re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*", name[1]), "no DNS name")


def main():
    archive, folder = Path(sys.argv[1]), Path(sys.argv[2])
    if "--dissect" in sys.argv:
        from dissect.archive.vma import VMA

        for device in (vma := VMA(archive.open("rb"))).devices():
            (folder / f"{device.name}.raw").write_bytes(device.open().read())
        print(vma.config("qemu-server.conf").decode(), end="")
        return
    with archive.open("rb") as file:
        head, texts = read_head(file)
        devices, config = devices_of(head, texts), config_of(head, texts)
        outs = {n: (folder / f"{name}.raw").open("wb") for n, (name, _) in devices.items()}
        read_extents(file, head[8:24], devices, outs)
        for number, out in outs.items():
            out.truncate(devices[number][1])
            out.close()
    judge_config(config, devices)
    print(config, end="")


main()
