//! The stand-in refuses what Hyper-V and PowerShell refuse; a stand-in that took it would let winimg ask for it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const SCRIPTS: &[&str] = &[
    "host",
    "probe",
    "credential",
    "screen",
    "key",
    "own",
    "look",
    "start",
    "poll",
    "forget",
    "put",
    "get",
    "restart",
    "off",
];

struct PowerShell {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

fn made(folder: &Path, config: &str) -> PathBuf {
    let file = folder.join("host.toml");
    std::fs::write(
        &file,
        format!("state = \"state\"\ntrace = \"trace.txt\"\n{config}"),
    )
    .expect("a file");
    for name in SCRIPTS {
        std::fs::write(folder.join(format!("{name}.ps1")), "").expect("a file");
    }
    file
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-powershell"));
    command
        .args([
            "-NoLogo",
            "-NoProfile",
            "-NonInteractive",
            "-ExecutionPolicy",
            "Bypass",
            "-File",
        ])
        .arg(folder.join("host.ps1"))
        .env("FAKE_HYPERV", folder.join("host.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl PowerShell {
    fn start(folder: &Path) -> Self {
        let mut child = command(folder).spawn().expect("the stand-in");
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert_eq!(line, "{\"ready\":1}\n");
        Self {
            child,
            stdin,
            stdout,
            next: 1,
        }
    }

    fn ask(&mut self, mut request: Value) -> Value {
        request["id"] = self.next.into();
        let stdin = self.stdin.as_mut().expect("stdin");
        writeln!(stdin, "{request}").expect("a request");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        let mut reply: Value = serde_json::from_str(&line).expect("a reply");
        assert_eq!(reply["id"], self.next, "{line}");
        self.next += 1;
        match reply.get_mut("done") {
            Some(done) => done.take(),
            None => {
                let error = &reply["error"];
                let id = error["id"].as_str().unwrap_or_default();
                let id = id.split(',').next().unwrap_or_default();
                let first = error["message"]
                    .as_str()
                    .unwrap_or_default()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_string();
                json!(format!("{id}: {first}"))
            }
        }
    }

    fn call(&mut self, call: &str, with: Value) -> Value {
        let call = format!("Hyper-V\\{call}");
        self.ask(json!({"call": call, "with": with}))
    }

    /// A machine with a disk and two drives, kept as `vm`, `disk` and `install`.
    fn machine(&mut self, folder: &Path, generation: u32) -> String {
        let disk = folder.join(format!("disk{generation}.vhdx"));
        assert_eq!(self.call("New-VHD", json!({"Path": disk, "SizeBytes": 64 << 20, "Dynamic": true, "BlockSizeBytes": 1 << 20})), json!([{}]));
        let made = self.ask(json!({"call": "Hyper-V\\New-VM", "with": {"Name": "winimg-1", "Path": folder, "MemoryStartupBytes": 2_u64 << 30,
            "Generation": generation, "VHDPath": disk}, "select": ["Id"], "keep": "vm"}));
        self.ask(json!({"call": "Hyper-V\\Get-VMHardDiskDrive", "with": {"VM": {"$kept": "vm"}}, "keep": "disk"}));
        std::fs::write(folder.join("a.iso"), "a disc").expect("a file");
        let drive = json!({"VM": {"$kept": "vm"}, "Path": folder.join("a.iso"), "Passthru": true});
        self.ask(json!({"call": "Hyper-V\\Add-VMDvdDrive", "with": drive, "keep": "install"}));
        made[0]["Id"].as_str().expect("an id").to_string()
    }

    fn end(mut self) -> i32 {
        drop(self.stdin.take());
        self.child.wait().expect("its end").code().unwrap_or(-1)
    }
}

#[test]
fn only_winimg_s_command_line_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    made(folder.path(), "");
    let said = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().expect("the stand-in");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let mut bare = Command::new(env!("CARGO_BIN_EXE_fake-powershell"));
    let text = said(bare.args(["-Command", "Get-VM"]));
    assert!(text.contains("this stand-in only takes -NoLogo"), "{text}");
    std::fs::remove_file(folder.path().join("host.ps1")).expect("it goes");
    let text = said(&mut command(folder.path()));
    assert!(
        text.contains("to the -File parameter does not exist"),
        "{text}"
    );
    made(
        folder.path(),
        "[[fault]]\nat = {call = 'Get-VMs'}\ndo = 'dies'\n",
    );
    let text = said(&mut command(folder.path()));
    assert!(
        text.contains("no call \"Get-VMs\" number 1 for a fault"),
        "{text}"
    );
}

#[test]
fn calls_are_bound_as_powershell_binds_them() {
    let folder = tempfile::tempdir().expect("a folder");
    made(folder.path(), "");
    let mut shell = PowerShell::start(folder.path());
    let path = folder.path().join("x.vhdx");
    let answers = [
        shell.ask(json!({"call": "Hyper-V\\Checkpoint-VM"})),
        shell.ask(json!({"call": "Get-VM"})),
        shell.call("New-VHD", json!({"Path": path, "Size": 1})),
        shell.call("New-VHD", json!({"Path": path, "Dynamic": true})),
        shell.call(
            "New-VHD",
            json!({"Path": path, "ParentPath": "y", "Dynamic": true}),
        ),
        shell.call(
            "New-VHD",
            json!({"Path": path, "SizeBytes": "64MB", "Dynamic": true}),
        ),
        shell.call(
            "New-VHD",
            json!({"Path": path, "SizeBytes": 1, "Dynamic": true}),
        ),
        shell.call("Set-VM", json!({"Name": "a", "AutomaticStopAction": "Off"})),
        shell.call("Get-VM", json!({"Id": "winimg-1"})),
        shell.call("Get-VM", json!({"Name": "winimg-1"})),
        shell.call("Set-VM", json!({"VM": {"$kept": "vm"}, "Notes": "x"})),
        shell.ask(json!({"call": "Hyper-V\\Get-VMHost", "select": ["Colour"]})),
    ];
    let answers: Vec<&str> = answers
        .iter()
        .map(|a| a.as_str().unwrap_or("it was taken"))
        .collect();
    assert_eq!(
        answers,
        [
            "this call is not allowed: Hyper-V\\Checkpoint-VM: this call is not allowed: Hyper-V\\Checkpoint-VM",
            "this call is not allowed: Get-VM: this call is not allowed: Get-VM",
            "NamedParameterNotFound: A parameter cannot be found that matches parameter name 'Size'.",
            "MissingMandatoryParameter: Cannot process command because of one or more missing mandatory parameters: SizeBytes.",
            "AmbiguousParameterSet: Parameter set cannot be resolved using the specified named parameters.",
            "CannotConvertArgumentNoMessage: Cannot bind parameter 'SizeBytes'. Cannot convert value \"64MB\" to type \"UInt64\". Error: ",
            "InvalidParameter: Failed to create the virtual hard disk.",
            "CannotConvertArgumentNoMessage: Cannot bind parameter 'AutomaticStopAction'. Cannot convert value \"Off\" to type \"StopAction\". Error: \
             \"Unable to match the identifier name Off to a valid enumerator name. Specify one of the following enumerator names and try again: TurnOff, \
             Save, ShutDown\"",
            "CannotConvertArgumentNoMessage: Cannot bind parameter 'Id'. Cannot convert value \"winimg-1\" to type \"Guid\". Error: ",
            "InvalidParameter: Hyper-V was unable to find a virtual machine with name \"winimg-1\".",
            "StandIn: stand-in for Hyper-V: nothing is kept under the name vm",
            "StandIn: stand-in for Hyper-V: Host has no property Colour",
        ]
    );
    assert_eq!(shell.end(), 0);
}

#[test]
fn machines_refuse_what_their_kind_and_state_forbid() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    // Setup takes longer than this test.
    made(path, "[install]\nstretch_ms = 600000\n");
    let mut shell = PowerShell::start(path);
    let id = shell.machine(path, 2);
    let vm = json!({"$kept": "vm"});
    std::fs::write(path.join("b.img"), "no disc").expect("a file");
    let disk = path.join("disk2.vhdx");
    let before = [
        shell.call(
            "Set-VMBios",
            json!({"VM": vm, "StartupOrder": ["IDE", "CD", "LegacyNetworkAdapter", "Floppy"]}),
        ),
        shell.call(
            "Add-VMDvdDrive",
            json!({"VM": vm, "Path": path.join("b.img")}),
        ),
        shell.call(
            "Add-VMDvdDrive",
            json!({"VM": vm, "Path": path.join("none.iso")}),
        ),
        shell.call("Enable-VMTPM", json!({"VM": vm})),
        shell.call(
            "Set-VMFirmware",
            json!({"VM": vm, "SecureBootTemplate": "Microsoft"}),
        ),
        shell.call("Optimize-VHD", json!({"Path": disk, "Mode": "Full"})),
        shell.call("Dismount-VHD", json!({"Path": disk})),
        shell.call("Remove-VM", json!({"VM": vm})),
    ];
    assert_eq!(
        shell.call(
            "Set-VMFirmware",
            json!({"VM": vm, "BootOrder": [{"$kept": "disk"}]})
        ),
        json!([])
    );
    assert_eq!(
        shell.call(
            "Set-VMFirmware",
            json!({"VM": vm, "BootOrder": {"$kept": ["disk", "install"]}})
        ),
        json!([])
    );
    let tpm = [
        shell.call(
            "Set-VMKeyProtector",
            json!({"VM": vm, "NewLocalKeyProtector": true}),
        ),
        shell.call("Enable-VMTPM", json!({"VM": vm})),
    ];
    assert_eq!(tpm, [json!([]), json!([])]);
    assert_eq!(shell.call("Start-VM", json!({"VM": vm})), json!([]));
    let running = [
        shell.call("Enable-VMTPM", json!({"VM": vm})),
        shell.call("Remove-VM", json!({"VM": vm, "Force": true})),
        shell.call("Set-VMProcessor", json!({"VM": vm, "Count": 2})),
        shell.call("Mount-VHD", json!({"Path": disk, "ReadOnly": true})),
        shell.call(
            "Remove-VMDvdDrive",
            json!({"VMDvdDrive": {"$kept": "install"}}),
        ),
    ];
    let first = |all: &[Value]| -> Vec<String> {
        all.iter()
            .map(|a| a.as_str().unwrap_or("it was taken").to_string())
            .collect()
    };
    assert_eq!(
        first(&before),
        [
            "InvalidParameter: Set-VMBios is not supported on generation 2 virtual machines: 'winimg-1'.",
            &format!(
                "InvalidParameter: Failed to add device 'Virtual CD/DVD Disk'. The attachment '{}' is not of a supported type: its name has to end in .iso.",
                path.join("b.img").display()
            ),
            &format!(
                "ObjectNotFound: The system cannot find the file specified. (0x80070002). '{}'",
                path.join("none.iso").display()
            ),
            "OperationFailed: The operation failed.",
            "ObjectNotFound: The secure boot template 'Microsoft' was not found.",
            "StandIn: stand-in for Hyper-V: Optimize-VHD does less than it was asked for, since the disk is not mounted read-only",
            &format!(
                "InvalidState: The disk '{}' is not mounted.",
                disk.display()
            ),
            "InvalidOperation: Windows PowerShell is in NonInteractive mode. Read and Prompt functionality is not available.",
        ]
    );
    assert_eq!(
        first(&running),
        [
            "InvalidState: Changing the TPM failed.",
            "InvalidState: Removing the virtual machine failed.",
            "InvalidState: Changing the virtual processors failed.",
            &format!(
                "ObjectInUse: The system failed to use '{}'.",
                disk.display()
            ),
            "InvalidState: Removing a DVD drive failed.",
        ]
    );
    // Another process finds the machine, and only its owner's end removes it.
    let mut second = PowerShell::start(path);
    let state = |shell: &mut PowerShell| {
        shell.ask(json!({"call": "Hyper-V\\Get-VM", "with": {"Id": id}, "select": ["State"]}))
    };
    assert_eq!(state(&mut second), json!([{"State": "Running"}]));
    assert_eq!(
        shell.ask(json!({"call": "script:own", "with": {"VmId": id}, "select": ["*"]})),
        json!([{"owned": id}])
    );
    assert_eq!(second.end(), 0);
    assert_eq!(state(&mut shell), json!([{"State": "Running"}]));
    assert_eq!(shell.end(), 0);
    let mut third = PowerShell::start(path);
    assert_eq!(third.call("Get-VM", json!({})), json!([]));
    assert!(disk.is_file());
    assert_eq!(third.end(), 0);
}

#[test]
fn a_generation_1_machine_has_no_firmware_settings_and_a_password_shows_nowhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    made(path, "");
    let mut shell = PowerShell::start(path);
    shell.machine(path, 1);
    let refused = shell.call(
        "Set-VMFirmware",
        json!({"VM": {"$kept": "vm"}, "EnableSecureBoot": "Off"}),
    );
    assert_eq!(
        refused,
        "InvalidParameter: Set-VMFirmware is not supported on generation 1 virtual machines: 'winimg-1'."
    );
    for (call, with) in [
        (
            "Set-VMKeyProtector",
            json!({"VM": {"$kept": "vm"}, "NewLocalKeyProtector": true}),
        ),
        ("Enable-VMTPM", json!({"VM": {"$kept": "vm"}})),
    ] {
        assert_eq!(
            shell.call(call, with),
            format!(
                "InvalidParameter: {call} is not supported on generation 1 virtual machines: 'winimg-1'."
            )
        );
    }
    let order = |all: &[&str]| json!({"VM": {"$kept": "vm"}, "StartupOrder": all});
    let refused = shell.call("Set-VMBios", order(&["IDE", "CD"]));
    assert_eq!(
        refused,
        "InvalidParameter: The startup order has to name each of CD, FLOPPY, IDE, LEGACYNETWORKADAPTER once."
    );
    assert_eq!(
        shell.call(
            "Set-VMBios",
            order(&["IDE", "CD", "LegacyNetworkAdapter", "Floppy"])
        ),
        json!([])
    );
    shell.ask(json!({"call": "script:credential", "with": {"User": "Administrator", "Password": "Open-Sesame-42!"}, "keep": "credential"}));
    assert_eq!(shell.end(), 0);
    let trace = std::fs::read_to_string(path.join("trace.txt")).expect("a trace");
    assert!(
        trace.ends_with("$credential = script:credential -User Administrator -Password ***\n"),
        "{trace}"
    );
}
