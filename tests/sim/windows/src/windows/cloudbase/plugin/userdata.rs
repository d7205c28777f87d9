//! UserDataPlugin and LocalScriptsPlugin (`userdata.py`, `localscripts.py`), and the cloud-config that user data can be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{DONE, Ended, machine};
use crate::windows::cloudbase::metadata::{Context, Fault, Found, Service, failed};
use crate::windows::cloudbase::{http, script, yaml};

const MODULE: &str = "plugins.common.userdata";
/// cloud-config's modules in the order in which they run (`cloudconfigplugins/factory.py`).
const ORDER: [&str; 9] = [
    "write_files",
    "set_timezone",
    "timezone",
    "set_hostname",
    "hostname",
    "ntp",
    "groups",
    "users",
    "runcmd",
];

pub fn user_data(c: Context<'_>, service: &dyn Service) -> Found<Ended> {
    let data = match service.decoded_user_data() {
        Err(Fault::Missing) => return Ok(DONE),
        other => other?.unwrap_or_default(),
    };
    if data.is_empty() {
        return Ok(DONE);
    }
    c.log
        .debug(MODULE, &format!("User data content length: {}", data.len()));
    if let Some(path) = &c.settings.userdata_save_path {
        write(c, &c.p.env.expand(path), &data)?;
    }
    if !c.settings.process_userdata {
        return Ok(DONE);
    }
    let text = String::from_utf8(data)
        .map_err(|_| failed("argument of type 'NoneType' is not iterable"))?;
    let head = text.split("\n\n").next().unwrap_or_default();
    if head.contains("Content-Type: multipart") {
        return Err(Fault::NotModelled(
            "user data in several parts (MIME)".to_owned(),
        ));
    }
    let text = template(service, &text)?;
    if text.starts_with("#cloud-config") {
        return cloud_config(c, &text);
    }
    if text.trim_start().starts_with("-----BEGIN CERTIFICATE-----") {
        c.log.debug(MODULE, "Found X509 certificate in userdata");
        return Ok(DONE);
    }
    run_script(c, text.as_bytes())
}

fn ended(code: u32) -> Ended {
    let (again, restart) = script::verdict(code);
    Ended { again, restart }
}

