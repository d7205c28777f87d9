//! The scripts beside `host.ps1`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::Host;
use crate::cmdlets::Context;
use crate::config::Config;
use crate::engine::Power;
use crate::object::{Object, Thing};
use crate::refusal::Refusal;
use crate::syntax::Argument;

impl Host {
    pub(super) fn script(
        &mut self,
        context: &mut Context<'_>,
        name: &str,
        given: &BTreeMap<String, Argument>,
    ) -> Result<Vec<Object>, Refusal> {
        let text = |name: &str| match given.get(name) {
            Some(Argument::Text(text)) => Ok(text.clone()),
            _ => Err(Refusal::stand_in(format!(
                "the script wants a text for -{name}"
            ))),
        };
        let number = |name: &str| match given.get(name) {
            Some(Argument::Number(n)) => {
                u32::try_from(*n).map_err(|_| Refusal::stand_in(format!("-{name} is {n}")))
            }
            _ => Err(Refusal::stand_in(format!(
                "the script wants a number for -{name}"
            ))),
        };
        let wanted: &[&str] = match name {
            "credential" => &["User", "Password"],
            "own" => &["VmId"],
            "screen" => &["VmId", "Width", "Height"],
            "key" => &["VmId", "Key"],
            _ => &[],
        };
        if !given.keys().map(String::as_str).eq(sorted(wanted)) {
            return Err(Refusal::stand_in(format!("script:{name} takes {wanted:?}")));
        }
        let properties = match name {
            "probe" => probe(&self.config, context),
            "credential" => {
                let thing = Thing::Credential {
                    user: text("User")?,
                    password: text("Password")?,
                };
                return Ok(vec![Object::new(thing, json!({"UserName": text("User")?}))]);
            }
            "own" => {
                self.owned = text("VmId")?.to_lowercase();
                json!({"owned": self.owned})
            }
            "screen" => screen(context, &text("VmId")?, number("Width")?, number("Height")?)?,
            _ => {
                let (id, key) = (text("VmId")?.to_lowercase(), number("Key")?);
                if context.power(&id)? != Power::Running {
                    return Err(Refusal::stand_in(format!(
                        "no running machine has the id {id}"
                    )));
                }
                context.engine(&id)?.key(key).map_err(Refusal::stand_in)?;
                json!({"returned": 0})
            }
        };
        Ok(vec![Object::new(Thing::Plain, properties)])
    }
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}

fn probe(config: &Config, context: &Context<'_>) -> Value {
    let host = &config.host;
    let service = if context.held.state.service_stopped {
        "Stopped"
    } else {
        &host.service
    };
    json!({
        "os": "Microsoft Windows Server 2022 Datacenter", "build": format!("10.0.{}", host.build), "hypervisorPresent": host.hypervisor,
        "service": service, "admin": host.elevated, "module": if host.module { "2.0.0.0" } else { "" }, "nested": false
    })
}

fn screen(context: &mut Context<'_>, id: &str, width: u32, height: u32) -> Result<Value, Refusal> {
    let id = id.to_lowercase();
    let failed = |text: String| Refusal {
        id: text.clone(),
        message: text,
        category: "OperationStopped".into(),
        kind: "System.Management.Automation.RuntimeException".into(),
    };
    if !context.held.state.vms.contains_key(&id) {
        return Err(failed(format!("no machine has the id {id}")));
    }
    // Source: Microsoft: GetVirtualSystemThumbnailImage method, return values: 32775, invalid state.
    if context.power(&id)? != Power::Running {
        return Err(failed("the screen can't be had: code 32775".into()));
    }
    if !(1..=u32::from(u16::MAX)).contains(&width) || !(1..=u32::from(u16::MAX)).contains(&height) {
        return Err(failed("the screen can't be had: code 4".into()));
    }
    let Some(picture) = context.engine(&id)?.screen() else {
        return Err(failed("the screen can't be had: code 32775".into()));
    };
    let bytes = crate::screen::thumbnail(&picture, width, height);
    Ok(json!({"width": width, "height": height, "rgb565": BASE64.encode(bytes)}))
}
