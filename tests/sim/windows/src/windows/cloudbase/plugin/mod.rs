//! cloudbase-init's plugins: which class names there are, in which stage each runs, and what it does.
//!
//! Sources: cloudbase-init 1.1.9 `plugins/factory.py`, `plugins/common/*.py`, `plugins/windows/*.py`.

mod machine;
mod user;
mod userdata;

pub use user::random_password;

use super::metadata::{Context, Fault, Found, Service, failed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    PreNetworking,
    PreMetadataDiscovery,
    Main,
}

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Stage::PreNetworking => "PRE_NETWORKING",
            Stage::PreMetadataDiscovery => "PRE_METADATA_DISCOVERY",
            Stage::Main => "MAIN",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    AzureGuestAgent,
    CreateUser,
    EphemeralDisk,
    ExtendVolumes,
    LocalScripts,
    Mtu,
    NetworkConfig,
    SetHostName,
    SetUserPassword,
    SetUserSshPublicKeys,
    UserData,
}

/// Class path below `cloudbaseinit.plugins.`, and the plugin. The older paths of 0.9 count as well.
const KNOWN: [(&str, Plugin); 11] = [
    (
        "windows.azureguestagent.AzureGuestAgentPlugin",
        Plugin::AzureGuestAgent,
    ),
    ("windows.createuser.CreateUserPlugin", Plugin::CreateUser),
    (
        "common.ephemeraldisk.EphemeralDiskPlugin",
        Plugin::EphemeralDisk,
    ),
    (
        "windows.extendvolumes.ExtendVolumesPlugin",
        Plugin::ExtendVolumes,
    ),
    (
        "common.localscripts.LocalScriptsPlugin",
        Plugin::LocalScripts,
    ),
    ("common.mtu.MTUPlugin", Plugin::Mtu),
    (
        "common.networkconfig.NetworkConfigPlugin",
        Plugin::NetworkConfig,
    ),
    ("common.sethostname.SetHostNamePlugin", Plugin::SetHostName),
    (
        "common.setuserpassword.SetUserPasswordPlugin",
        Plugin::SetUserPassword,
    ),
    (
        "common.sshpublickeys.SetUserSSHPublicKeysPlugin",
        Plugin::SetUserSshPublicKeys,
    ),
    ("common.userdata.UserDataPlugin", Plugin::UserData),
];

/// Classes that exist and that the stand-in would have to pretend.
const NOT_MODELLED: [&str; 15] = [
    "common.ntpclient.NTPClientPlugin",
    "common.trim.TrimConfigPlugin",
    "windows.bootconfig.BCDConfigPlugin",
    "windows.bootconfig.BootStatusPolicyPlugin",
    "windows.certificates.ServerCertificatesPlugin",
    "windows.displayidletimeout.DisplayIdleTimeoutConfigPlugin",
    "windows.licensing.WindowsLicensingPlugin",
    "windows.ntpclient.NTPClientPlugin",
    "windows.pagefiles.PageFilesPlugin",
    "windows.rdp.RDPPostCertificateThumbprintPlugin",
    "windows.rdp.RDPSettingsPlugin",
    "windows.sanpolicy.SANPolicyPlugin",
    "windows.updates.WindowsAutoUpdatesPlugin",
    "windows.winrmcertificateauth.ConfigWinRMCertificateAuthPlugin",
    "windows.winrmlistener.ConfigWinRMListenerPlugin",
];

/// Modules that moved from `plugins.windows` to `plugins.common`; the old class paths still work.
const MOVED: [&str; 7] = [
    "mtu",
    "sethostname",
    "networkconfig",
    "sshpublickeys",
    "userdata",
    "setuserpassword",
    "localscripts",
];

