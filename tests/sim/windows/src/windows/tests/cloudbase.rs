//! cloudbase-init from outside: a configuration and a disc or a server in; users, names, states and exit codes out.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::guest::Guest;
use super::program::codes;
use crate::windows::{Data, Power, account};

pub const DIR: &str = r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init";
const KEY: &str = r"HKLM\SOFTWARE\Cloudbase Solutions\Cloudbase-Init";
const CONFIG_DRIVE: &str =
    "metadata_services=cloudbaseinit.metadata.services.configdrive.ConfigDriveService";

/// A guest with the programs, a log folder and this configuration.
pub fn guest(configuration: &str) -> Guest {
    let guest = Guest::new();
    install(&guest, configuration);
    guest
}

fn install(guest: &Guest, configuration: &str) {
    guest.put(
        &format!(r"{DIR}\Python\Scripts\cloudbase-init.exe"),
        b"MZ winimg stand-in program: cloudbase-init\r\n",
    );
    guest.put(
        &format!(r"{DIR}\bin\OpenStackService.exe"),
        b"MZ winimg stand-in program: service-runner\r\n",
    );
    guest.put(&format!(r"{DIR}\log\keep"), b"");
    let text = format!(
        "[DEFAULT]\nlog_dir={DIR}\\log\\\nlog_file=cloudbase-init.log\ndebug=true\nstop_service_on_exit=false\n{configuration}\n"
    );
    guest.put(&format!(r"{DIR}\conf\cloudbase-init.conf"), text.as_bytes());
}

pub fn run(guest: &Guest) -> u32 {
    guest
        .run(&format!(
            r#""{DIR}\Python\Scripts\cloudbase-init.exe" --config-file "{DIR}\conf\cloudbase-init.conf""#
        ))
        .0
}

pub fn log(guest: &Guest) -> String {
    guest.text(&format!(r"{DIR}\log\cloudbase-init.log"))
}

/// The log's lines without their time.
pub fn said(guest: &Guest, what: &str) -> bool {
    log(guest)
        .lines()
        .any(|line| line.ends_with(&format!("[-] {what}")))
}

fn meta_data(guest: &Guest, json: &str) {
    guest.put(r"D:\openstack\latest\meta_data.json", json.as_bytes());
}

pub fn status(guest: &Guest, instance: &str, plugin: &str) -> Option<Data> {
    guest
        .windows
        .value(&format!(r"{KEY}\{instance}\Plugins"), plugin)
}

const PLUGINS: &str = "plugins=cloudbaseinit.plugins.windows.createuser.CreateUserPlugin, cloudbaseinit.plugins.common.setuserpassword.SetUserPasswordPlugin, cloudbaseinit.plugins.windows.extendvolumes.ExtendVolumesPlugin, cloudbaseinit.plugins.common.ephemeraldisk.EphemeralDiskPlugin, cloudbaseinit.plugins.common.mtu.MTUPlugin, cloudbaseinit.plugins.common.sethostname.SetHostNamePlugin, cloudbaseinit.plugins.common.sshpublickeys.SetUserSSHPublicKeysPlugin, cloudbaseinit.plugins.common.userdata.UserDataPlugin, cloudbaseinit.plugins.common.localscripts.LocalScriptsPlugin";
const NODE: &str = r#"{"uuid": "i-1", "hostname": "node-1.example.org", "public_keys": {"a": "ssh-ed25519 AAAA me"}}"#;

