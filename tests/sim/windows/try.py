#!/usr/bin/env python3
"""Boots the stand-in's ISO in QEMU and says how it ended: the agent answered, or a screen that stays.

    try.py ISO [--virtio-iso F] [--answer F] [--set OLD=NEW]... [--firmware uefi|bios] [--disk ahci|nvme|virtio|scsi]
           [--nic e1000e|virtio-net-pci|vmxnet3] [--prompt ignore|key|overlay] [--keep DIR] [--deadline S] [--serial F] [--then WHAT]...

WHAT is a command line for cmd.exe in the guest, or one of
    !cd FILE          change the medium of the last CD drive (an empty FILE: take it out)
    !restart          wait until the agent's port opens again
    !off              wait until the machine is off
    !key NAME         press a key
    !agent NAME JSON  any other command of the agent

For the developer of the stand-in; winimg's own build is the real user. Exit code 0: agent; 3: a screen stays (its
picture is in DIR/screen.png); 4: the deadline passed.
"""
import argparse, base64, json, os, shutil, socket, struct, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))


class Lines:
    """JSON lines over a Unix socket, with deadlines."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.buffer = b""

    def send(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, timeout):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                chunk = self.socket.recv(65536)
            except TimeoutError:
                return None
            if not chunk:
                raise EOFError
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line.strip(b"\xff") or b"{}")


class Qmp(Lines):
    def __init__(self, path):
        super().__init__(path)
        self.events = []
        self.receive(10)
        self.call("qmp_capabilities")

    def call(self, name, **arguments):
        self.send({"execute": name, "arguments": arguments})
        while True:
            reply = self.receive(20)
            if reply is None:
                raise TimeoutError(name)
            if "event" in reply:
                self.events.append(reply)
            else:
                return reply.get("return", reply)

    def poll(self, timeout):
        reply = self.receive(timeout)
        if reply and "event" in reply:
            self.events.append(reply)


def agent_call(agent, name, **arguments):
    agent.send({"execute": name, "arguments": arguments} if arguments else {"execute": name})
    try:
        return agent.receive(30)
    except (EOFError, ConnectionResetError):
        return "no answer: QEMU is gone"


def agent_run(agent, line):
    reply = agent_call(agent, "guest-exec", path=r"C:\Windows\System32\cmd.exe", arg=["/c", line], **{"capture-output": True})
    if not reply or "return" not in reply:
        return f"{line}: {reply}"
    while True:
        state = agent_call(agent, "guest-exec-status", pid=reply["return"]["pid"])["return"]
        if state["exited"]:
            text = b"".join(base64.b64decode(state.get(key, "")) for key in ("out-data", "err-data"))
            return f"> {line}\n{text.decode(errors='replace')}({state.get('exitcode')})"
        time.sleep(0.05)


def follow(args, work, process, qmp, agent, what):
    """One --then."""
    word, _, rest = what.partition(" ")
    if word == "!cd" and rest:
        print(what, qmp.call("blockdev-change-medium", id=f"cdrom{args.cds - 1}", filename=rest, format="raw"))
        time.sleep(1)
    elif word == "!cd":
        print(what, qmp.call("eject", id=f"cdrom{args.cds - 1}", force=True))
        time.sleep(1)
    elif word == "!key":
        print(what, qmp.call("send-key", keys=[{"type": "qcode", "data": rest}]))
    elif word == "!agent":
        name, _, arguments = rest.partition(" ")
        print(what, agent_call(agent, name, **json.loads(arguments or "{}")))
    elif word == "!restart":
        while not any(event["event"] == "RESET" for event in qmp.events):
            qmp.poll(60)
        qmp.events.clear()
        code = watch(args, work, process, qmp)
        if code:
            sys.exit(code)
    elif word == "!off":
        print(f"QEMU ended with {process.wait(60)}")
    else:
        print(agent_run(agent, what), flush=True)


def answer_cd(args, work):
    root = os.path.join(work, "cd")
    os.makedirs(os.path.join(root, "winimg"))
    with open(args.answer or os.path.join(HERE, "answers", f"{args.firmware}.xml")) as file:
        text = file.read()
    for change in args.set:
        old, new = change.split("=>", 1)
        if old not in text:
            sys.exit(f"try.py: {old!r} is not in the answer file")
        text = text.replace(old, new)
    with open(os.path.join(root, "Autounattend.xml"), "w") as file:
        file.write(text)
    for name in os.listdir(os.path.join(HERE, "payload")):
        shutil.copy(os.path.join(HERE, "payload", name), os.path.join(root, "winimg"))
    out = os.path.join(work, "answer.iso")
    subprocess.run(["genisoimage", "-quiet", "-J", "-V", "PROVISION", "-o", out, root], check=True)
    return out


def without_prompt(iso, work):
    """An overlay whose El Torito EFI entry points at the medium's own image without the prompt."""
    with open(iso, "rb") as file:
        data = file.read()
    sector = lambda n: data[n * 2048:(n + 1) * 2048]
    catalogue = struct.unpack_from("<I", sector(17), 0x47)[0]
    entry = bytearray(sector(catalogue))
    at = next(i for i in range(64, 2048, 32) if entry[i] == 0x88)
    prompt = struct.unpack_from("<I", entry, at + 8)[0]
    size = 1440 * 1024
    start = next(n for n in range(len(data) // 2048)
                 if n != prompt and sector(n)[:3] == sector(prompt)[:3] and sector(n)[54:62] == b"FAT12   "
                 and n * 2048 + size <= len(data))
    struct.pack_into("<I", entry, at + 8, start)
    overlay = os.path.join(work, "noprompt.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", os.path.abspath(iso), "-F", "raw", overlay], check=True)
    subprocess.run(["qemu-io", "-c", f"write -q -s {raw(bytes(entry), work)} {catalogue * 2048} 2048", overlay], check=True)
    return overlay, "qcow2"


