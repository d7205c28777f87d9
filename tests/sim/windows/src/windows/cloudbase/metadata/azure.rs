//! Azure: the provisioning disc, found by its tag file, and the wire server (`azureservice.py`).
//!
//! The server's address comes from DHCP option 245; without it cloudbase-init asks for 150 seconds and takes
//! 168.63.129.16, which the stand-in takes at once.

use roxmltree::Document;

use super::{Context, Endpoint, Fault, Found, Report, Service, disc, failed, xml};

const VERSION: &str = "2015-04-05";
const TAG: &str = "E6DA6616-8EC4-48E0-BE93-58CE6ACE3CFB.tag";
const MODULE: &str = "metadata.services.azureservice";
const WINDOWS: [&str; 3] = [
    "Environment",
    "wa_ProvisioningSection",
    "WindowsProvisioningConfigurationSet",
];
const PLATFORM: [&str; 3] = [
    "Environment",
    "wa_PlatformSettingsSection",
    "PlatformSettings",
];

pub struct Azure<'a> {
    wire: Endpoint<'a>,
    environment: String,
}

impl<'a> Azure<'a> {
    pub fn new(c: Context<'a>) -> Self {
        let server = c.p.machine.lease().and_then(|lease| lease.wire_server);
        let server = server.unwrap_or([168, 63, 129, 16]);
        Azure {
            wire: Endpoint {
                c,
                base: format!("http://{}", std::net::Ipv4Addr::from(server)),
                headers: vec![(
                    "x-ms-guest-agent-name".to_owned(),
                    "cloudbase-init".to_owned(),
                )],
            },
            environment: String::new(),
        }
    }

    fn drive(&self) -> Found<String> {
        let labels = self.wire.c.p.machine.labels();
        let tagged = |letter: &char| disc::exists(self.wire.c, &format!(r"{letter}:\{TAG}"));
        let letters = labels.iter().map(|(letter, _)| *letter);
        let found = ['C'].into_iter().chain(letters).rfind(tagged);
        found
            .map(|letter| format!("{letter}:"))
            .ok_or_else(|| failed(format!("No drive containing file {TAG} could be found")))
    }

    fn open(&mut self) -> Found<()> {
        let versions = self.wire.text("?comp=Versions")?;
        if !supports(&versions).map_err(failed)? {
            return Err(failed(format!(
                "Unsupported Azure WireServer version: {VERSION}"
            )));
        }
        self.wire
            .headers
            .push(("x-ms-version".to_owned(), VERSION.to_owned()));
        let bytes = disc::read(self.wire.c, &self.drive()?, "ovf-env.xml")?;
        self.environment = String::from_utf8(bytes).map_err(|e| failed(e.to_string()))?;
        Document::parse(&self.environment).map_err(|e| failed(e.to_string()))?;
        Ok(())
    }

    fn provisioning(&self, name: &str) -> Found<String> {
        let document = Document::parse(&self.environment).map_err(|e| failed(e.to_string()))?;
        let node = xml::at(&document, &[&WINDOWS[..], &[name]].concat()).map_err(failed)?;
        Ok(xml::cdata(node))
    }

    /// Incarnation, container's and role instance's ids.
    fn goal_state(&self) -> Found<[String; 3]> {
        goal_state(&self.wire.text("machine?comp=goalstate")?).map_err(failed)
    }
}

fn supports(versions: &str) -> Result<bool, String> {
    let document = Document::parse(versions).map_err(|e| e.to_string())?;
    let supported = xml::at(&document, &["Versions", "Supported"])?;
    let found = xml::children(&document, supported, "Version");
    Ok(found
        .into_iter()
        .any(|version| xml::cdata(version) == VERSION))
}

fn goal_state(text: &str) -> Result<[String; 3], String> {
    let document = Document::parse(text).map_err(|e| e.to_string())?;
    let get =
        |path: &[&str]| xml::at(&document, &[&["GoalState"][..], path].concat()).map(xml::cdata);
    let expected = get(&["Machine", "ExpectedState"])?;
    if expected != "Started" {
        return Err(format!("Invalid machine expected state: {expected}"));
    }
    Ok([
        get(&["Incarnation"])?,
        get(&["Container", "ContainerId"])?,
        get(&[
            "Container",
            "RoleInstanceList",
            "RoleInstance",
            "InstanceId",
        ])?,
    ])
}

