//! Azure's metadata: a provisioning disc, the wire server at 168.63.129.16 and the instance
//! metadata service.
//!
//! The wire server supports the requests of cloudbase-init 1.1.9 (azureservice.py) with the schemas
//! of Azure/WALinuxAgent (protocol/wire.py). Serves no certificates and extensions: they belong to
//! a subscription.

mod disc;

use roxmltree::{Document, Node};
use serde_json::{Value, json};
use uuid::Uuid;
use winimg_base::markup::escape_xml;

use super::{CloneIdentity, CloneReport, derive_uuid};
use crate::http::{HttpRequest, HttpResponse};

pub(super) use disc::create_disc;

/// API versions of the wire server.
const WIRE_VERSIONS: [&str; 2] = ["2015-04-05", "2012-11-30"];
/// API versions of the instance metadata service, newest last (Microsoft: Azure Instance Metadata
/// Service, "Supported API versions").
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
/// Incarnation of the goal state, which never changes.
const INCARNATION: u32 = 1;

const XML: &str = "text/xml; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";

/// Derives Azure's identifier of the virtual machine.
fn derive_vm_id(identity: &CloneIdentity) -> Uuid {
    derive_uuid(&identity.instance, "Azure machine")
}

#[derive(Debug)]
pub(super) struct AzureService {
    /// Identifier of the virtual machine.
    id: Uuid,
    container: Uuid,
    role_instance: String,
    host_name: String,
    user: String,
}

impl AzureService {
    pub fn new(identity: &CloneIdentity) -> Self {
        let id = derive_vm_id(identity);
        Self {
            id,
            container: derive_uuid(&identity.instance, "Azure container"),
            role_instance: format!("{id}._{}", identity.host_name),
            host_name: identity.host_name.clone(),
            user: identity.user.clone(),
        }
    }

    /// Answers a request to the wire server.
    pub fn handle_wire(
        &self,
        request: &HttpRequest,
        reports: &mut Vec<CloneReport>,
    ) -> HttpResponse {
        let component = request
            .query("comp")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let path = request.path.trim_end_matches('/');
        if (path, component.as_str()) == ("", "versions") {
            return get(request, XML, render_versions);
        }
        let config = format!("/machine/{}/{}", self.container, self.role_instance);
        if path != "/machine" && path != config {
            return HttpResponse::not_found();
        }
        // All requests other than the list of versions name one.
        let version = request.header("x-ms-version");
        if version.is_none_or(|v| !WIRE_VERSIONS.contains(&v)) {
            return HttpResponse::from_status(400);
        }
        match (path == config, component.as_str()) {
            (true, "config") => match self.render_config(request.query("type").unwrap_or_default())
            {
                Some(text) => get(request, XML, || text),
                None => HttpResponse::not_found(),
            },
            (false, "goalstate") => get(request, XML, || self.goal_state()),
            (false, "health") => self.accept_report(request, reports, parse_health),
            (false, "roleproperties") => self.accept_report(request, reports, parse_properties),
            _ => HttpResponse::not_found(),
        }
    }

