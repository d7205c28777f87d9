//! cloudbase-init's configuration: oslo.config's ini files and the options that this stand-in knows, with their defaults.
//!
//! A file that oslo.config would not read is refused as there: assignments before a section, lines without `=` or `:`, a
//! byte order mark. Options that nobody registered are passed over in silence, as there.
//!
//! Sources: cloudbase-init 1.1.9 `conf/*.py`; oslo.config `cfg.py`, `iniparser.py`, `types.py`.

use std::collections::BTreeMap;

/// Section and key to the last value given.
pub type Values = BTreeMap<(String, String), String>;

/// Reads one file on top of what others gave.
pub fn read(text: &str, values: &mut Values) -> Result<(), String> {
    let mut section = String::new();
    let mut open: Option<(String, Vec<String>)> = None;
    let mut close = |section: &str, open: &mut Option<(String, Vec<String>)>| {
        if let Some((key, lines)) = open.take() {
            let value = unquoted(&lines.join("\n")).to_owned();
            values.insert((section.to_owned(), key), value);
        }
    };
    for (number, line) in text.lines().enumerate() {
        let at = |what: &str| format!("at {}: {what}: '{line}'", number + 1);
        let trimmed = line.trim();
        if trimmed.is_empty() {
            close(&section, &mut open);
        } else if line.starts_with([' ', '\t']) {
            match &mut open {
                Some((_, lines)) => lines.push(trimmed.to_owned()),
                None => return Err(at("Unexpected continuation line")),
            }
        } else if trimmed.starts_with(['#', ';']) {
            close(&section, &mut open);
        } else if let Some(name) = trimmed.strip_prefix('[') {
            close(&section, &mut open);
            match name.strip_suffix(']') {
                Some(name) if !name.is_empty() => section = name.to_owned(),
                _ => return Err(at("Invalid section (must end with ])")),
            }
        } else {
            close(&section, &mut open);
            let Some(cut) = trimmed.find(['=', ':']) else {
                return Err(at("No ':' or '=' found in assignment"));
            };
            let (key, value) = (trimmed[..cut].trim(), trimmed[cut + 1..].trim());
            if key.is_empty() {
                return Err(at("Key cannot be empty"));
            }
            if section.is_empty() {
                return Err(at("Section must be started before assignment"));
            }
            open = Some((key.to_owned(), vec![value.to_owned()]));
        }
    }
    close(&section, &mut open);
    Ok(())
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if value.len() > 1
            && let Some(inner) = value
                .strip_prefix(quote)
                .and_then(|rest| rest.strip_suffix(quote))
        {
            return inner;
        }
    }
    value
}

/// When somebody has to change the password at the next logon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLogon {
    ClearTextInjectedOnly,
    Never,
    Always,
}

/// The options of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub allow_reboot: bool,
    pub stop_service_on_exit: bool,
    pub reset_service_password: bool,
    pub retry_count: u32,
    pub retry_count_interval: f64,
    pub netbios_host_name_compatibility: bool,
    pub serial_port: Option<String>,
    /// Indexes; none: every volume.
    pub volumes_to_extend: Option<Vec<u32>>,
    pub local_scripts_path: Option<String>,
    pub mtu_use_dhcp_config: bool,
    pub username: String,
    pub groups: Vec<String>,
    pub rename_admin_user: bool,
    pub inject_user_password: bool,
    pub first_logon: FirstLogon,
    pub user_password_length: usize,
    pub metadata_services: Vec<String>,
    pub plugins: Vec<String>,
    pub cloud_config_plugins: Vec<String>,
    pub process_userdata: bool,
    pub userdata_save_path: Option<String>,
    pub report_started: bool,
    pub report_completed: bool,
    pub ephemeral_disk_volume_label: Option<String>,
    pub debug: bool,
    pub log_dir: Option<String>,
    pub log_file: Option<String>,
    /// Types times locations, in the order in which they are searched.
    pub config_drive: Vec<(String, String)>,
    pub nocloud_metadata_file: String,
    pub nocloud_userdata_file: String,
    pub nocloud_network_file: String,
    pub openstack_url: String,
    pub ec2_url: String,
    pub ovf_file: String,
    pub ovf_label: String,
    pub ovf_prefix: String,
    pub rpctool_path: String,
}