impl Plugin {
    /// `None`: no such module, which is logged and passed over. A module without such a class ends the program: the real
    /// one expects an ImportError only.
    pub fn named(class: &str) -> Found<Option<Plugin>> {
        let Some(below) = class.strip_prefix("cloudbaseinit.plugins.") else {
            return Ok(None);
        };
        let module = below.split('.').nth(1).unwrap_or_default();
        let below = match below.strip_prefix("windows.") {
            Some(rest) if MOVED.contains(&module) => format!("common.{rest}"),
            _ => below.to_owned(),
        };
        if NOT_MODELLED.contains(&below.as_str()) {
            return Err(Fault::NotModelled(format!("plugin {class}")));
        }
        let known = KNOWN.iter().find(|(name, _)| *name == below);
        if let Some((_, plugin)) = known {
            return Ok(Some(*plugin));
        }
        let module = |path: &str| path.rsplit_once('.').map(|(module, _)| module.to_owned());
        let modules = KNOWN.iter().map(|(path, _)| *path).chain(NOT_MODELLED);
        if modules.map(module).any(|known| known == module(&below)) {
            return Err(failed(format!("{class}: the module has no such attribute")));
        }
        Ok(None)
    }

    /// The name of its class, under which its state is kept.
    pub fn name(self) -> &'static str {
        let path = KNOWN.iter().find(|(_, plugin)| *plugin == self);
        path.and_then(|(path, _)| path.rsplit('.').next())
            .unwrap_or_default()
    }

    pub fn stage(self) -> Stage {
        match self {
            Plugin::Mtu => Stage::PreMetadataDiscovery,
            _ => Stage::Main,
        }
    }

    /// Runs it. `service` is `None` before the metadata stage.
    pub fn execute(
        self,
        c: Context<'_>,
        service: Option<&dyn Service>,
        shared: &mut Shared,
    ) -> Found<Ended> {
        if self == Plugin::Mtu {
            return machine::mtu(c);
        }
        let service = service.ok_or_else(|| failed("no metadata service"))?;
        match self {
            Plugin::AzureGuestAgent => machine::azure_guest_agent(c, service),
            Plugin::CreateUser => user::create(c, service, shared),
            Plugin::EphemeralDisk => machine::ephemeral_disk(c, service),
            Plugin::ExtendVolumes => machine::extend_volumes(c),
            Plugin::LocalScripts => userdata::local_scripts(c),
            Plugin::Mtu => machine::mtu(c),
            Plugin::NetworkConfig => machine::network_config(service),
            Plugin::SetHostName => machine::set_host_name(c, service),
            Plugin::SetUserPassword => user::set_password(c, service, shared),
            Plugin::SetUserSshPublicKeys => user::ssh_public_keys(c, service),
            Plugin::UserData => userdata::user_data(c, service),
        }
    }
}

/// What plugins of one stage hand to each other.
#[derive(Default)]
pub struct Shared {
    pub username: Option<String>,
    pub password: Option<String>,
}

/// How a plugin ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Runs again at the next boot (status 2); else it is done (status 1).
    pub again: bool,
    pub restart: bool,
}

pub const DONE: Ended = Ended {
    again: false,
    restart: false,
};
pub const AGAIN: Ended = Ended {
    again: true,
    restart: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names() {
        let base = "cloudbaseinit.plugins.";
        let named = |name: &str| Plugin::named(&format!("{base}{name}"));
        assert_eq!(
            named("windows.createuser.CreateUserPlugin"),
            Ok(Some(Plugin::CreateUser))
        );
        assert_eq!(named("windows.mtu.MTUPlugin"), Ok(Some(Plugin::Mtu)));
        assert_eq!(named("common.createuser.CreateUserPlugin"), Ok(None));
        assert_eq!(
            named("common.sethostname.SetHostname"),
            Err(failed(
                "cloudbaseinit.plugins.common.sethostname.SetHostname: the module has no such attribute"
            ))
        );
        assert_eq!(
            named("windows.licensing.WindowsLicensingPlugin"),
            Err(Fault::NotModelled(
                "plugin cloudbaseinit.plugins.windows.licensing.WindowsLicensingPlugin".into()
            ))
        );
        assert_eq!(
            Plugin::SetUserSshPublicKeys.name(),
            "SetUserSSHPublicKeysPlugin"
        );
    }
}