/// What is posted to the wire server, as ElementTree writes it.
fn health([incarnation, container, instance]: &[String; 3], report: Report) -> String {
    let details = |status: &str, text: &str| {
        format!(
            "<Details><SubStatus>{status}</SubStatus><Description>{text}</Description></Details>"
        )
    };
    let (state, details) = match report {
        Report::Started => (
            "NotReady",
            details(
                "Provisioning",
                "Cloudbase-Init is preparing your computer for first use...",
            ),
        ),
        Report::Completed => ("Ready", String::new()),
        Report::Failed => (
            "NotReady",
            details("ProvisioningFailed", "Provisioning failed"),
        ),
    };
    format!(
        "<?xml version='1.0' encoding='utf-8'?>\n<Health><GoalStateIncarnation>{incarnation}</GoalStateIncarnation>\
         <Container><ContainerId>{container}</ContainerId><RoleInstanceList><Role><InstanceId>{instance}</InstanceId>\
         <Health><State>{state}</State>{details}</Health></Role></RoleInstanceList></Container></Health>"
    )
}

impl Service for Azure<'_> {
    fn name(&self) -> &'static str {
        "AzureService"
    }

    fn load(&mut self) -> Found<bool> {
        match self.open() {
            Ok(()) => Ok(true),
            Err(fault @ Fault::NotModelled(_)) => Err(fault),
            Err(fault) => {
                self.wire.c.log.error(MODULE, &format!("{fault:?}"));
                Ok(false)
            }
        }
    }

    fn instance_id(&self) -> Found<Option<String>> {
        let [_, _, instance] = self.goal_state()?;
        Ok(Some(instance))
    }

    fn host_name(&self) -> Found<Option<String>> {
        self.provisioning("ComputerName").map(Some)
    }

    fn public_keys(&self) -> Found<Vec<String>> {
        Ok(Vec::new())
    }

    fn user_data(&self) -> Found<Option<Vec<u8>>> {
        match disc::read(self.wire.c, &self.drive()?, "CustomData.bin") {
            Err(Fault::Missing) if self.provisioning("CustomData").is_ok() => Err(failed(
                "Custom data configuration exists, but the custom data file is not present",
            )),
            other => other.map(Some),
        }
    }

    fn decoded_user_data(&self) -> Found<Option<Vec<u8>>> {
        self.user_data()
    }

    fn admin_username(&self) -> Found<Option<String>> {
        self.provisioning("AdminUsername").map(Some)
    }

    fn admin_password(&self) -> Found<Option<String>> {
        self.provisioning("AdminPassword").map(Some)
    }

    fn data_loss_warning(&self) -> Found<Vec<u8>> {
        disc::read(
            self.wire.c,
            &self.drive()?,
            r"$$\OEM\DATALOSS_WARNING_README.txt",
        )
    }

    fn guest_agent(&self) -> Found<Option<(bool, Option<String>)>> {
        let document = Document::parse(&self.environment).map_err(|e| failed(e.to_string()))?;
        let platform = xml::at(&document, &PLATFORM).map_err(failed)?;
        let get = |name: &str| {
            let found = xml::children(&document, platform, name);
            found.first().map(|node| xml::cdata(*node))
        };
        let provision =
            get("ProvisionGuestAgent").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        Ok(Some((provision, get("GuestAgentPackageName"))))
    }

    fn report(&self, report: Report) -> Found<()> {
        let body = health(&self.goal_state()?, report);
        let post = Endpoint {
            c: self.wire.c,
            base: self.wire.base.clone(),
            headers: [
                &self.wire.headers[..],
                &[(
                    "Content-Type".to_owned(),
                    "text/xml; charset=utf-8".to_owned(),
                )],
            ]
            .concat(),
        };
        post.request("machine?comp=health", Some(body.as_bytes()))
            .map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_server_is_asked_for_its_versions() {
        let text = "<?xml version=\"1.0\"?><Versions><Preferred><Version>2015-04-05</Version></Preferred><Supported><Version>2012-11-30</Version>VERSION</Supported></Versions>";
        assert_eq!(supports(text), Ok(false));
        assert_eq!(
            supports(&text.replace("VERSION<", "<Version>2015-04-05</Version><")),
            Ok(true)
        );
        assert!(supports("<Other/>").is_err());
    }

    #[test]
    fn a_report_names_the_container_of_the_goal_state() {
        let text = "<GoalState><Incarnation>1</Incarnation><Machine><ExpectedState>Started</ExpectedState></Machine><Container><ContainerId>c-1</ContainerId><RoleInstanceList><RoleInstance><InstanceId>i-1</InstanceId></RoleInstance></RoleInstanceList></Container></GoalState>";
        let goal = goal_state(text).unwrap();
        assert_eq!(
            health(&goal, Report::Completed),
            "<?xml version='1.0' encoding='utf-8'?>\n<Health><GoalStateIncarnation>1</GoalStateIncarnation><Container><ContainerId>c-1</ContainerId><RoleInstanceList><Role><InstanceId>i-1</InstanceId><Health><State>Ready</State></Health></Role></RoleInstanceList></Container></Health>"
        );
        assert_eq!(
            goal_state(&text.replace("Started", "Stopped")),
            Err("Invalid machine expected state: Stopped".into())
        );
    }
}