#[test]
fn a_clone_of_the_packs_configuration_comes_up_in_two_boots() {
    let mut guest = guest(&format!(
        "username=capi\ninject_user_password=false\nfirst_logon_behaviour=no\nuser_password_length=123\n{CONFIG_DRIVE}\n{PLUGINS}"
    ));
    meta_data(&guest, NODE);
    guest.put(
        r"D:\openstack\latest\user_data",
        b"rem cmd\r\necho done>C:\\user-data.txt\r\n",
    );
    assert_eq!(run(&guest), 0);
    assert_eq!(guest.power(), Some(Power::Reboot), "{}", log(&guest));
    let done = Some(Data::Dword(1));
    assert_eq!(status(&guest, "i-1", "SetHostNamePlugin"), done);
    assert_eq!(
        status(&guest, "i-1", "ExtendVolumesPlugin"),
        Some(Data::Dword(2))
    );
    assert_eq!(
        status(&guest, "i-1", "UserDataPlugin"),
        None,
        "what follows the restart waits"
    );
    assert!(guest.windows.extends());
    guest.reboot();
    assert_eq!(guest.windows.computer_name(), "NODE-1");
    assert_eq!(run(&guest), 0);
    assert_eq!(guest.power(), None, "{}", log(&guest));
    assert_eq!(guest.text(r"C:\user-data.txt"), "done\n");
    assert_eq!(
        guest.text(r"C:\Users\capi\.ssh\authorized_keys"),
        "ssh-ed25519 AAAA me\n"
    );
    assert!(said(
        &guest,
        "Plugin 'CreateUserPlugin' execution already done, skipping"
    ));
    let members = guest.windows.value(
        r"HKLM\SAM\SAM\Domains\Builtin\Aliases\Names\Administrators",
        "Members",
    );
    assert_eq!(
        members,
        Some(Data::Multi(vec!["Administrator".into(), "capi".into()]))
    );
}

/// first-boot.md 3: nobody can log in to such a clone.
#[test]
fn a_disabled_administrator_that_is_renamed_stays_disabled() {
    let guest = guest(&format!(
        "username=capi\nrename_admin_user=true\n{CONFIG_DRIVE}\nplugins=cloudbaseinit.plugins.windows.createuser.CreateUserPlugin,cloudbaseinit.plugins.common.sshpublickeys.SetUserSSHPublicKeysPlugin"
    ));
    meta_data(&guest, NODE);
    codes(&guest, &[("net user Administrator /active:no", 0)]);
    assert_eq!(run(&guest), 0);
    let registry = guest.windows.machine.registry();
    assert_eq!(account::by_rid(&registry, 500).as_deref(), Some("capi"));
    let flags = account::user(&registry, "capi").map(account::flags);
    assert_eq!(
        flags,
        Some(account::UF_NORMAL_ACCOUNT | account::UF_ACCOUNTDISABLE)
    );
    drop(registry);
    assert!(said(
        &guest,
        "Cannot create a user logon session for user: \"capi\": User logon failed: This user can't sign in because this account is currently disabled."
    ));
    assert!(said(
        &guest,
        "plugin 'SetUserSSHPublicKeysPlugin' failed with error '[WinError 2] The system cannot find the file specified'"
    ));
    assert_eq!(
        status(&guest, "i-1", "SetUserSSHPublicKeysPlugin"),
        None,
        "it is tried again at every boot"
    );
}

#[test]
fn the_first_service_that_loads_is_used() {
    let base = "cloudbaseinit.metadata.services.";
    let services = format!(
        "metadata_services={base}vmwareguestinfoservice.VMwareGuestInfoService,{base}nocloudservice.NoCloudConfigDriveService,{base}configdrive.ConfigDriveService\nplugins="
    );
    let guest = guest(&services);
    meta_data(&guest, NODE);
    assert_eq!(run(&guest), 0);
    assert!(
        said(&guest, "Metadata service loaded: 'ConfigDriveService'"),
        "{}",
        log(&guest)
    );
    guest.windows.set_labels(vec![('D', "CIDATA".into())]);
    guest.put(
        r"D:\meta-data",
        b"instance-id: i-2\nlocal-hostname: node-2\n",
    );
    assert_eq!(run(&guest), 0);
    assert!(said(
        &guest,
        "Metadata service loaded: 'NoCloudConfigDriveService'"
    ));
    guest.windows.set_labels(vec![('D', "other".into())]);
    assert_eq!(run(&guest), 0);
    assert!(said(&guest, "No metadata service found"));
}

#[test]
fn the_exit_code_of_a_script_decides() {
    for (code, status_after, power) in [
        (0, Some(1), None),
        (1, Some(1), None),
        (1001, Some(1), Some(Power::Reboot)),
        (1002, Some(2), None),
        (1003, Some(2), Some(Power::Reboot)),
    ] {
        let guest = guest(&format!(
            "{CONFIG_DRIVE}\nplugins=cloudbaseinit.plugins.common.userdata.UserDataPlugin"
        ));
        meta_data(&guest, NODE);
        guest.put(
            r"D:\openstack\latest\user_data",
            format!("rem cmd\r\nexit /b {code}\r\n").as_bytes(),
        );
        assert_eq!(run(&guest), 0);
        assert_eq!(
            status(&guest, "i-1", "UserDataPlugin"),
            status_after.map(Data::Dword),
            "{code}"
        );
        assert_eq!(guest.power(), power, "{code}");
    }
}