struct Reader<'a>(&'a Values);

impl Reader<'_> {
    /// `option` is `group/name`; further names are deprecated ones that still count.
    fn text(&self, names: &[&str]) -> Result<Option<String>, String> {
        let value = names.iter().find_map(|name| {
            let (group, key) = name.split_once('/').unwrap_or(("DEFAULT", name));
            self.0.get(&(group.to_owned(), key.to_owned()))
        });
        match value {
            Some(value) if value.contains('$') => Err(format!(
                "{}: a value with $ is a reference to another option, which is not modelled",
                names[0]
            )),
            other => Ok(other.cloned()),
        }
    }

    fn string(&self, names: &[&str], default: &str) -> Result<String, String> {
        Ok(self.text(names)?.unwrap_or_else(|| default.to_owned()))
    }

    /// Empty counts as absent, as it does wherever cloudbase-init asks `if CONF.x`.
    fn some(&self, names: &[&str]) -> Result<Option<String>, String> {
        Ok(self.text(names)?.filter(|text| !text.is_empty()))
    }

    fn flag(&self, names: &[&str], default: bool) -> Result<bool, String> {
        let Some(text) = self.text(names)? else {
            return Ok(default);
        };
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "on" | "yes" => Ok(true),
            "false" | "0" | "off" | "no" => Ok(false),
            _ => Err(format!(
                "Value for option {} is not valid: Unexpected boolean value '{text}'",
                names[0]
            )),
        }
    }

    fn number<T: std::str::FromStr>(&self, names: &[&str], default: T) -> Result<T, String> {
        match self.text(names)? {
            None => Ok(default),
            Some(text) => text.trim().parse().map_err(|_| {
                format!(
                    "Value for option {} is not valid: invalid literal '{text}'",
                    names[0]
                )
            }),
        }
    }

    fn list(&self, names: &[&str]) -> Result<Option<Vec<String>>, String> {
        Ok(self.text(names)?.map(|text| {
            text.split(',')
                .map(|item| item.trim().to_owned())
                .filter(|item| !item.is_empty())
                .collect()
        }))
    }
}

const SERVICES: [&str; 6] = [
    "cloudbaseinit.metadata.services.httpservice.HttpService",
    "cloudbaseinit.metadata.services.configdrive.ConfigDriveService",
    "cloudbaseinit.metadata.services.ec2service.EC2Service",
    "cloudbaseinit.metadata.services.maasservice.MaaSHttpService",
    "cloudbaseinit.metadata.services.cloudstack.CloudStack",
    "cloudbaseinit.metadata.services.opennebulaservice.OpenNebulaService",
];

const PLUGINS: [&str; 13] = [
    "cloudbaseinit.plugins.common.mtu.MTUPlugin",
    "cloudbaseinit.plugins.windows.ntpclient.NTPClientPlugin",
    "cloudbaseinit.plugins.common.sethostname.SetHostNamePlugin",
    "cloudbaseinit.plugins.windows.createuser.CreateUserPlugin",
    "cloudbaseinit.plugins.common.networkconfig.NetworkConfigPlugin",
    "cloudbaseinit.plugins.windows.licensing.WindowsLicensingPlugin",
    "cloudbaseinit.plugins.common.sshpublickeys.SetUserSSHPublicKeysPlugin",
    "cloudbaseinit.plugins.windows.extendvolumes.ExtendVolumesPlugin",
    "cloudbaseinit.plugins.common.userdata.UserDataPlugin",
    "cloudbaseinit.plugins.common.setuserpassword.SetUserPasswordPlugin",
    "cloudbaseinit.plugins.windows.winrmlistener.ConfigWinRMListenerPlugin",
    "cloudbaseinit.plugins.windows.winrmcertificateauth.ConfigWinRMCertificateAuthPlugin",
    "cloudbaseinit.plugins.common.localscripts.LocalScriptsPlugin",
];

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|item| (*item).to_owned()).collect()
}