    fn goal_state(&self) -> String {
        let address = format!(
            "http://168.63.129.16:80/machine/{}/{}?comp=config\
             &amp;incarnation={INCARNATION}&amp;type=",
            self.container,
            escape_xml(&self.role_instance)
        );
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
             <GoalState xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
             xsi:noNamespaceSchemaLocation=\"goalstate10.xsd\">\
             <Version>2012-11-30</Version><Incarnation>{INCARNATION}</Incarnation>\
             <Machine><ExpectedState>Started</ExpectedState>\
             <StopRolesDeadlineHint>300000</StopRolesDeadlineHint>\
             <LBProbePorts><Port>16001</Port></LBProbePorts>\
             <ExpectHealthReport>FALSE</ExpectHealthReport></Machine>\
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

    /// Returns a part of the machine's configuration, by its address in the goal state.
    fn render_config(&self, kind: &str) -> Option<String> {
        let instance = escape_xml(&self.role_instance);
        let id = self.id;
        match kind.to_ascii_lowercase().as_str() {
            "hostingenvironmentconfig" => Some(format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
                 <HostingEnvironmentConfig version=\"1.0.0.0\" \
                 goalStateIncarnation=\"{INCARNATION}\">\
                 <StoredCertificates></StoredCertificates>\
                 <Deployment name=\"{id}\" guid=\"{{{id}}}\" incarnation=\"0\"><Service \
                 name=\"{id}\" guid=\"{{{id}}}\"/>\
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

    /// Accepts the machine's reports about itself.
    fn accept_report(
        &self,
        request: &HttpRequest,
        reports: &mut Vec<CloneReport>,
        read: fn(Node<'_, '_>) -> Vec<CloneReport>,
    ) -> HttpResponse {
        if request.method != "POST" {
            return HttpResponse::from_status(405);
        }
        let Some(text) = std::str::from_utf8(&request.body).ok() else {
            return HttpResponse::from_status(400);
        };
        let Ok(document) = Document::parse(text) else {
            return HttpResponse::from_status(400);
        };
        let root = document.root_element();
        let container = child_text(root, &["Container", "ContainerId"]);
        let found = read(root);
        if container != Some(self.container.to_string().as_str()) || found.is_empty() {
            return HttpResponse::from_status(400);
        }
        reports.extend(found);
        HttpResponse::ok("text/plain", "")
    }

    /// Answers a request to the instance metadata service.
    pub fn handle_instance(&self, request: &HttpRequest) -> HttpResponse {
        let has_header = request
            .header("metadata")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if !has_header || request.header("x-forwarded-for").is_some() {
            return bad_request("Required metadata header not specified");
        }
        if request.path.trim_end_matches('/') == "/metadata/versions" {
            return get(request, JSON, || {
                json!({ "apiVersions": API_VERSIONS }).to_string()
            });
        }
        let Some(below) = request.path.strip_prefix("/metadata/instance") else {
            return HttpResponse::not_found();
        };
        match request.query("api-version") {
            None => return bad_request("api-version was not specified in the request"),
            Some(v) if !API_VERSIONS.contains(&v) => {
                return bad_request("api-version is invalid or was not specified in the request");
            }
            Some(_) => {}
        }
        let whole = self.render_metadata();
        let pointer = below.trim_end_matches('/');
        match (whole.pointer(pointer), request.query("format")) {
            (None, _) => HttpResponse::not_found(),
            (Some(Value::String(text)), Some("text")) => {
                get(request, "text/plain", || text.clone())
            }
            (Some(value), _) => get(request, JSON, || value.to_string()),
        }
    }

    fn render_metadata(&self) -> Value {
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

fn bad_request(why: &str) -> HttpResponse {
    let newest: Vec<&str> = API_VERSIONS.iter().rev().take(3).copied().collect();
    let body = json!({ "error": format!("Bad request. {why}"), "newest-versions": newest });
    HttpResponse::new(400, JSON, body.to_string())
}

fn get(request: &HttpRequest, kind: &'static str, text: impl FnOnce() -> String) -> HttpResponse {
    match request.method.as_str() {
        "GET" => HttpResponse::ok(kind, text()),
        _ => HttpResponse::from_status(405),
    }
}

fn render_versions() -> String {
    let supported: String = WIRE_VERSIONS
        .iter()
        .map(|v| format!("<Version>{v}</Version>"))
        .collect();
    format!(
        "<?xml version=\"1.0\" \
         encoding=\"utf-8\"?><Versions><Preferred><Version>{}</Version></Preferred>\
         <Supported>{supported}</Supported></Versions>",
        WIRE_VERSIONS[0]
    )
}

fn find_child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|n| n.has_tag_name(name))
}

fn child_text<'a>(node: Node<'a, '_>, path: &[&str]) -> Option<&'a str> {
    let end = path
        .iter()
        .try_fold(node, |at, name| find_child(at, name))?;
    end.text().map(str::trim)
}

fn parse_health(root: Node<'_, '_>) -> Vec<CloneReport> {
    let role = ["Container", "RoleInstanceList", "Role", "Health"];
    let Some(health) = role.iter().try_fold(root, |at, name| find_child(at, name)) else {
        return Vec::new();
    };
    let Some(state) = child_text(health, &["State"]) else {
        return Vec::new();
    };
    vec![CloneReport::Health {
        state: state.to_owned(),
        sub_status: child_text(health, &["Details", "SubStatus"]).map(str::to_owned),
        description: child_text(health, &["Details", "Description"]).map(str::to_owned),
    }]
}

fn parse_properties(root: Node<'_, '_>) -> Vec<CloneReport> {
    let path = ["Container", "RoleInstances", "RoleInstance", "Properties"];
    let Some(all) = path.iter().try_fold(root, |at, name| find_child(at, name)) else {
        return Vec::new();
    };
    let named = all.children().filter(|n| n.has_tag_name("Property"));
    named
        .filter_map(|property| {
            Some(CloneReport::Property {
                name: property.attribute("name")?.to_owned(),
                value: property.attribute("value")?.to_owned(),
            })
        })
        .collect()
}