#[test]
fn allow_reboot_false_goes_on_and_stays_up() {
    let guest = guest(&format!("allow_reboot=false\n{CONFIG_DRIVE}\n{PLUGINS}"));
    meta_data(&guest, NODE);
    std::fs::create_dir_all(guest.host(&format!(r"{DIR}\LocalScripts"))).unwrap();
    assert_eq!(run(&guest), 0);
    assert_eq!(guest.power(), None);
    assert!(status(&guest, "i-1", "UserDataPlugin").is_some());
}

#[test]
fn local_scripts_run_in_their_order() {
    let guest = guest(&format!(
        "{CONFIG_DRIVE}\nlocal_scripts_path={DIR}\\LocalScripts\\\nplugins=cloudbaseinit.plugins.common.localscripts.LocalScriptsPlugin"
    ));
    meta_data(&guest, NODE);
    for (name, text) in [
        ("README.txt", "echo no>>C:\\order.txt"),
        ("2.cmd", "@echo two>>C:\\order.txt\r\n@exit /b 1001\r\n"),
        ("1.cmd", "@echo one>>C:\\order.txt\r\n"),
        ("3.cmd", "@echo three>>C:\\order.txt\r\n"),
    ] {
        guest.put(&format!(r"{DIR}\LocalScripts\{name}"), text.as_bytes());
    }
    assert_eq!(run(&guest), 0);
    assert_eq!(guest.text(r"C:\order.txt"), "one\ntwo\n");
    assert_eq!(guest.power(), Some(Power::Reboot));
}

#[test]
fn what_is_not_modelled_stops_the_machine_with_its_name() {
    for (settings, user_data, why) in [
        (
            "plugins=cloudbaseinit.plugins.windows.licensing.WindowsLicensingPlugin",
            "",
            "plugin cloudbaseinit.plugins.windows.licensing.WindowsLicensingPlugin",
        ),
        (
            "plugins=cloudbaseinit.plugins.common.userdata.UserDataPlugin",
            "#ps1\nx",
            "user-data.cmd is a PowerShell script",
        ),
        (
            "plugins=cloudbaseinit.plugins.common.userdata.UserDataPlugin",
            "#cloud-config\nusers:\n- name: x\n",
            "cloud-config's users",
        ),
    ] {
        let guest = guest(&format!("{CONFIG_DRIVE}\n{settings}"));
        meta_data(&guest, NODE);
        guest.put(r"D:\openstack\latest\user_data", user_data.as_bytes());
        assert_eq!(run(&guest), 1, "{why}");
        let halted = guest.windows.halted().unwrap_or_default();
        assert!(
            halted.starts_with("cloudbase-init: ") && halted.ends_with(why),
            "{halted}"
        );
    }
}

#[test]
fn a_program_that_cannot_begin_ends_with_python_s_code() {
    let broken = guest("allow_reboot=perhaps");
    assert_eq!(run(&broken), 1);
    let guest = Guest::new();
    install(&guest, "plugins=\nmetadata_services=");
    std::fs::remove_dir_all(guest.host(&format!(r"{DIR}\log"))).unwrap();
    assert_eq!(run(&guest), 1, "no log folder");
    assert_eq!(
        guest
            .run(&format!(
                r#""{DIR}\Python\Scripts\cloudbase-init.exe" --config-file C:\no.conf"#
            ))
            .0,
        1
    );
    assert_eq!(
        guest
            .run(&format!(
                r#""{DIR}\Python\Scripts\cloudbase-init.exe" --what"#
            ))
            .0,
        2
    );
}

/// Its service runs it and stops with it; the state of one that is disabled or on demand is Windows'.
#[test]
fn the_service_runs_it_and_stops_when_it_ends() {
    let guest = guest(&format!(
        "stop_service_on_exit=true\n{CONFIG_DRIVE}\nplugins="
    ));
    meta_data(&guest, NODE);
    let create = format!(
        r#"sc create cloudbase-init start= demand binPath= "\"{DIR}\bin\OpenStackService.exe\" cloudbase-init \"{DIR}\Python\Scripts\cloudbase-init.exe\" --config-file \"{DIR}\conf\cloudbase-init.conf\"""#
    );
    codes(
        &guest,
        &[(create.as_str(), 0), ("sc start cloudbase-init", 0)],
    );
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while guest.run("sc query cloudbase-init").1.contains("RUNNING") {
        assert!(std::time::Instant::now() < deadline, "{}", log(&guest));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(
        said(&guest, "Stopping Cloudbase-Init service"),
        "{}",
        log(&guest)
    );
}

/// Answers each request by its path; 404 for any other.
fn serve(answers: &'static [(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or_default();
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default();
            let found = answers.iter().find(|(known, _)| *known == path);
            let answer = match found {
                Some((_, body)) => format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                ),
                None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}/")
}