impl Settings {
    /// The options that the files gave, checked. An error is what ends the program before it does anything.
    pub fn from(values: &Values) -> Result<Settings, String> {
        let r = Reader(values);
        let first_logon = match r
            .string(&["first_logon_behaviour"], "clear_text_injected_only")?
            .as_str()
        {
            "clear_text_injected_only" => FirstLogon::ClearTextInjectedOnly,
            "no" => FirstLogon::Never,
            "always" => FirstLogon::Always,
            other => {
                return Err(format!(
                    "Value for option first_logon_behaviour is not valid: {other}"
                ));
            }
        };
        let volumes_to_extend = match r.list(&["volumes_to_extend"])? {
            None => None,
            Some(list) => Some(
                list.iter()
                    .map(|item| {
                        item.parse()
                            .map_err(|_| format!("volumes_to_extend: {item} is no number"))
                    })
                    .collect::<Result<_, _>>()?,
            ),
        };
        Ok(Settings {
            allow_reboot: r.flag(&["allow_reboot"], true)?,
            stop_service_on_exit: r.flag(&["stop_service_on_exit"], true)?,
            reset_service_password: r.flag(&["reset_service_password"], true)?,
            retry_count: r.number(&["retry_count"], 5)?,
            retry_count_interval: r.number(&["retry_count_interval"], 4.0)?,
            netbios_host_name_compatibility: r.flag(&["netbios_host_name_compatibility"], true)?,
            serial_port: r.some(&["logging_serial_port_settings"])?,
            volumes_to_extend,
            local_scripts_path: r.some(&["local_scripts_path"])?,
            mtu_use_dhcp_config: r.flag(&["mtu_use_dhcp_config"], true)?,
            username: r.string(&["username"], "Admin")?,
            groups: r
                .list(&["groups"])?
                .unwrap_or_else(|| owned(&["Administrators"])),
            rename_admin_user: r.flag(&["rename_admin_user"], false)?,
            inject_user_password: r.flag(&["inject_user_password"], true)?,
            first_logon,
            user_password_length: r.number(&["user_password_length"], 20)?,
            metadata_services: r
                .list(&["metadata_services"])?
                .unwrap_or_else(|| owned(&SERVICES)),
            plugins: r.list(&["plugins"])?.unwrap_or_else(|| owned(&PLUGINS)),
            cloud_config_plugins: r.list(&["cloud_config_plugins"])?.unwrap_or_default(),
            process_userdata: r.flag(&["process_userdata"], true)?,
            userdata_save_path: r.some(&["userdata_save_path"])?,
            report_started: r.flag(&["metadata_report_provisioning_started"], false)?,
            report_completed: r.flag(&["metadata_report_provisioning_completed"], false)?,
            ephemeral_disk_volume_label: r.some(&["ephemeral_disk_volume_label"])?,
            debug: r.flag(&["debug"], false)?,
            log_dir: r.some(&["log_dir", "logdir"])?,
            log_file: r.some(&["log_file", "logfile"])?,
            config_drive: config_drive(&r)?,
            nocloud_metadata_file: r.string(&["nocloud/metadata_file"], "meta-data")?,
            nocloud_userdata_file: r.string(&["nocloud/userdata_file"], "user-data")?,
            nocloud_network_file: r.string(&["nocloud/network_file"], "network-config")?,
            openstack_url: r.string(
                &["openstack/metadata_base_url", "metadata_base_url"],
                "http://169.254.169.254/",
            )?,
            ec2_url: r.string(
                &["ec2/metadata_base_url", "ec2_metadata_base_url"],
                "http://169.254.169.254/",
            )?,
            ovf_file: r.string(&["ovf/config_file_name"], "ovf-env.xml")?,
            ovf_label: r.string(&["ovf/drive_label"], "OVF ENV")?,
            ovf_prefix: r.string(&["ovf/ns"], "oe")?,
            rpctool_path: r.string(
                &["vmwareguestinfo/vmware_rpctool_path"],
                "%ProgramFiles%/VMware/VMware Tools/rpctool.exe",
            )?,
        })
    }
}

