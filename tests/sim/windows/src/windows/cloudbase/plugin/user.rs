//! Users: CreateUserPlugin, SetUserPasswordPlugin, SetUserSSHPublicKeysPlugin.
//!
//! A disabled account stays disabled when it is renamed or gets a password: `set_user_password` keeps its flags
//! (`osutils/windows.py`). Such an account has no logon, so no profile, so no keys.

use std::fs::File;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{DONE, Ended, Shared};
use crate::windows::account;
use crate::windows::cloudbase::config::FirstLogon;
use crate::windows::cloudbase::metadata::{Context, Found, Service, failed};
use crate::windows::profile;

const CREATE: &str = "plugins.common.createuser";
const PASSWORD: &str = "plugins.common.setuserpassword";
/// Of NetUserAdd.
const UF_SCRIPT: u32 = 1;

/// Letters and digits of all three kinds, as `generate_random_password` insists.
pub fn random_password(length: usize) -> Found<String> {
    if length < 3 {
        return Err(failed("Password can not have less than 3 characters!"));
    }
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    loop {
        let mut bytes = vec![0u8; length];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bytes))
            .map_err(|e| failed(e.to_string()))?;
        let text: String = bytes
            .iter()
            .map(|byte| char::from(letters[usize::from(*byte) % letters.len()]))
            .collect();
        let has = |of: fn(&char) -> bool| text.chars().any(|c| of(&c));
        if has(char::is_ascii_lowercase)
            && has(char::is_ascii_uppercase)
            && has(char::is_ascii_digit)
        {
            return Ok(text);
        }
    }
}

pub fn create(c: Context<'_>, service: &dyn Service, shared: &mut Shared) -> Found<Ended> {
    let named = service.admin_username()?.filter(|name| !name.is_empty());
    let user = named.unwrap_or_else(|| c.settings.username.clone());
    shared.username = Some(user.clone());
    let password = random_password(c.settings.user_password_length)?;
    let mut registry = c.p.machine.registry();
    if c.settings.rename_admin_user {
        let admin =
            account::by_rid(&registry, 500).ok_or_else(|| failed("list index out of range"))?;
        if admin.eq_ignore_ascii_case(&user) {
            c.log.info(
                CREATE,
                &format!(
                    "\"{user}\" is already the name of the builtin admin user, skipping renaming"
                ),
            );
        } else {
            c.log.info(
                CREATE,
                &format!("Renaming builtin admin user \"{admin}\" to {user} and setting password"),
            );
            account::rename(&mut registry, &admin, &user)
                .map_err(|why| failed(format!("Renaming user failed: {why}")))?;
            account::set_password(&mut registry, &user, &password);
        }
    } else if account::user(&registry, &user).is_some() {
        c.log.info(
            CREATE,
            &format!("Setting password for existing user \"{user}\""),
        );
        account::set_password(&mut registry, &user, &password);
    } else {
        c.log.info(
            CREATE,
            &format!("Creating user \"{user}\" and setting password"),
        );
        add(&mut registry, &user, &password)
            .map_err(|why| failed(format!("Create user failed: {why}")))?;
        shared.password = Some(password.clone());
    }
    account::publish(&mut registry);
    drop(registry);
    if let Err(why) = profile::log_on(&c.p.machine, &user, &password) {
        c.log.error(
            "plugins.windows.createuser",
            &format!(
                "Cannot create a user logon session for user: \"{user}\": User logon failed: {why}"
            ),
        );
    }
    let mut registry = c.p.machine.registry();
    for group in &c.settings.groups {
        let Some(found) = account::group(&registry, group) else {
            c.log.error(
                CREATE,
                &format!("Cannot add user to group \"{group}\": Group '{group}' not found"),
            );
            continue;
        };
        let mut members = account::members(found);
        if !members
            .iter()
            .any(|member| crate::windows::regf::same(member, &user))
        {
            members.push(user.clone());
            account::set_members(&mut registry, group, &members).map_err(failed)?;
        }
    }
    account::publish(&mut registry);
    Ok(DONE)
}

/// NetUserAdd at level 1.
fn add(
    registry: &mut crate::windows::registry::Registry,
    user: &str,
    password: &str,
) -> Result<(), String> {
    if user.is_empty()
        || user.chars().count() > 20
        || user.contains(|c: char| "\"/\\[]:;|=,+*?<>@".contains(c))
    {
        return Err("The user name or group name parameter is invalid.".to_owned());
    }
    if account::group(registry, user).is_some() {
        return Err("The group already exists.".to_owned());
    }
    let flags = account::UF_NORMAL_ACCOUNT | UF_SCRIPT | account::UF_DONT_EXPIRE_PASSWD;
    account::set_flags(registry, user, flags)?;
    account::set_password(registry, user, password);
    Ok(())
}

