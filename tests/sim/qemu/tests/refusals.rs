//! The scripted QEMU refuses what QEMU refuses; a stand-in that takes anything would prove nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-qemu"));
    command.env_remove("FAKE_QEMU_SCRIPT").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("it starts")
}

fn folder(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn command_lines_that_qemu_refuses() {
    let said: Vec<String> = [
        &["-frobnicate"][..],
        &["-no-reboot"],
        &["-machine", "q35,bogus=1"],
        &["-accel", "kvm"],
        &["-smp", "cpus=4,cores=3"],
        &["-device", "frob"],
        &["-device", "nvme,id=a"],
        &["-device", "ide-cd,id=a,drive=zz"],
        &["-drive", "if=none,id=a", "-device", "ide-hd,drive=a"],
        &["-drive", "if=none,id=a,frob=1"],
        &["-chardev", "null,id=a", "-device", "isa-serial,chardev=b"],
        &["-device", "scsi-hd,bus=hba.0"],
        &[
            "-netdev",
            "user,id=n,guestfwd=udp:10.0.2.100:80-cmd:/bin/echo",
        ],
        &["-netdev", "user,id=n,guestfwd=tcp:10.0.2.100-cmd:x"],
        &["-tpmdev", "passthrough,id=t"],
        &["-tpmdev", "emulator,id=t,chardev=c"],
        &["-device", "tpm-crb,tpmdev=t"],
    ]
    .into_iter()
    .map(|arguments| {
        let output = run(arguments);
        let code = output.status.code().unwrap_or(-1);
        format!("{code} {}", String::from_utf8_lossy(&output.stderr))
    })
    .collect();
    assert_eq!(
        said.concat(),
        "1 qemu-system-x86_64: -frobnicate: invalid option\n\
         1 qemu-system-x86_64: -no-reboot: no installation of Windows survives this option\n\
         1 qemu-system-x86_64: Property 'pc-q35-7.2-machine.bogus' not found\n\
         1 qemu-system-x86_64: invalid accelerator kvm\n\
         1 qemu-system-x86_64: Invalid CPU topology: product of the hierarchy must match maxcpus: 3 != maxcpus (4)\n\
         1 qemu-system-x86_64: -device frob: 'frob' is not a valid device model name\n\
         1 qemu-system-x86_64: -device nvme,id=a: serial property not set\n\
         1 qemu-system-x86_64: -device ide-cd: Property 'ide-cd.drive' can't find value 'zz'\n\
         1 qemu-system-x86_64: -device ide-hd: Device needs media, but drive is empty\n\
         1 qemu-system-x86_64: -drive if=none,id=a,frob=1: Invalid parameter 'frob'\n\
         1 qemu-system-x86_64: -device isa-serial: Property 'isa-serial.chardev' can't find value 'b'\n\
         1 qemu-system-x86_64: -device scsi-hd: Bus 'hba.0' not found\n\
         1 qemu-system-x86_64: -netdev user,id=n,guestfwd=udp:10.0.2.100:80-cmd:/bin/echo: Invalid guest forwarding rule 'udp:10.0.2.100:80-cmd:/bin/echo'\n\
         1 qemu-system-x86_64: -netdev user,id=n,guestfwd=tcp:10.0.2.100-cmd:x: Invalid guest forwarding rule 'tcp:10.0.2.100-cmd:x'\n\
         1 qemu-system-x86_64: -tpmdev passthrough,id=t: this stand-in has no TPM but an emulator\n\
         1 qemu-system-x86_64: -tpmdev emulator,id=t,chardev=c: tpm-emulator: tpm chardev 'c' not found\n\
         1 qemu-system-x86_64: -device tpm-crb: Property 'tpm-crb.tpmdev' can't find value 't'\n"
    );
}

/// A machine with a disk and two drives for discs, ended with the test.
struct Machine {
    child: Child,
    folder: PathBuf,
    reader: BufReader<UnixStream>,
}

fn arguments(folder: &Path) -> Vec<String> {
    let at = |name: &str| folder.join(name).display().to_string();
    let line = format!(
        "-machine q35 -drive if=none,id=disk0,format=qcow2,file={} -device virtio-blk-pci,id=disk,drive=disk0 \
         -drive if=none,id=cd1,media=cdrom,readonly=on -device ide-cd,id=answer,bus=ide.2,drive=cd1 -device virtio-serial-pci,id=channels \
         -chardev socket,id=agent,server=on,wait=off,path={} \
         -device virtserialport,bus=channels.0,chardev=agent,id=agent0,name=org.qemu.guest_agent.0 \
         -chardev socket,id=qmp,server=on,wait=off,path={} -mon chardev=qmp,mode=control -S",
        at("disk.qcow2"),
        at("agent.sock"),
        at("qmp.sock")
    );
    line.split_whitespace().map(String::from).collect()
}

impl Machine {
    fn start(folder: PathBuf) -> Self {
        let disk = folder.join("disk.qcow2");
        let made = Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2"])
            .arg(&disk)
            .arg("64M")
            .status();
        assert!(made.expect("qemu-img starts").success());
        let child = program()
            .args(arguments(&folder))
            .spawn()
            .expect("it starts");
        let deadline = Instant::now() + Duration::from_secs(20);
        let stream = loop {
            match UnixStream::connect(folder.join("qmp.sock")) {
                Ok(stream) => break stream,
                Err(e) => assert!(Instant::now() < deadline, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Self {
            child,
            folder,
            reader: BufReader::new(stream),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        line.trim_end().to_string()
    }

    fn ask(&mut self, request: &str) -> String {
        writeln!(self.reader.get_mut(), "{request}").expect("sent");
        self.line()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Errors as QEMU 7.2.22 words them.
#[test]
fn monitor_commands_that_qemu_refuses() {
    let mut machine = Machine::start(folder("monitor"));
    assert!(machine.line().starts_with("{\"QMP\":"));
    let error = |class: &str, desc: &str| {
        format!("{{\"id\":1,\"error\":{{\"class\":\"{class}\",\"desc\":\"{desc}\"}}}}")
    };
    let generic = |desc: &str| error("GenericError", desc);
    assert_eq!(
        machine.ask(r#"{"execute":"query-status","id":1}"#),
        error(
            "CommandNotFound",
            "Expecting capabilities negotiation with 'qmp_capabilities'"
        )
    );
    assert_eq!(
        machine.ask(r#"{"execute":"qmp_capabilities"}"#),
        r#"{"return":{}}"#
    );
    for (request, expected) in [
        (
            r#""frob""#,
            error("CommandNotFound", "The command frob has not been found"),
        ),
        (
            r#""screendump","arguments":{"filename":"/x/y.png","format":"png"}"#,
            generic("failed to open file '/x/y.png': No such file or directory"),
        ),
        (
            r#""screendump","arguments":{"filename":"/tmp/s","format":"jpg"}"#,
            generic("Parameter 'format' does not accept value 'jpg'"),
        ),
        (
            r#""screendump""#,
            generic("Parameter 'filename' is missing"),
        ),
        (
            r#""eject","arguments":{"id":"nope"}"#,
            error("DeviceNotFound", "Device 'nope' not found"),
        ),
        (
            r#""blockdev-change-medium","arguments":{"id":"answer","filename":"/nope.iso"}"#,
            generic("Could not open '/nope.iso': No such file or directory"),
        ),
        (
            r#""blockdev-change-medium","arguments":{"filename":"/nope.iso"}"#,
            generic("Need exactly one of 'device' and 'id'"),
        ),
        (
            r#""send-key","arguments":{"keys":[{"type":"qcode","data":"zork"}]}"#,
            generic("Parameter 'data' does not accept value 'zork'"),
        ),
        (
            r#""query-status","arguments":{"x":1}"#,
            generic("Parameter 'x' is unexpected"),
        ),
        (
            r#""query-status""#,
            r#"{"id":1,"return":{"status":"prelaunch","singlestep":false,"running":false}}"#
                .to_string(),
        ),
        (
            r#""qmp_capabilities""#,
            error(
                "CommandNotFound",
                "Capabilities negotiation is already complete, command ignored",
            ),
        ),
    ] {
        assert_eq!(
            machine.ask(&format!("{{\"execute\":{request},\"id\":1}}")),
            expected,
            "{request}"
        );
    }
}

#[test]
fn an_image_that_another_machine_writes() {
    let mut machine = Machine::start(folder("writers"));
    machine.line();
    let second = program()
        .args(arguments(&machine.folder))
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        said.contains("Failed to get \"write\" lock\nIs another process using the image ["),
        "{said}"
    );
    let order = ["-c", "write 0 4096"];
    let real = Command::new("qemu-io")
        .args(order)
        .arg(machine.folder.join("disk.qcow2"))
        .output()
        .expect("qemu-io starts");
    let said = String::from_utf8_lossy(&real.stderr).into_owned();
    assert!(said.contains("Failed to get \"write\" lock"), "{said}");
}