/// `baseconfigdrive._preprocess_options`: both lists sorted, each type with every location.
fn config_drive(r: &Reader<'_>) -> Result<Vec<(String, String)>, String> {
    let mut types = r
        .list(&["config_drive/types", "config_drive_types"])?
        .unwrap_or_else(|| owned(&["iso", "vfat"]));
    let mut locations = r
        .list(&["config_drive/locations", "config_drive_locations"])?
        .unwrap_or_else(|| owned(&["cdrom", "hdd", "partition"]));
    for (option, kind, location) in [
        ("cdrom", "iso", "cdrom"),
        ("raw_hdd", "iso", "hdd"),
        ("vfat", "vfat", "hdd"),
    ] {
        let name = format!("config_drive/{option}");
        if r.flag(&[&name], true)? {
            types.push(kind.to_owned());
            locations.push(location.to_owned());
        }
    }
    for list in [&mut types, &mut locations] {
        list.sort();
        list.dedup();
    }
    if let Some(odd) = types
        .iter()
        .find(|kind| !matches!(kind.as_str(), "iso" | "vfat"))
    {
        return Err(format!("Invalid Config Drive types {odd}"));
    }
    Ok(types
        .iter()
        .flat_map(|kind| {
            locations
                .iter()
                .map(move |location| (kind.clone(), location.clone()))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        let mut values = Values::new();
        read(text, &mut values)?;
        Settings::from(&values)
    }

    #[test]
    fn a_file_is_read_as_oslo_config_reads_it() {
        let read = settings(
            "# comment\n[DEFAULT]\nusername = capi\nusername=last\n; another\nallow_reboot=No\nplugins=a.B,\n  c.D\n\
             local_scripts_path=\"C:\\Local Scripts\\\"\nlogging_serial_port_settings=\nunknown=1\n\n[nocloud]\nmetadata_file: META-DATA\n",
        )
        .unwrap();
        assert_eq!(read.username, "last");
        assert!(!read.allow_reboot);
        assert_eq!(read.plugins, ["a.B", "c.D"]);
        assert_eq!(
            read.local_scripts_path.as_deref(),
            Some("C:\\Local Scripts\\")
        );
        assert_eq!(read.serial_port, None);
        assert_eq!(read.nocloud_metadata_file, "META-DATA");
        assert_eq!(read.groups, ["Administrators"]);
        assert!(read.stop_service_on_exit && read.reset_service_password);
    }

    #[test]
    fn files_that_end_the_program() {
        for (text, why) in [
            (
                "username=x\n",
                "at 1: Section must be started before assignment: 'username=x'",
            ),
            (
                "\u{feff}[DEFAULT]\n",
                "at 1: No ':' or '=' found in assignment: '\u{feff}[DEFAULT]'",
            ),
            (
                "[DEFAULT\n",
                "at 1: Invalid section (must end with ]): '[DEFAULT'",
            ),
            (
                "[DEFAULT]\nusername\n",
                "at 2: No ':' or '=' found in assignment: 'username'",
            ),
            (
                "[DEFAULT]\n\n  b\n",
                "at 3: Unexpected continuation line: '  b'",
            ),
            (
                "[DEFAULT]\nallow_reboot=maybe\n",
                "Value for option allow_reboot is not valid: Unexpected boolean value 'maybe'",
            ),
            (
                "[DEFAULT]\nfirst_logon_behaviour=never\n",
                "Value for option first_logon_behaviour is not valid: never",
            ),
        ] {
            assert_eq!(settings(text), Err(why.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn a_config_drive_is_looked_for_in_sorted_order() {
        let pairs = |text: &str| -> Vec<String> {
            let found = settings(text).unwrap().config_drive;
            found
                .iter()
                .map(|(kind, at)| format!("{kind} {at}"))
                .collect()
        };
        assert_eq!(
            pairs("[config_drive]\ntypes=iso\nlocations=cdrom\nraw_hdd=false\nvfat=false\n"),
            ["iso cdrom"]
        );
        assert_eq!(
            pairs("[config_drive]\ntypes=vfat\nlocations=hdd\n"),
            ["iso cdrom", "iso hdd", "vfat cdrom", "vfat hdd"]
        );
    }
}
