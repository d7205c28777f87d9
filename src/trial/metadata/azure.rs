//! What Azure gives a machine: a provisioning disc, the wire server at 168.63.129.16 and the instance metadata service.
//!
//! The wire server is what cloudbase-init 1.1.9 asks (azureservice.py) in the schemas of Azure/WALinuxAgent (protocol/wire.py).
//! Refuses to hand out certificates and extensions: nobody can know a subscription's.

mod disc;

use roxmltree::{Document, Node};
use serde_json::{Value, json};
use uuid::Uuid;
use winimg_base::markup::escape_xml;

use super::{Identity, Report, guid};
use crate::http::{Request, Response};

pub(super) use disc::disc;

/// Of the wire server.
const WIRE_VERSIONS: [&str; 2] = ["2015-04-05", "2012-11-30"];
/// Of the instance metadata service, newest last (Microsoft: Azure Instance Metadata Service, "Supported API versions").
const API_VERSIONS: [&str; 8] = [
    "2017-04-02",
    "2018-10-01",
    "2019-06-01",
    "2020-06-01",
    "2020-09-01",
    "2021-01-01",
    "2021-02-01",
    "2021-12-13",
];
/// Of the goal state. It never changes: nobody asks this machine to become anything else.
const INCARNATION: u32 = 1;

const XML: &str = "text/xml; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";

/// Azure's identifier of the virtual machine.
fn machine(identity: &Identity) -> Uuid {
    guid(&identity.instance, "Azure machine")
}

#[derive(Debug)]
pub(super) struct Service {
    /// Of the virtual machine.
    id: Uuid,
    container: Uuid,
    role_instance: String,
    host_name: String,
    user: String,
}

impl Service {
    pub fn new(identity: &Identity) -> Self {
        let id = machine(identity);
        Self {
            id,
            container: guid(&identity.instance, "Azure container"),
            role_instance: format!("{id}._{}", identity.host_name),
            host_name: identity.host_name.clone(),
            user: identity.user.clone(),
        }
    }

    /// The wire server.
    pub fn wire(&self, request: &Request, reports: &mut Vec<Report>) -> Response {
        let component = request
            .query("comp")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let path = request.path.trim_end_matches('/');
        if (path, component.as_str()) == ("", "versions") {
            return get(request, XML, versions);
        }
        let config = format!("/machine/{}/{}", self.container, self.role_instance);
        if path != "/machine" && path != config {
            return Response::not_found();
        }
        // Everything but the list of versions asks for one of them.
        let version = request.header("x-ms-version");
        if version.is_none_or(|v| !WIRE_VERSIONS.contains(&v)) {
            return Response::status(400);
        }
        match (path == config, component.as_str()) {
            (true, "config") => match self.config(request.query("type").unwrap_or_default()) {
                Some(text) => get(request, XML, || text),
                None => Response::not_found(),
            },
            (false, "goalstate") => get(request, XML, || self.goal_state()),
            (false, "health") => self.post(request, reports, health),
            (false, "roleproperties") => self.post(request, reports, properties),
            _ => Response::not_found(),
        }
    }