/// Bytes as Python shows them, for `execute_process` decodes none, with the place that oslo.log writes behind a line of level DEBUG.
fn shown(output: &str) -> String {
    let mut text = String::from("b'");
    for byte in output.bytes() {
        match byte {
            b'\\' | b'\'' => text.extend(['\\', byte.into()]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(byte.into()),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text + "' execute_user_data_script userdatautils.py:93"
}

/// The exit code of a script, 0 unless it could be run.
fn logged(c: Context<'_>, module: &str, what: &str, ran: Found<(u32, String)>) -> Found<u32> {
    match ran {
        Ok((code, output)) => {
            let text = format!("User_data stdout:\n{}", shown(&output));
            c.log.debug(module, &text);
            Ok(code)
        }
        Err(Fault::NotModelled(why)) => Err(Fault::NotModelled(why)),
        Err(fault) => {
            let text = format!("An error occurred during {what} execution: '{fault:?}'");
            c.log.warning(module, &text);
            Ok(0)
        }
    }
}

fn run_script(c: Context<'_>, data: &[u8]) -> Found<Ended> {
    let module = "plugins.common.userdatautils";
    let Some(kind) = script::by_content(data) else {
        c.log.warning(module, "Unsupported user_data format");
        return Ok(DONE);
    };
    let ran = script::run_data(c.p, kind, data);
    let code = logged(c, module, "user_data", ran)?;
    c.log.info(
        module,
        &format!("User_data script ended with return code: {code}"),
    );
    Ok(ended(code))
}

pub fn local_scripts(c: Context<'_>) -> Found<Ended> {
    let Some(folder) = &c.settings.local_scripts_path else {
        return Ok(DONE);
    };
    let folder = folder.trim_end_matches('\\');
    let found = c.p.locate(folder).map_err(|e| failed(e.text()))?;
    if !found.is_dir() {
        return Err(failed(format!(
            "[WinError 3] The system cannot find the path specified: '{folder}'"
        )));
    }
    let mut names: Vec<String> = crate::windows::volume::list(&found.host)
        .into_iter()
        .filter(|(_, meta)| meta.is_file())
        .map(|(name, _)| name)
        .collect();
    names.sort();
    let mut all = DONE;
    for name in names {
        let path = format!(r"{folder}\{name}");
        let code = local_script(c, &path)?;
        let one = ended(code);
        all.again |= one.again;
        all.restart |= one.restart;
        if all.restart {
            break;
        }
    }
    Ok(all)
}

fn local_script(c: Context<'_>, path: &str) -> Found<u32> {
    let module = "plugins.common.fileexecutils";
    let by_content = || {
        let found = c.p.locate(path).ok()?;
        script::by_content(&std::fs::read(found.host).ok()?)
    };
    let Some(kind) = script::by_extension(path).or_else(by_content) else {
        c.log.debug(
            module,
            &format!("No valid extension or header found in the userdata: {path}"),
        );
        return Ok(0);
    };
    let code = logged(c, module, "file", script::run(c.p, kind, path))?;
    c.log.info(
        module,
        &format!("Script \"{path}\" ended with exit code: {code}"),
    );
    Ok(code)
}

fn write(c: Context<'_>, path: &str, data: &[u8]) -> Found<()> {
    let found =
        c.p.locate(path)
            .map_err(|e| failed(format!("{path}: {}", e.text())))?;
    if found.read_only {
        return Err(failed(format!("{path}: The media is write protected.")));
    }
    let folder = found.host.parent().ok_or_else(|| failed("no folder"))?;
    std::fs::create_dir_all(folder).map_err(|e| failed(e.to_string()))?;
    std::fs::write(&found.host, data).map_err(|e| failed(format!("{path}: {e}")))
}

/// `## template: jinja` and expressions that are a name only; any other needs Jinja itself.
fn template(service: &dyn Service, text: &str) -> Found<String> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let kind = first.trim_end().strip_prefix("## template:").map(str::trim);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("jinja")) {
        return Ok(text.to_owned());
    }
    let host = service.host_name()?.unwrap_or_default();
    let instance = service.instance_id()?.unwrap_or_default();
    render(rest, &host, &instance)
}

fn render(text: &str, host: &str, instance: &str) -> Found<String> {
    if text.contains("{%") || text.contains("{#") {
        return Err(Fault::NotModelled(
            "a statement of Jinja in the user data".to_owned(),
        ));
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (expression, next) = after
            .split_once("}}")
            .ok_or_else(|| failed("unexpected end of template"))?;
        out.push_str(before);
        out.push_str(match expression.trim() {
            "v1.local_hostname"
            | "local_hostname"
            | "ds.meta_data.hostname"
            | "ds.meta_data.local_hostname" => host,
            "v1.instance_id" | "instance_id" | "ds.meta_data.instance_id" => instance,
            other => {
                return Err(Fault::NotModelled(format!(
                    "Jinja's {{{{ {other} }}}} in the user data"
                )));
            }
        });
        rest = next;
    }
    Ok(out + rest)
}

fn cloud_config(c: Context<'_>, text: &str) -> Found<Ended> {
    let value =
        yaml::parse(text).map_err(|why| Fault::NotModelled(format!("cloud-config: {why}")))?;
    let Value::Object(map) = value else {
        c.log.error(
            "plugins.common.userdataplugins.cloudconfig",
            "Could not process part type: 'Empty yaml stream provided.'",
        );
        return Ok(DONE);
    };
    let order = &c.settings.cloud_config_plugins;
    let place = |name: &str| {
        let listed = order.iter().position(|item| item == name);
        let known = ORDER.iter().position(|item| *item == name);
        if order.is_empty() { known } else { listed }.unwrap_or(999)
    };
    let mut modules: Vec<(&String, &Value)> = map.iter().collect();
    modules.sort_by_key(|(name, _)| place(name));
    let mut restart = false;
    for (name, value) in modules {
        let module = "plugins.common.userdataplugins.cloudconfig";
        if !order.is_empty() && !order.contains(name) {
            c.log.info(module, &format!("Plugin '{name}' is disabled"));
            continue;
        }
        let done = match name.as_str() {
            "write_files" => write_files(c, value),
            "hostname" | "set_hostname" => match value.as_str() {
                Some(name) => machine::rename(c, name),
                None => Err(failed("the host name is no text")),
            },
            "runcmd" => runcmd(c, value),
            name if ORDER.contains(&name) => {
                return Err(Fault::NotModelled(format!("cloud-config's {name}")));
            }
            other => {
                c.log.error(
                    module,
                    &format!("Plugin '{other}' is currently not supported"),
                );
                continue;
            }
        };
        match done {
            Ok(asks) => restart |= asks,
            Err(Fault::NotModelled(why)) => return Err(Fault::NotModelled(why)),
            Err(fault) => c.log.error(
                module,
                &format!("Processing plugin {name} failed: {fault:?}"),
            ),
        }
    }
    // RET_END, 1003: restart, and run again.
    Ok(Ended {
        again: restart,
        restart,
    })
}

fn write_files(c: Context<'_>, value: &Value) -> Found<bool> {
    let one = [value.clone()];
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Object(_) => &one,
        _ => return Err(failed("Can't process the type of data")),
    };
    for item in items {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let Some(path) = text("path") else {
            c.log.warning(
                "plugins.common.userdataplugins.cloudconfigplugins.write_files",
                "Missing path for a file",
            );
            continue;
        };
        let mut data = text("content").unwrap_or_default().as_bytes().to_vec();
        let encoding = text("encoding").unwrap_or_default();
        if encoding.contains("b64") || encoding.contains("base64") {
            data.retain(|byte| !byte.is_ascii_whitespace());
            data = STANDARD.decode(&data).map_err(|e| failed(e.to_string()))?;
        }
        if encoding.starts_with("gz") {
            data = http::gunzip(&data).map_err(|e| failed(e.to_string()))?;
        }
        write(c, &path.replace('/', r"\"), &data)?;
    }
    Ok(false)
}

fn runcmd(c: Context<'_>, value: &Value) -> Found<bool> {
    let Value::Array(commands) = value else {
        return Err(failed("runcmd is no list"));
    };
    let mut text = String::from("rem cmd\r\n");
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for command in commands {
        match command {
            Value::String(line) => text.push_str(line),
            Value::Array(words) => {
                text.push_str(&words.iter().map(word).collect::<Vec<_>>().join(" "))
            }
            other => {
                return Err(failed(format!(
                    "Unrecognized type '{other}' in cmd content"
                )));
            }
        }
        text.push_str("\r\n");
    }
    run_script(c, text.as_bytes()).map(|ended| ended.restart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_with_plain_names() {
        assert_eq!(
            render(
                "name: '{{ ds.meta_data.hostname }}' {{v1.instance_id}}\n",
                "node-1",
                "i-1"
            ),
            Ok("name: 'node-1' i-1\n".into())
        );
        for text in ["{% if x %}", "{{ ds.meta_data.hostname | upper }}"] {
            assert!(
                matches!(render(text, "h", "i"), Err(Fault::NotModelled(_))),
                "{text}"
            );
        }
    }
}
