//! What a destination is reached with, and which options it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{Context, targets};
use super::properties;
use crate::cli;
use crate::record::Manifest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use winimg_base::environment::variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;
use winimg_supply::fetch::sharing::Places;
use winimg_supply::fetch::{FetchOptions, Patience};
use winimg_supply::publish::{
    AccountLogin, AzureSettings, Cloud, Destination, Login, Settings, TemplatePlace, Version,
};

/// A part of 16 MiB is one request, whose answer comes when all of it went.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(30),
    answer: Duration::from_secs(300),
    stall: Duration::from_secs(60),
    slow: Duration::from_secs(600),
};

/// An option beside the destination, and whether this destination takes it.
struct Beside {
    name: &'static str,
    is_given: bool,
    is_taken: bool,
    /// Why another destination does not take it.
    fact: &'static str,
}

/// Refuses options that this destination has no use for, and values that are none.
pub fn refuse_foreign(args: &cli::Publish, destination: &Destination) -> Result<()> {
    let is_ami = matches!(destination, Destination::Ami(_));
    let is_azure = matches!(destination, Destination::Azure(_));
    let is_vsphere = matches!(destination, Destination::Vsphere(_));
    let is_version = is_azure && args.gallery.is_some();
    let all = [
        Beside {
            name: "--only",
            is_given: !args.only.is_empty(),
            is_taken: !is_ami && !is_azure && !is_vsphere,
            fact: match (is_vsphere, is_azure) {
                (true, _) => "a content library gets the OVA alone",
                (_, true) => "an image of Azure is made from the one VHD",
                _ => "an AMI is made from the one disk that its request names",
            },
        },
        Beside {
            name: "--gallery",
            is_given: args.gallery.is_some(),
            is_taken: is_azure,
            fact: "only Azure has galleries",
        },
        Beside {
            name: "--replicas",
            is_given: args.replicas.is_some(),
            is_taken: is_version,
            fact: "only a version in a gallery has replicas",
        },
        Beside {
            name: "--copy-to",
            is_given: !args.copy_to.is_empty(),
            is_taken: is_ami || is_version,
            fact: match is_azure {
                true => "only a version in a gallery is copied to other regions",
                false => "only an AMI and a version in a gallery are copied to regions",
            },
        },
        Beside {
            name: "--share",
            is_given: !args.share.is_empty(),
            is_taken: is_ami,
            fact: "only an AMI is shared with accounts",
        },
        Beside {
            name: "--property",
            is_given: !args.property.is_empty(),
            is_taken: matches!(destination, Destination::Glance(_)),
            fact: "only an image in Glance has properties",
        },
    ];
    refuse_words(args)?;
    let of_template = of_template(args, is_vsphere);
    let mut all = all.iter().chain(&of_template);
    match all.find(|option| option.is_given && !option.is_taken) {
        None => Ok(()),
        Some(Beside { name, fact, .. }) => Err(Error::new(Kind::Recipe, *fact)
            .at(name)
            .found(destination)
            .cure(format!("leave {name} out"))),
    }
}

/// The options of a template.
fn of_template(args: &cli::Publish, is_vsphere: bool) -> [Beside; 4] {
    let place = |name, value: &Option<String>| Beside {
        name,
        is_given: value.is_some(),
        is_taken: is_vsphere && args.template.is_some(),
        fact: "only a template in a vCenter has such a place",
    };
    [
        Beside {
            is_taken: is_vsphere,
            fact: "only a vCenter has templates",
            ..place("--template", &args.template)
        },
        place("--cluster", &args.cluster),
        place("--datastore", &args.datastore),
        place("--network", &args.network),
    ]
}

fn refuse_words(args: &cli::Publish) -> Result<()> {
    // A region is a part of a host's name.
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_region = |r: &&String| !r.is_empty() && r.chars().all(word);
    if let Some(region) = args.copy_to.iter().find(|region| !is_region(region)) {
        return Err(Error::new(Kind::Recipe, "this is no region's name")
            .at("--copy-to")
            .expected("such as eu-west-1 of AWS or westeurope of Azure")
            .found(region));
    }
    let is_account = |a: &String| a.len() == 12 && a.chars().all(|c| c.is_ascii_digit());
    match args.share.iter().find(|account| !is_account(account)) {
        None => Ok(()),
        Some(account) => Err(Error::new(Kind::Recipe, "this is no AWS account")
            .at("--share")
            .expected("12 digits")
            .found(account)),
    }
}

pub fn settings(
    args: &cli::Publish,
    destination: &Destination,
    manifest: &Manifest,
    context: &Context,
) -> Result<Settings> {
    let configured = &context.host.said.cache;
    Ok(Settings {
        places: Places {
            file: configured.credentials.clone(),
            token_host: configured.token_host.clone(),
        },
        region: variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")),
        endpoint: variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL")),
        compute: variable("AWS_ENDPOINT_URL_EC2").or_else(|| variable("AWS_ENDPOINT_URL")),
        storage: variable("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"),
        cloud: cloud(destination, context)?,
        properties: properties(args, destination, manifest, context)?,
        copies: args.copy_to.clone(),
        accounts: args.share.clone(),
        azure: azure(args)?,
        vcenter: vcenter(destination, context),
        template: template(args)?,
        login: Login::of_environment()?,
        options: FetchOptions {
            proxies: context.host.proxies.clone(),
            patience: PATIENCE,
            ..FetchOptions::default()
        },
    })
}

