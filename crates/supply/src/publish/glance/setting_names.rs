//! Names of the settings of a cloud, in files and in the environment.

/// Supported settings, by their names in `clouds.yaml`; the variables are upper case with the
/// prefix `OS_`.
pub const NAMES: [&str; 31] = [
    "auth_plugin",
    "auth_type",
    "auth_url",
    "username",
    "user_id",
    "password",
    "user_domain_name",
    "user_domain_id",
    "project_name",
    "project_id",
    "tenant_name",
    "tenant_id",
    "project_domain_name",
    "project_domain_id",
    "domain_name",
    "domain_id",
    "default_domain",
    "default_domain_id",
    "default_domain_name",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    "token",
    "auth_token",
    "region_name",
    "interface",
    "endpoint_type",
    "image_endpoint_override",
    "cacert",
    "verify",
    "insecure",
];

/// Returns true if the setting is supported.
pub fn is_read(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Reads an environment variable, unless it is empty.
pub fn find_set(environment: &impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    environment(name).filter(|value| !value.is_empty())
}

/// Reads the variable of a setting, if it is set.
pub fn read_variable(
    name: &str,
    environment: &impl Fn(&str) -> Option<String>,
) -> Option<(String, String)> {
    let value = find_set(environment, &format!("OS_{}", name.to_ascii_uppercase()))?;
    Some((name.to_owned(), value))
}