def raw(data, work):
    path = os.path.join(work, "sector")
    with open(path, "wb") as file:
        file.write(data)
    return path


def qemu(args, work):
    cd, kind = without_prompt(args.iso, work) if args.prompt == "overlay" and args.firmware == "uefi" else (args.iso, "raw")
    disk = os.path.join(work, "disk.qcow2")
    if not os.path.exists(disk):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "64G"], check=True)
    device = {"ahci": ["-device", "ide-hd,drive=disk,bus=ide.0,bootindex=1"],
              "nvme": ["-device", "nvme,drive=disk,serial=1,bootindex=1"],
              "virtio": ["-device", "virtio-blk-pci,drive=disk,bootindex=1"],
              "scsi": ["-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=disk,bootindex=1"]}[args.disk]
    first, second = (2, 1) if args.cd_first else (1, 2)
    device = [part.replace("bootindex=1", f"bootindex={first}") for part in device]
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
               "-smp", "2", "-m", "1024", "-vga", "std", "-display", "none", "-rtc", "base=utc",
               "-nic", f"user,restrict=on,model={args.nic}" if args.nic else "none",
               "-qmp", f"unix:{work}/qmp,server=on,wait=off", "-serial", f"file:{args.serial or work + '/serial'}",
               "-drive", f"if=none,id=disk,format=qcow2,file={disk},discard=unmap,cache=unsafe", *device,
               "-device", "virtio-serial-pci", "-chardev", f"socket,id=qga,path={work}/qga,server=on,wait=off",
               "-device", "virtserialport,chardev=qga,name=org.qemu.guest_agent.0,id=agent"]
    if args.firmware == "uefi":
        variables = os.path.join(work, "vars.fd")
        if not os.path.exists(variables):
            shutil.copy("/usr/share/OVMF/OVMF_VARS_4M.fd", variables)
        command += ["-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
                    "-drive", f"if=pflash,format=raw,unit=1,file={variables}"]
    cds = [(cd, kind, f",bootindex={second}")] + [(path, "raw", "") for path in [answer_cd(args, work), args.virtio_iso] if path]
    args.cds = len(cds)
    for index, (path, form, boot) in enumerate(cds):
        command += ["-drive", f"if=none,id=cd{index},media=cdrom,readonly=on,format={form},file={path}",
                    "-device", f"ide-cd,drive=cd{index},id=cdrom{index},bus=ide.{index + 1}{boot}"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


def connect(path, kind):
    end = time.monotonic() + 10
    while True:
        try:
            return kind(path)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def watch(args, work, process, qmp):
    start = time.monotonic()
    still, last, pressed = start, None, False
    shot = os.path.join(work, "screen.png")
    keys = sorted((float(after), name) for after, name in (text.split("=") for text in args.key_at))
    while time.monotonic() - start < args.deadline and process.poll() is None:
        qmp.poll(0.5)
        while keys and time.monotonic() - start > keys[0][0]:
            qmp.call("send-key", keys=[{"type": "qcode", "data": keys.pop(0)[1]}])
        for event in qmp.events:
            if event["event"] == "VSERPORT_CHANGE" and event["data"]["open"]:
                print(f"agent's port open after {time.monotonic() - start:.1f} s", flush=True)
                return 0
            if event["event"] in ("RESET", "SHUTDOWN"):
                print(f"{event['event']} after {time.monotonic() - start:.1f} s", flush=True)
        qmp.events.clear()
        if args.prompt == "key" and not pressed and args.firmware == "uefi":
            with open(args.serial or work + "/serial", "rb") as file:
                if b"Press any key" in file.read():
                    qmp.call("send-key", keys=[{"type": "qcode", "data": "up"}])
                    pressed = True
        qmp.call("screendump", filename=shot, format="png")
        with open(shot, "rb") as file:
            now = file.read()
        if now != last:
            last, still = now, time.monotonic()
        elif time.monotonic() - still > args.still:
            print(f"screen still since {still - start:.1f} s: {shot}")
            return 3
    return 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("iso")
    parser.add_argument("--virtio-iso")
    parser.add_argument("--nic")
    parser.add_argument("--answer")
    parser.add_argument("--set", action="append", default=[], help="OLD=>NEW in the answer file")
    parser.add_argument("--firmware", choices=["uefi", "bios"], default="uefi")
    parser.add_argument("--disk", choices=["ahci", "nvme", "virtio", "scsi"], default="ahci")
    parser.add_argument("--prompt", choices=["ignore", "key", "overlay"], default="overlay")
    parser.add_argument("--keep")
    parser.add_argument("--cd-first", action="store_true", help="the firmware tries the CD before the disk")
    parser.add_argument("--key-at", action="append", default=[], metavar="S=NAME", help="press a key after S seconds")
    parser.add_argument("--deadline", type=float, default=240)
    parser.add_argument("--still", type=float, default=40, help="seconds after which a screen counts as one that stays")
    parser.add_argument("--serial")
    parser.add_argument("--then", action="append", default=[])
    args = parser.parse_args()
    work = args.keep or tempfile.mkdtemp(prefix="standin-try.")
    os.makedirs(work, exist_ok=True)
    shutil.rmtree(os.path.join(work, "cd"), ignore_errors=True)
    process = qemu(args, work)
    try:
        qmp = connect(f"{work}/qmp", Qmp)
        code = watch(args, work, process, qmp)
        if code == 0:
            agent = connect(f"{work}/qga", Lines)
            print(agent_call(agent, "guest-sync", id=os.getpid()))
            for what in args.then:
                follow(args, work, process, qmp, agent, what)
            if process.poll() is None:
                qmp.call("screendump", filename=f"{work}/screen.png", format="png")
        print(work)
        return code
    finally:
        process.kill()
        process.wait()


sys.exit(main())
