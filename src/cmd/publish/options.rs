//! Settings of destinations, and the options that each one accepts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{CommandContext, target_specs};
use super::properties;
use crate::cli;
use crate::record::BuildManifest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;
use winimg_supply::fetch::shared_cache::RegistryConfig;
use winimg_supply::fetch::{FetchOptions, Timeouts};
use winimg_supply::publish::{
    AccountLogin, AzureSettings, Destination, GalleryVersion, OpenStackCloud, PublisherSettings,
    ServerLogin, TemplatePlace,
};

/// A part of 16 MiB is one request, answered once it is complete.
const PATIENCE: Timeouts = Timeouts {
    connect: Duration::from_secs(30),
    answer: Duration::from_secs(300),
    stall: Duration::from_secs(60),
    slow: Duration::from_secs(600),
};

/// An option that only some destinations accept.
struct DestinationOption {
    name: &'static str,
    is_given: bool,
    is_taken: bool,
    /// Reason why other destinations do not accept it.
    fact: &'static str,
}

/// Rejects options that this destination does not accept, and invalid values.
pub fn refuse_foreign(args: &cli::PublishArgs, destination: &Destination) -> Result<()> {
    let is_ami = matches!(destination, Destination::Ami(_));
    let is_azure = matches!(destination, Destination::Azure(_));
    let is_vsphere = matches!(destination, Destination::Vsphere(_));
    let is_version = is_azure && args.gallery.is_some();
    let all = [
        DestinationOption {
            name: "--only",
            is_given: !args.only.is_empty(),
            is_taken: !is_ami && !is_azure && !is_vsphere,
            fact: match (is_vsphere, is_azure) {
                (true, _) => "a content library accepts only the OVA",
                (_, true) => "an Azure image is created from the VHD",
                _ => "an AMI is created from the disk that its import request names",
            },
        },
        DestinationOption {
            name: "--gallery",
            is_given: args.gallery.is_some(),
            is_taken: is_azure,
            fact: "only Azure has galleries",
        },
        DestinationOption {
            name: "--replicas",
            is_given: args.replicas.is_some(),
            is_taken: is_version,
            fact: "only a gallery version has replicas",
        },
        DestinationOption {
            name: "--copy-to",
            is_given: !args.copy_to.is_empty(),
            is_taken: is_ami || is_version,
            fact: if is_azure {
                "only a gallery version can be copied to other regions"
            } else {
                "only an AMI or a gallery version can be copied to other regions"
            },
        },
        DestinationOption {
            name: "--share",
            is_given: !args.share.is_empty(),
            is_taken: is_ami,
            fact: "only an AMI can be shared with accounts",
        },
        DestinationOption {
            name: "--property",
            is_given: !args.property.is_empty(),
            is_taken: matches!(destination, Destination::Glance(_)),
            fact: "only an image in Glance has properties",
        },
    ];
    validate_values(args)?;
    let of_template = list_template_options(args, is_vsphere);
    let mut all = all.iter().chain(&of_template);
    match all.find(|option| option.is_given && !option.is_taken) {
        None => Ok(()),
        Some(DestinationOption { name, fact, .. }) => Err(Error::new(Kind::Recipe, *fact)
            .at(name)
            .found(destination)
            .cure(format!("omit {name}"))),
    }
}

/// Returns the options of a vCenter template.
fn list_template_options(args: &cli::PublishArgs, is_vsphere: bool) -> [DestinationOption; 4] {
    let place = |name, value: &Option<String>| DestinationOption {
        name,
        is_given: value.is_some(),
        is_taken: is_vsphere && args.template.is_some(),
        fact: "it applies only to a vCenter template",
    };
    [
        DestinationOption {
            is_taken: is_vsphere,
            fact: "only a vCenter has templates",
            ..place("--template", &args.template)
        },
        place("--cluster", &args.cluster),
        place("--datastore", &args.datastore),
        place("--network", &args.network),
    ]
}