/// What Azure is reached with, by the variables of its command line.
fn azure(args: &cli::Publish) -> Result<AzureSettings> {
    let account = account(
        variable("AZURE_STORAGE_KEY"),
        variable("AZURE_STORAGE_SAS_TOKEN"),
    )?;
    let version = match &args.gallery {
        None => None,
        Some(text) => Some(Version::parse(text).ok_or_else(|| {
            Error::new(Kind::Recipe, "this is no version of an image definition")
                .at("--gallery")
                .expected("GALLERY/DEFINITION/VERSION, such as nodes/windows-2022/1.31.4")
                .found(text)
        })?),
    };
    Ok(AzureSettings {
        blobs: variable("AZURE_STORAGE_SERVICE_ENDPOINT"),
        manager: variable("AZURE_RESOURCE_MANAGER_ENDPOINT"),
        account,
        version,
        replicas: args.replicas.unwrap_or(1),
    })
}

/// The key or the signature of a storage account, if they are such.
fn account(key: Option<String>, signature: Option<String>) -> Result<Option<AccountLogin>> {
    let malformed = |name: &str, expected: &str| {
        Error::new(Kind::Recipe, format!("{name} cannot be used"))
            .expected(expected)
            .cure(format!("set {name} again; its value is not shown"))
    };
    if let Some(key) = key {
        return match STANDARD.decode(&key) {
            Ok(_) => Ok(Some(AccountLogin::Key(Secret::new(key)))),
            Err(_) => {
                let expected = "a storage account's key: base64, with no space or line break";
                Err(malformed("AZURE_STORAGE_KEY", expected))
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
        Err(malformed("AZURE_STORAGE_SAS_TOKEN", expected))
    }
}

/// The cloud of an image in Glance, and who publishes to it.
fn cloud(destination: &Destination, context: &Context) -> Result<Option<Cloud>> {
    if !matches!(destination, Destination::Glance(_)) {
        return Ok(None);
    }
    let cloud = Cloud::of(&variable)?;
    if cloud.is_unheeded {
        context.sink.warn(
            "what clouds.yaml or OS_CACERT say of certificates is not heeded: they are checked, by the system's roots or those of SSL_CERT_FILE",
        );
    }
    Ok(Some(cloud))
}

/// What follows from the image, and what `--property` adds to it or has otherwise.
fn properties(
    args: &cli::Publish,
    destination: &Destination,
    manifest: &Manifest,
    context: &Context,
) -> Result<BTreeMap<String, String>> {
    if !matches!(destination, Destination::Glance(_)) {
        return Ok(BTreeMap::new());
    }
    let targets = targets::known(context)?;
    if properties::of_openstack(manifest, &targets).is_none() {
        context.sink.warn(
            "the recipe names no target of OpenStack: the image is published without properties of its disk's bus and its network card",
        );
    }
    let mut all = properties::of(manifest, &targets);
    for given in &args.property {
        let parts = given.split_once('=').filter(|(name, _)| is_property(name));
        let Some((name, value)) = parts else {
            return Err(Error::new(Kind::Recipe, "this is no property")
                .at("--property")
                .expected(
                    "such as hw_scsi_model=virtio-scsi; names that begin with winimg_ are winimg's",
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
    // What is no property of an image, but an attribute that winimg sets.
    let own = [
        "name",
        "id",
        "status",
        "disk_format",
        "container_format",
        "os_hidden",
    ];
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    !name.is_empty()
        && name.chars().all(plain)
        && !name.starts_with("winimg_")
        && !own.contains(&name)
}

/// The template that is made of the OVA in a vCenter.
fn template(args: &cli::Publish) -> Result<Option<TemplatePlace>> {
    let template = args.template.as_deref().map(|template| {
        TemplatePlace::parse(
            template,
            args.cluster.as_deref(),
            args.datastore.as_deref(),
            args.network.as_deref(),
        )
    });
    template.transpose()
}

/// Who publishes to a vCenter, by govc's variables.
fn vcenter(destination: &Destination, context: &Context) -> Option<Login> {
    if !matches!(destination, Destination::Vsphere(_)) {
        return None;
    }
    for name in ["GOVC_INSECURE", "GOVC_TLS_CA_CERTS"] {
        if variable(name).is_some_and(|value| !["0", "false"].contains(&value.as_str())) {
            context.sink.warn(format!(
                "{name} is not heeded: vCenter's certificate is checked, by the system's roots or those of SSL_CERT_FILE"
            ));
        }
    }
    let (user, password) = variable("GOVC_USERNAME").zip(variable("GOVC_PASSWORD"))?;
    Some(Login::Password {
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
        let read = |key, signature| match account(key, signature) {
            Ok(Some(AccountLogin::Key(_))) => "a key".to_owned(),
            Ok(Some(AccountLogin::Signature(_))) => "a signature".to_owned(),
            Ok(None) => "none".to_owned(),
            Err(error) => error.fact().to_owned(),
        };
        assert_eq!(read(None, None), "none");
        assert_eq!(read(some("c2VjcmV0"), some("sig=x")), "a key");
        assert_eq!(
            read(some("c2Vj cmV0"), None),
            "AZURE_STORAGE_KEY cannot be used"
        );
        assert_eq!(read(None, some("?sv=1&sig=ab%2Bc%3D")), "a signature");
        for wrong in ["sv=1&sig=a b", "sv=1&sig=a\nb", "hunter2"] {
            assert_eq!(
                read(None, some(wrong)),
                "AZURE_STORAGE_SAS_TOKEN cannot be used"
            );
        }
    }
}
