//! The machine: MTU, host name, disk, network, Azure's guest agent.

use super::{AGAIN, DONE, Ended};
use crate::windows::cloudbase::config::Settings;
use crate::windows::cloudbase::metadata::{Context, Fault, Found, Service, failed};
use crate::windows::registry::{dword_value, sz};
use crate::windows::{COMPUTER_NAME, TCPIP};

pub fn mtu(c: Context<'_>) -> Found<Ended> {
    if c.settings.mtu_use_dhcp_config
        && let Some(lease) = c.p.machine.lease()
    {
        match lease.mtu {
            Some(mtu) => {
                let key = format!(r"{TCPIP}\Interfaces\{}", crate::windows::network::INTERFACE);
                let mut registry = c.p.machine.registry();
                registry
                    .set(&key, "MTU", dword_value(u32::from(mtu)))
                    .map_err(failed)?;
            }
            None => c.log.debug(
                "plugins.common.mtu",
                &format!(
                    "Could not obtain the MTU configuration via DHCP for interface \"{}\"",
                    lease.mac
                ),
            ),
        }
    }
    Ok(AGAIN)
}

/// The name as `utils/hostname.py` makes it.
fn host_name(settings: &Settings, wanted: &str) -> String {
    let name = wanted.split('.').next().unwrap_or_default();
    let mut name: String = if settings.netbios_host_name_compatibility {
        name.chars().take(15).collect()
    } else {
        name.to_owned()
    };
    if name.ends_with('-') {
        name.pop();
        name.push('0');
    }
    name
}

pub fn set_host_name(c: Context<'_>, service: &dyn Service) -> Found<Ended> {
    let Some(wanted) = service.host_name()?.filter(|name| !name.is_empty()) else {
        c.log.debug(
            "plugins.common.sethostname",
            "Hostname not found in metadata",
        );
        return Ok(DONE);
    };
    rename(c, &wanted).map(|restart| Ended {
        again: false,
        restart,
    })
}

/// Sets the name for the next boot; whether it is another one.
pub fn rename(c: Context<'_>, wanted: &str) -> Found<bool> {
    let module = "utils.hostname";
    let name = host_name(c.settings, wanted);
    let short = wanted.split('.').next().unwrap_or_default();
    if short.chars().count() > name.chars().count() {
        c.log.warning(module, &format!("Truncating host name for Netbios compatibility. Old name: {short}, new name: {name}"));
    }
    let mut registry = c.p.machine.registry();
    let now = registry.text(TCPIP, "Hostname").unwrap_or_default();
    if now.eq_ignore_ascii_case(&name) {
        c.log
            .debug(module, &format!("Hostname already set to: {name}"));
        return Ok(false);
    }
    c.log.info(module, &format!("Setting hostname: {name}"));
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let label = (1..=63).contains(&name.len())
        && name.chars().all(allowed)
        && !name.chars().all(|c| c.is_ascii_digit());
    if !label {
        return Err(failed(
            "Cannot set host name: The format of the specified computer name is invalid.",
        ));
    }
    let net_bios: String = name.chars().take(15).collect::<String>().to_uppercase();
    registry
        .set(COMPUTER_NAME, "ComputerName", sz(&net_bios))
        .map_err(failed)?;
    registry
        .set(TCPIP, "NV Hostname", sz(&name))
        .map_err(failed)?;
    Ok(true)
}

pub fn extend_volumes(c: Context<'_>) -> Found<Ended> {
    if c.settings.volumes_to_extend.is_some() {
        return Err(Fault::NotModelled("volumes_to_extend".to_owned()));
    }
    c.p.machine.ask_extend();
    Ok(AGAIN)
}

pub fn ephemeral_disk(c: Context<'_>, service: &dyn Service) -> Found<Ended> {
    match service.data_loss_warning() {
        Err(Fault::Missing) => return Ok(DONE),
        Err(fault) => return Err(fault),
        Ok(_) => {}
    }
    // Azure's temporary disk; the stand-in's machines have one disk.
    c.log.info(
        "plugins.common.ephemeraldisk",
        "Ephemeral disk volume not found",
    );
    Ok(DONE)
}

pub fn network_config(service: &dyn Service) -> Found<Ended> {
    match service.network()? {
        None => Ok(DONE),
        Some(_) => Err(Fault::NotModelled(
            "a network configuration in the metadata".to_owned(),
        )),
    }
}

pub fn azure_guest_agent(c: Context<'_>, service: &dyn Service) -> Found<Ended> {
    let module = "plugins.windows.azureguestagent";
    match service.guest_agent()? {
        None => c
            .log
            .info(module, "Azure guest agent provisioning data not present"),
        Some((false, _)) => c.log.info(
            module,
            "Skipping Azure guest agent provisioning as by metadata request",
        ),
        Some((true, None)) => {
            return Err(failed(
                "Azure guest agent package_name not found in metadata",
            ));
        }
        Some((true, Some(package))) => {
            return Err(Fault::NotModelled(format!("Azure's guest agent {package}")));
        }
    }
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::cloudbase::config::Values;

    #[test]
    fn host_names_are_cut() {
        let mut settings = Settings::from(&Values::new()).unwrap();
        for (wanted, name) in [
            ("node-1.example.org", "node-1"),
            ("a-very-long-node-name", "a-very-long-nod"),
            ("fourteen-chars-x", "fourteen-chars0"),
        ] {
            assert_eq!(host_name(&settings, wanted), name);
        }
        settings.netbios_host_name_compatibility = false;
        assert_eq!(
            host_name(&settings, "a-very-long-node-name"),
            "a-very-long-node-name"
        );
    }
}