pub fn set_password(c: Context<'_>, service: &dyn Service, shared: &mut Shared) -> Found<Ended> {
    let user = shared
        .username
        .clone()
        .unwrap_or_else(|| c.settings.username.clone());
    let known = account::user(&c.p.machine.registry(), &user).is_some();
    if !known {
        return Ok(DONE);
    }
    let injected = if c.settings.inject_user_password {
        service
            .admin_password()?
            .filter(|password| !password.is_empty())
    } else {
        None
    };
    if injected.is_some() {
        c.log.warning(
            PASSWORD,
            "Using admin_pass metadata user password. Consider changing it as soon as possible",
        );
    }
    let password = match injected.clone().or_else(|| shared.password.clone()) {
        Some(password) => password,
        None => {
            c.log.debug(PASSWORD, "Generating a random user password");
            random_password(c.settings.user_password_length)?
        }
    };
    if !crate::answer::password::meets_policy(&password, &user) {
        return Err(failed(
            "Set user password failed: The password does not meet the password policy requirements.",
        ));
    }
    let mut registry = c.p.machine.registry();
    account::set_password(&mut registry, &user, &password);
    let expire = match c.settings.first_logon {
        FirstLogon::Never => false,
        FirstLogon::Always => true,
        FirstLogon::ClearTextInjectedOnly => injected.is_some(),
    };
    if expire {
        account::must_change(&mut registry, &user).map_err(failed)?;
    }
    drop(registry);
    c.log.info(
        PASSWORD,
        &format!("Password succesfully updated for user {user}"),
    );
    shared.password = Some(password);
    if !service.can_post_password()? {
        c.log.info(
            PASSWORD,
            "Cannot set the password in the metadata as it is not supported by this service",
        );
    } else {
        post_password(c, service)?;
    }
    Ok(DONE)
}

/// What the platform gets is noise of the ciphertext's length: nobody here has the key to read it with.
fn post_password(c: Context<'_>, service: &dyn Service) -> Found<()> {
    if service.is_password_set()? {
        c.log.debug(
            PASSWORD,
            "User's password already set in the instance metadata and it cannot be updated in the instance metadata",
        );
        return Ok(());
    }
    let Some(key) = service.public_keys()?.into_iter().next() else {
        c.log.info(
            PASSWORD,
            "No SSH public key available for password encryption",
        );
        return Ok(());
    };
    let mut noise = vec![0; modulus(&key).ok_or_else(|| failed("Invalid SSH key"))?];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut noise))
        .map_err(|e| failed(e.to_string()))?;
    service.post_password(&STANDARD.encode(noise))
}

/// Bytes of an `ssh-rsa` key's modulus, which is what it encrypts to (RFC 4253, 6.6). `None`: of another kind.
fn modulus(key: &str) -> Option<usize> {
    let blob = STANDARD.decode(key.split(' ').nth(1)?).ok()?;
    let (kind, rest) = field(&blob)?;
    let (_exponent, rest) = field(rest)?;
    let (modulus, _) = field(rest)?;
    let modulus = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    (kind == b"ssh-rsa").then_some(modulus.len())
}

/// Four bytes of length, then as many: and what is left.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

pub fn ssh_public_keys(c: Context<'_>, service: &dyn Service) -> Found<Ended> {
    let module = "plugins.common.sshpublickeys";
    let keys = service.public_keys()?;
    if keys.is_empty() {
        c.log.debug(module, "Public keys not found in metadata");
        return Ok(DONE);
    }
    let named = service.admin_username()?.filter(|name| !name.is_empty());
    let user = named.unwrap_or_else(|| c.settings.username.clone());
    let registry = c.p.machine.registry();
    if account::user(&registry, &user).is_none() {
        c.log.debug(
            "osutils.windows",
            &format!("Home directory not found for user '{user}'"),
        );
        return Err(failed("User profile not found!"));
    }
    let home = profile::home(&registry, &user)
        .ok_or_else(|| failed("[WinError 2] The system cannot find the file specified"))?;
    drop(registry);
    c.log.debug(module, &format!("User home: {home}"));
    let file =
        c.p.locate(&format!(r"{home}\.ssh\authorized_keys"))
            .map_err(|e| failed(e.text()))?;
    let folder = file.host.parent().ok_or_else(|| failed("no folder"))?;
    std::fs::create_dir_all(folder).map_err(|e| failed(e.to_string()))?;
    c.log.info(
        module,
        &format!(r"Writing SSH public keys in: {home}\.ssh\authorized_keys"),
    );
    // Python's text mode: CR LF.
    let text: String = keys.iter().map(|key| format!("{key}\r\n")).collect();
    std::fs::write(&file.host, text).map_err(|e| failed(e.to_string()))?;
    Ok(DONE)
}