#[test]
fn metadata_over_http() {
    let openstack = serve(&[(
        "/openstack/latest/meta_data.json",
        r#"{"uuid": "i-3", "hostname": "node-3"}"#,
    )]);
    let ec2 = serve(&[
        ("/2009-04-04/meta-data/local-hostname", "node-4"),
        ("/2009-04-04/meta-data/instance-id", "i-4"),
        ("/2009-04-04/meta-data/public-keys", "0=mine"),
        (
            "/2009-04-04/meta-data/public-keys/0/openssh-key",
            "ssh-rsa BBBB\n",
        ),
    ]);
    let plugins = "allow_reboot=false\nusername=ops\nplugins=cloudbaseinit.plugins.windows.createuser.CreateUserPlugin,cloudbaseinit.plugins.common.sethostname.SetHostNamePlugin,cloudbaseinit.plugins.common.sshpublickeys.SetUserSSHPublicKeysPlugin,cloudbaseinit.plugins.common.userdata.UserDataPlugin";
    let name = |guest: &Guest| {
        guest.windows.value(
            r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters",
            "NV Hostname",
        )
    };
    let http = guest(&format!(
        "{plugins}\nmetadata_services=cloudbaseinit.metadata.services.httpservice.HttpService\n[openstack]\nmetadata_base_url={openstack}"
    ));
    assert_eq!(run(&http), 0);
    assert_eq!(
        name(&http),
        Some(Data::Text("node-3".into())),
        "{}",
        log(&http)
    );
    let amazon = guest(&format!(
        "{plugins}\nmetadata_services=cloudbaseinit.metadata.services.ec2service.EC2Service\n[ec2]\nmetadata_base_url={ec2}"
    ));
    assert_eq!(run(&amazon), 0);
    assert_eq!(
        name(&amazon),
        Some(Data::Text("node-4".into())),
        "{}",
        log(&amazon)
    );
    assert_eq!(
        amazon.text(r"C:\Users\ops\.ssh\authorized_keys"),
        "ssh-rsa BBBB\n"
    );
    assert_eq!(
        status(&amazon, "i-4", "UserDataPlugin"),
        Some(Data::Dword(1)),
        "no user data is no fault"
    );
}

/// first-boot.md 3: without `reset_service_password=false` in the first pass clones stopped in Setup.
#[test]
fn a_service_user_s_password_is_not_reset_while_setup_works() {
    let guest = guest("plugins=\nmetadata_services=");
    let service = r"HKLM\SYSTEM\CurrentControlSet\Services\cloudbase-init";
    codes(
        &guest,
        &[
            ("net user cloudbase-init Passw0rd!x /add", 0),
            (
                r"sc create cloudbase-init binPath= C:\Windows\System32\svchost.exe start= demand",
                0,
            ),
        ],
    );
    let set = |key: &str, name: &str, data: Data| guest.windows.set_value(key, name, data).unwrap();
    set(
        service,
        "ObjectName",
        Data::Text(r".\cloudbase-init".into()),
    );
    set(
        r"HKLM\SYSTEM\Setup",
        "SystemSetupInProgress",
        Data::Dword(1),
    );
    let line = format!(
        r#""{DIR}\Python\Scripts\cloudbase-init.exe" --config-file "{DIR}\conf\cloudbase-init.conf""#
    );
    assert_eq!(
        guest.run(&format!("{line} --noreset_service_password")).0,
        0
    );
    assert_eq!(guest.power(), None);
    assert_eq!(guest.run(&line).0, 1);
    assert_eq!(guest.power(), Some(Power::Reboot));
    set(
        r"HKLM\SYSTEM\Setup",
        "SystemSetupInProgress",
        Data::Dword(0),
    );
    assert_eq!(guest.run(&line).0, 0);
}