fn validate_values(args: &cli::PublishArgs) -> Result<()> {
    if let Some(region) = args.copy_to.iter().find(|region| !is_region(region)) {
        return Err(Error::new(Kind::Recipe, "invalid region")
            .at("--copy-to")
            .expected("such as eu-west-1 (AWS) or westeurope (Azure)")
            .found(region));
    }
    match args.share.iter().find(|account| !is_account(account)) {
        None => Ok(()),
        Some(account) => Err(Error::new(Kind::Recipe, "invalid AWS account id")
            .at("--share")
            .expected("12 digits")
            .found(account)),
    }
}

/// Checks that a region can be part of a host name.
fn is_region(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.chars().all(|c| c.is_ascii_digit())
}

pub fn collect_settings(
    args: &cli::PublishArgs,
    destination: &Destination,
    manifest: &BuildManifest,
    context: &CommandContext,
) -> Result<PublisherSettings> {
    let configured = &context.host.said.cache;
    Ok(PublisherSettings {
        places: RegistryConfig {
            file: configured.credentials.clone(),
            token_host: configured.token_host.clone(),
        },
        region: read_variable("AWS_REGION").or_else(|| read_variable("AWS_DEFAULT_REGION")),
        endpoint: read_variable("AWS_ENDPOINT_URL_S3")
            .or_else(|| read_variable("AWS_ENDPOINT_URL")),
        compute: read_variable("AWS_ENDPOINT_URL_EC2")
            .or_else(|| read_variable("AWS_ENDPOINT_URL")),
        storage: read_variable("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"),
        cloud: read_cloud(destination, context)?,
        properties: collect_properties(args, destination, manifest, context)?,
        copies: args.copy_to.clone(),
        accounts: args.share.clone(),
        azure: read_azure_settings(args)?,
        vcenter: read_vcenter_login(destination, context),
        template: parse_template(args)?,
        login: ServerLogin::of_environment()?,
        options: FetchOptions {
            proxies: context.host.proxies.clone(),
            patience: PATIENCE,
            ..FetchOptions::default()
        },
    })
}

/// Returns the settings for Azure from the environment variables of its command line.
fn read_azure_settings(args: &cli::PublishArgs) -> Result<AzureSettings> {
    let account = parse_account(
        read_variable("AZURE_STORAGE_KEY"),
        read_variable("AZURE_STORAGE_SAS_TOKEN"),
    )?;
    let version = match &args.gallery {
        None => None,
        Some(text) => Some(GalleryVersion::parse(text).ok_or_else(|| {
            Error::new(Kind::Recipe, "invalid gallery version")
                .at("--gallery")
                .expected("GALLERY/DEFINITION/VERSION, such as nodes/windows-2022/1.31.4")
                .found(text)
        })?),
    };
    Ok(AzureSettings {
        blobs: read_variable("AZURE_STORAGE_SERVICE_ENDPOINT"),
        manager: read_variable("AZURE_RESOURCE_MANAGER_ENDPOINT"),
        account,
        version,
        replicas: args.replicas.unwrap_or(1),
    })
}

/// Checks the key or shared access signature of a storage account.
fn parse_account(key: Option<String>, signature: Option<String>) -> Result<Option<AccountLogin>> {
    if let Some(key) = key {
        return match STANDARD.decode(&key) {
            Ok(_) => Ok(Some(AccountLogin::Key(Secret::new(key)))),
            Err(_) => {
                let expected = "a storage account's key: base64, with no space or line break";
                Err(reject_secret("AZURE_STORAGE_KEY", expected))
            }
        };
    }
    let Some(signature) = signature else {
        return Ok(None);
    };
    let is_signature =
        signature.contains("sig=") && signature.chars().all(|c| c.is_ascii_graphic());
    if is_signature {
        Ok(Some(AccountLogin::Signature(Secret::new(signature))))
    } else {
        let expected = "a shared access signature: sv=…&sig=…, with no space or line break";
        Err(reject_secret("AZURE_STORAGE_SAS_TOKEN", expected))
    }
}

fn reject_secret(name: &str, expected: &str) -> Error {
    Error::new(Kind::Recipe, format!("{name} is invalid"))
        .expected(expected)
        .cure(format!("set {name} again; its value is not shown"))
}