    fn goal_state(&self) -> String {
        let address = format!(
            "http://168.63.129.16:80/machine/{}/{}?comp=config&amp;incarnation={INCARNATION}&amp;type=",
            self.container,
            escape_xml(&self.role_instance)
        );
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
             <GoalState xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" xsi:noNamespaceSchemaLocation=\"goalstate10.xsd\">\
             <Version>2012-11-30</Version><Incarnation>{INCARNATION}</Incarnation>\
             <Machine><ExpectedState>Started</ExpectedState><StopRolesDeadlineHint>300000</StopRolesDeadlineHint>\
             <LBProbePorts><Port>16001</Port></LBProbePorts><ExpectHealthReport>FALSE</ExpectHealthReport></Machine>\
             <Container><ContainerId>{container}</ContainerId><RoleInstanceList><RoleInstance>\
             <InstanceId>{instance}</InstanceId><State>Started</State><Configuration>\
             <HostingEnvironmentConfig>{address}hostingEnvironmentConfig</HostingEnvironmentConfig>\
             <SharedConfig>{address}sharedConfig</SharedConfig>\
             <ConfigName>{container}.0.{container}.0._{host}.1.xml</ConfigName>\
             </Configuration></RoleInstance></RoleInstanceList></Container></GoalState>",
            container = self.container,
            instance = escape_xml(&self.role_instance),
            host = escape_xml(&self.host_name),
        )
    }

    /// A part of the machine's configuration, by the address in its goal state.
    fn config(&self, kind: &str) -> Option<String> {
        let instance = escape_xml(&self.role_instance);
        let id = self.id;
        match kind.to_ascii_lowercase().as_str() {
            "hostingenvironmentconfig" => Some(format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
                 <HostingEnvironmentConfig version=\"1.0.0.0\" goalStateIncarnation=\"{INCARNATION}\">\
                 <StoredCertificates></StoredCertificates>\
                 <Deployment name=\"{id}\" guid=\"{{{id}}}\" incarnation=\"0\"><Service name=\"{id}\" guid=\"{{{id}}}\"/>\
                 <ServiceInstance name=\"{id}.0\" guid=\"{{{id}}}\"/></Deployment>\
                 <Incarnation number=\"1\" instance=\"{instance}\" guid=\"{{{id}}}\"/>\
                 <Role guid=\"{{{id}}}\" name=\"_{host}\" settleTimeSeconds=\"0\"/>\
                 </HostingEnvironmentConfig>",
                host = escape_xml(&self.host_name),
            )),
            "sharedconfig" => Some(format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
                 <SharedConfig version=\"1.0.0.0\" goalStateIncarnation=\"{INCARNATION}\">\
                 <Deployment name=\"{id}\" guid=\"{{{id}}}\" incarnation=\"0\"/>\
                 <Incarnation number=\"1\" instance=\"{instance}\" guid=\"{{{id}}}\"/>\
                 <Instances><Instance id=\"{instance}\"/></Instances></SharedConfig>"
            )),
            _ => None,
        }
    }

    /// Takes what the machine reports of itself, and of nobody else.
    fn post(
        &self,
        request: &Request,
        reports: &mut Vec<Report>,
        read: fn(Node<'_, '_>) -> Vec<Report>,
    ) -> Response {
        if request.method != "POST" {
            return Response::status(405);
        }
        let Some(text) = std::str::from_utf8(&request.body).ok() else {
            return Response::status(400);
        };
        let Ok(document) = Document::parse(text) else {
            return Response::status(400);
        };
        let root = document.root_element();
        let container = child_text(root, &["Container", "ContainerId"]);
        let found = read(root);
        if container != Some(self.container.to_string().as_str()) || found.is_empty() {
            return Response::status(400);
        }
        reports.extend(found);
        Response::ok("text/plain", "")
    }

    /// The instance metadata service.
    pub fn instance(&self, request: &Request) -> Response {
        let refused = |why: &str| {
            let newest: Vec<&str> = API_VERSIONS.iter().rev().take(3).copied().collect();
            let body = json!({ "error": format!("Bad request. {why}"), "newest-versions": newest });
            Response::of(400, JSON, body.to_string())
        };
        let has_header = request
            .header("metadata")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if !has_header || request.header("x-forwarded-for").is_some() {
            return refused("Required metadata header not specified");
        }
        if request.path.trim_end_matches('/') == "/metadata/versions" {
            return get(request, JSON, || {
                json!({ "apiVersions": API_VERSIONS }).to_string()
            });
        }
        let Some(below) = request.path.strip_prefix("/metadata/instance") else {
            return Response::not_found();
        };
        match request.query("api-version") {
            None => return refused("api-version was not specified in the request"),
            Some(v) if !API_VERSIONS.contains(&v) => {
                return refused("api-version is invalid or was not specified in the request");
            }
            Some(_) => {}
        }
        let whole = self.metadata();
        let pointer = below.trim_end_matches('/');
        match (whole.pointer(pointer), request.query("format")) {
            (None, _) => Response::not_found(),
            (Some(Value::String(text)), Some("text")) => {
                get(request, "text/plain", || text.clone())
            }
            (Some(value), _) => get(request, JSON, || value.to_string()),
        }
    }

    fn metadata(&self) -> Value {
        json!({
            "compute": {
                "azEnvironment": "AzurePublicCloud",
                "customData": "",
                "location": "westeurope",
                "name": self.host_name,
                "osProfile": {
                    "adminUsername": self.user,
                    "computerName": self.host_name,
                    "disablePasswordAuthentication": "false",
                },
                "osType": "Windows",
                "provider": "Microsoft.Compute",
                "publicKeys": [],
                "resourceGroupName": "winimg",
                "subscriptionId": Uuid::nil().to_string(),
                "tags": "",
                "userData": "",
                "vmId": self.id.to_string(),
                "vmSize": "Standard_D2s_v3",
                "zone": "",
            },
            "network": { "interface": [] },
        })
    }
}

fn get(request: &Request, kind: &'static str, text: impl FnOnce() -> String) -> Response {
    match request.method.as_str() {
        "GET" => Response::ok(kind, text()),
        _ => Response::status(405),
    }
}

fn versions() -> String {
    let supported: String = WIRE_VERSIONS
        .iter()
        .map(|v| format!("<Version>{v}</Version>"))
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Versions><Preferred><Version>{}</Version></Preferred>\
         <Supported>{supported}</Supported></Versions>",
        WIRE_VERSIONS[0]
    )
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|n| n.has_tag_name(name))
}

fn child_text<'a>(node: Node<'a, '_>, path: &[&str]) -> Option<&'a str> {
    let end = path.iter().try_fold(node, |at, name| child(at, name))?;
    end.text().map(str::trim)
}

fn health(root: Node<'_, '_>) -> Vec<Report> {
    let role = ["Container", "RoleInstanceList", "Role", "Health"];
    let Some(health) = role.iter().try_fold(root, |at, name| child(at, name)) else {
        return Vec::new();
    };
    let Some(state) = child_text(health, &["State"]) else {
        return Vec::new();
    };
    let detail = |name| child_text(health, &["Details", name]).map(str::to_owned);
    vec![Report::Health {
        state: state.to_owned(),
        sub_status: detail("SubStatus"),
        description: detail("Description"),
    }]
}

fn properties(root: Node<'_, '_>) -> Vec<Report> {
    let path = ["Container", "RoleInstances", "RoleInstance", "Properties"];
    let Some(all) = path.iter().try_fold(root, |at, name| child(at, name)) else {
        return Vec::new();
    };
    let named = all.children().filter(|n| n.has_tag_name("Property"));
    named
        .filter_map(|property| {
            Some(Report::Property {
                name: property.attribute("name")?.to_owned(),
                value: property.attribute("value")?.to_owned(),
            })
        })
        .collect()
}
