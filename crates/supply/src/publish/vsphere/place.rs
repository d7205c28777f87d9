//! `vsphere://vcenter/library/item` and its flags: a library, an item in it, and a template made
//! from the item. Pure.
//!
//! Refuses users and passwords in an address.

use std::fmt;

use url::Url;

use super::super::address::AddressFault;
use super::super::flags::{DestinationFlag, FlagArity, FlagValues};
use super::template_place::{TemplatePlace, is_name};
use crate::fetch::client::is_here;
use winimg_base::error::Result;

pub const FLAGS: &[DestinationFlag] = &[TEMPLATE, CLUSTER, DATASTORE, NETWORK];

const TEMPLATE: DestinationFlag = DestinationFlag {
    name: "template",
    value_name: "[FOLDER/]NAME",
    help: "vCenter template to create from the OVA: a name, or /DATACENTER/vm/FOLDER/NAME",
    details: "Datacenter, cluster and datastore default to the only one vCenter has.",
    values: FlagArity::One,
    refusal: "only a vCenter has templates",
};

const CLUSTER: DestinationFlag = DestinationFlag {
    name: "cluster",
    value_name: "CLUSTER[/POOL]",
    help: "Cluster for the template, or one of its resource pools",
    details: "",
    values: FlagArity::One,
    refusal: NO_TEMPLATE,
};

const DATASTORE: DestinationFlag = DestinationFlag {
    name: "datastore",
    value_name: "NAME",
    help: "Datastore for the template",
    details: "",
    values: FlagArity::One,
    refusal: NO_TEMPLATE,
};

const NETWORK: DestinationFlag = DestinationFlag {
    name: "network",
    value_name: "NAME",
    help: "Network of the template's adapter [default: vCenter's choice]",
    details: "",
    values: FlagArity::One,
    refusal: NO_TEMPLATE,
};

const NO_TEMPLATE: &str = "it applies only to a vCenter template";

/// An item of a content library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryPlace {
    /// `https://vcenter.example.com/`
    pub vcenter: Url,
    pub library: String,
    /// `None`: the recipe's name.
    pub item: Option<String>,
    /// Template to make from the item.
    pub template: Option<TemplatePlace>,
}

impl LibraryPlace {
    /// Parses the text after the scheme.
    pub fn parse(rest: &str, use_http: bool) -> Result<Self, AddressFault> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("contains a user name or password".into());
        }
        let scheme = if use_http { "http" } else { "https" };
        let vcenter = Url::parse(&format!("{scheme}://{authority}/"));
        let vcenter = vcenter.map_err(|_| "has no valid vCenter address")?;
        if use_http && !vcenter.host().is_some_and(|host| is_here(&host)) {
            let fact = "would send a password over http, which is allowed only for localhost";
            return Err(fact.into());
        }
        let mut names = path.trim_end_matches('/').split('/');
        let library = names.next().unwrap_or_default();
        let item = names.next();
        if names.next().is_some() {
            return Err("has more parts than a vCenter, a library and an item".into());
        }
        if !std::iter::once(library).chain(item).all(is_name) {
            return Err("has no library, or a name with characters that are not allowed".into());
        }
        Ok(Self {
            vcenter,
            library: library.to_owned(),
            item: item.map(str::to_owned),
            template: None,
        })
    }

    pub fn take_flags(&mut self, flags: &mut FlagValues) -> Result<()> {
        if let Some(template) = flags.take(&TEMPLATE) {
            self.template = Some(TemplatePlace::parse(
                &template,
                flags.take(&CLUSTER).as_deref(),
                flags.take(&DATASTORE).as_deref(),
                flags.take(&NETWORK).as_deref(),
            )?);
        }
        Ok(())
    }
}

impl fmt::Display for LibraryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = if self.vcenter.scheme() == "http" {
            "+http"
        } else {
            ""
        };
        let authority = self.vcenter.authority();
        write!(f, "vsphere{plain}://{authority}/{}", self.library)?;
        match &self.item {
            Some(item) => write!(f, "/{item}"),
            None => Ok(()),
        }
    }
}