/// Returns the OpenStack cloud and its credentials for an image in Glance.
fn read_cloud(
    destination: &Destination,
    context: &CommandContext,
) -> Result<Option<OpenStackCloud>> {
    if !matches!(destination, Destination::Glance(_)) {
        return Ok(None);
    }
    let cloud = OpenStackCloud::from_environment(&read_variable)?;
    if cloud.is_unheeded {
        context.sink.warn(
            "ignoring the certificate settings of clouds.yaml and OS_CACERT: \
             certificates are verified against the system's roots or SSL_CERT_FILE",
        );
    }
    Ok(Some(cloud))
}

/// Returns the image's properties, with additions and overrides of `--property`.
fn collect_properties(
    args: &cli::PublishArgs,
    destination: &Destination,
    manifest: &BuildManifest,
    context: &CommandContext,
) -> Result<BTreeMap<String, String>> {
    if !matches!(destination, Destination::Glance(_)) {
        return Ok(BTreeMap::new());
    }
    let targets = target_specs::read_targets(context)?;
    if properties::find_openstack_target(manifest, &targets).is_none() {
        context.sink.warn(
            "the recipe names no OpenStack target: \
             the image is published without properties for disk bus and network adapter",
        );
    }
    let mut all = properties::collect(manifest, &targets);
    for given in &args.property {
        let parts = given.split_once('=').filter(|(name, _)| is_property(name));
        let Some((name, value)) = parts else {
            return Err(Error::new(Kind::Recipe, "invalid property")
                .at("--property")
                .expected(
                    "such as hw_scsi_model=virtio-scsi; names that begin with winimg_ are reserved",
                )
                .found(given));
        };
        match value {
            "" => drop(all.remove(name)),
            value => drop(all.insert(name.to_owned(), value.to_owned())),
        }
    }
    Ok(all)
}

fn is_property(name: &str) -> bool {
    // Attributes of an image, which winimg sets itself.
    let own = [
        "name",
        "id",
        "status",
        "disk_format",
        "container_format",
        "os_hidden",
    ];
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c))
        && !name.starts_with("winimg_")
        && !own.contains(&name)
}

/// Returns the vCenter template to create from the OVA.
fn parse_template(args: &cli::PublishArgs) -> Result<Option<TemplatePlace>> {
    args.template
        .as_deref()
        .map(|template| {
            TemplatePlace::parse(
                template,
                args.cluster.as_deref(),
                args.datastore.as_deref(),
                args.network.as_deref(),
            )
        })
        .transpose()
}

/// Returns the vCenter credentials from govc's environment variables.
fn read_vcenter_login(destination: &Destination, context: &CommandContext) -> Option<ServerLogin> {
    if !matches!(destination, Destination::Vsphere(_)) {
        return None;
    }
    for name in ["GOVC_INSECURE", "GOVC_TLS_CA_CERTS"] {
        if read_variable(name).is_some_and(|value| !["0", "false"].contains(&value.as_str())) {
            context.sink.warn(format!(
                "ignoring {name}: vCenter's certificate is verified \
                 against the system's roots or SSL_CERT_FILE"
            ));
        }
    }
    let (user, password) = read_variable("GOVC_USERNAME").zip(read_variable("GOVC_PASSWORD"))?;
    Some(ServerLogin::Password {
        user,
        password: Secret::new(password),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_accounts_secret_that_cannot_be_used_is_named() {
        let some = |text: &str| Some(text.to_owned());
        let read = |key, signature| match parse_account(key, signature) {
            Ok(Some(AccountLogin::Key(_))) => "a key".to_owned(),
            Ok(Some(AccountLogin::Signature(_))) => "a signature".to_owned(),
            Ok(None) => "none".to_owned(),
            Err(error) => error.fact().to_owned(),
        };
        assert_eq!(read(None, None), "none");
        assert_eq!(read(some("c2VjcmV0"), some("sig=x")), "a key");
        assert_eq!(
            read(some("c2Vj cmV0"), None),
            "AZURE_STORAGE_KEY is invalid"
        );
        assert_eq!(read(None, some("?sv=1&sig=ab%2Bc%3D")), "a signature");
        for wrong in ["sv=1&sig=a b", "sv=1&sig=a\nb", "hunter2"] {
            assert_eq!(
                read(None, some(wrong)),
                "AZURE_STORAGE_SAS_TOKEN is invalid"
            );
        }
    }
}
