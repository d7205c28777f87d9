//! Requirements of a build on a user's own answer file: the command that installs the guest agent,
//! and the driver folder without which Setup sees no disk.
//!
//! Looks at the commands of the answer file only, not into the scripts that they run.

use std::path::PathBuf;

use roxmltree::{Document, Node};

use winimg_base::diag::Diagnostic;
use winimg_base::error::Result;
use winimg_base::text::{Located, SourceText};
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::{DiskBus, Recipe};

use super::lint::{NAMESPACE, WCM, find_components, find_element, find_text, iter_children};
use super::template::render_all;

const DEPLOYMENT_COMPONENT: &str = "Microsoft-Windows-Deployment";
const DRIVERS_COMPONENT: &str = "Microsoft-Windows-PnpCustomizationsWinPE";
const IDENTITY: &str = "processorArchitecture=\"amd64\" publicKeyToken=\"31bf3856ad364e35\" \
                        language=\"neutral\" versionScope=\"nonSxS\"";

/// Runs `stage.cmd`, as the built-in template does.
const STAGE_COMMAND: &str = "cmd.exe /c for %i in (D E F G H) do if exist %i:\\winimg\\stage.cmd \
                     call %i:\\winimg\\stage.cmd %i:";

const DRIVER_PATHS: &str = r#"<DriverPaths>
{{#each driver_paths}}
  <PathAndCredentials wcm:action="add" wcm:keyValue="{{key}}">
    <Path>{{path}}</Path>
  </PathAndCredentials>
{{/each}}
</DriverPaths>"#;

/// The cure for users who know that their file works as it is.
const LINT_CURE: &str = "if this file is known to work without it, set setup.lint = \"warn\"";

/// Returns complaints about the recipe's own answer file, each at its line of the recipe and with
/// the XML to paste. Without a platform, those of all platforms apply. Returns none if the recipe
/// has no file of its own, or one that is not an answer file, which the lint reports.
pub fn check_contract(
    template: &SourceText,
    recipe: &Recipe,
    platform: Option<HypervisorKind>,
) -> Result<Vec<Diagnostic>> {
    let Some(own) = &recipe.setup.answer_file else {
        return Ok(Vec::new());
    };
    let files = render_all(template, recipe)?;
    let mut documents = Vec::new();
    for xml in &files {
        match Document::parse(xml.expose()) {
            Ok(document) => documents.push(document),
            Err(_) => return Ok(Vec::new()),
        }
    }
    let root = documents.first().map(Document::root_element);
    let Some(root) = root.filter(|root| root.has_tag_name((NAMESPACE, "unattend"))) else {
        return Ok(Vec::new());
    };
    let mut roots = documents.iter().map(Document::root_element);
    let has_stage = roots.clone().any(has_stage_command);
    let has_drivers = roots.any(has_driver_paths);
    let needs_drivers = recipe.machine.disk_bus == DiskBus::Virtio
        && platform.is_none_or(|platform| platform.spec().needs_virtio);
    let stage = (!has_stage).then(|| missing_stage_error(root, own));
    let driver = (needs_drivers && !has_drivers).then(|| missing_driver_error(root, own));
    Ok(stage.into_iter().chain(driver).collect())
}

/// Returns true if an answer file from this template runs `\winimg\stage.cmd` in the specialize
/// pass on some medium.
pub fn is_staged(template: &SourceText, recipe: &Recipe) -> Result<bool> {
    let files = render_all(template, recipe)?;
    let mut documents = files
        .iter()
        .filter_map(|xml| Document::parse(xml.expose()).ok());
    Ok(documents.any(|document| has_stage_command(document.root_element())))
}

fn has_stage_command(root: Node) -> bool {
    find_components(root, Some("specialize"), DEPLOYMENT_COMPONENT)
        .into_iter()
        .filter(|component| {
            let architecture = component.attribute("processorArchitecture");
            architecture.is_none_or(|is| is.eq_ignore_ascii_case("amd64"))
        })
        .flat_map(|component| {
            iter_children(component, "RunSynchronous")
                .chain(iter_children(component, "RunAsynchronous"))
        })
        .flat_map(|list| list.children().filter(Node::is_element))
        .any(|command| find_text(command, "Path").is_some_and(is_stage))
}

/// Returns true for a command line that names `winimg` and `stage.cmd`, in one path or after a
/// change of the working folder.
fn is_stage(command: &str) -> bool {
    contains_name(command, "winimg") && contains_name(command, "stage.cmd")
}

fn contains_name(command: &str, name: &str) -> bool {
    command
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
        .any(|part| part.eq_ignore_ascii_case(name))
}

fn has_driver_paths(root: Node) -> bool {
    find_components(root, Some("windowsPE"), DRIVERS_COMPONENT)
        .into_iter()
        .flat_map(|component| iter_children(component, "DriverPaths"))
        .flat_map(|list| iter_children(list, "PathAndCredentials"))
        .any(|item| find_text(item, "Path").is_some_and(|path| !path.is_empty()))
}

fn missing_stage_error(root: Node, own: &Located<PathBuf>) -> Diagnostic {
    let fact = format!(
        "nothing in {} runs winimg's \\winimg\\stage.cmd in the specialize pass: no guest agent \
         would start, and the build could not reach Windows",
        own.value.display()
    );
    Diagnostic::error(fact)
        .at(&own.place, "only this file's commands run")
        .help(render_stage_block(root))
        .help(LINT_CURE)
}

/// Returns the position of the command and the smallest XML that adds it.
fn render_stage_block(root: Node) -> String {
    let component = find_components(root, Some("specialize"), DEPLOYMENT_COMPONENT)
        .first()
        .copied();
    let list = component.and_then(|component| find_element(component, "RunSynchronous"));
    let last_order = list
        .into_iter()
        .flat_map(|list| iter_children(list, "RunSynchronousCommand"))
        .filter_map(|command| find_element(command, "Order")?.text()?.trim().parse().ok())
        .max();
    let order = last_order.unwrap_or(0u32).saturating_add(1);
    let command = format!(
        "<RunSynchronousCommand{} wcm:action=\"add\">\n  <Order>{order}</Order>\n  \
         <Path>{STAGE_COMMAND}</Path>\n</RunSynchronousCommand>",
        render_wcm_namespace(root)
    );
    if list.is_some() {
        let place = format!("to <RunSynchronous> of {DEPLOYMENT_COMPONENT} in the specialize pass");
        return format_addition(&place, &command);
    }
    let list = wrap_element("RunSynchronous", "", &command);
    if component.is_some() {
        return format_addition(
            &format!("to {DEPLOYMENT_COMPONENT} in the specialize pass"),
            &list,
        );
    }
    format_pass_addition(
        root,
        "specialize",
        &wrap_component(DEPLOYMENT_COMPONENT, &list),
    )
}

fn missing_driver_error(root: Node, own: &Located<PathBuf>) -> Diagnostic {
    let fact = format!(
        "{} names no driver folder in the windowsPE pass: Windows Setup would not see the \
         machine's virtio disk",
        own.value.display()
    );
    let paths = DRIVER_PATHS.replace(
        " wcm:action",
        &format!("{} wcm:action", render_wcm_namespace(root)),
    );
    let help = match find_components(root, Some("windowsPE"), DRIVERS_COMPONENT).first() {
        Some(_) => format_addition(
            &format!("to {DRIVERS_COMPONENT} in the windowsPE pass"),
            &paths,
        ),
        None => format_pass_addition(
            root,
            "windowsPE",
            &wrap_component(DRIVERS_COMPONENT, &paths),
        ),
    };
    Diagnostic::error(fact)
        .at(&own.place, "`disk_bus` of the machine is \"virtio\"")
        .help(help)
        .help("or build with disk_bus = \"nvme\" or \"ahci\", which Windows has drivers for")
        .help(LINT_CURE)
}

/// Returns the namespace declaration that the block needs unless the file's root has it.
fn render_wcm_namespace(root: Node) -> String {
    match root.lookup_namespace_uri(Some("wcm")) {
        Some(WCM) => String::new(),
        _ => format!(" xmlns:wcm=\"{WCM}\""),
    }
}

fn wrap_component(name: &str, inside: &str) -> String {
    wrap_element("component", &format!(" name=\"{name}\" {IDENTITY}"), inside)
}

fn format_pass_addition(root: Node, pass: &str, component: &str) -> String {
    let mut settings = iter_children(root, "settings");
    if settings.any(|settings| settings.attribute("pass") == Some(pass)) {
        return format_addition(&format!("to the {pass} pass"), component);
    }
    let attribute = format!(" pass=\"{pass}\"");
    format_addition(
        "to <unattend>",
        &wrap_element("settings", &attribute, component),
    )
}

fn wrap_element(name: &str, attributes: &str, inside: &str) -> String {
    let inside: Vec<String> = inside.lines().map(|line| format!("  {line}")).collect();
    format!("<{name}{attributes}>\n{}\n</{name}>", inside.join("\n"))
}

fn format_addition(place: &str, xml: &str) -> String {
    format!("add {place}:\n{xml}")
}
