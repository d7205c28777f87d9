//! What a build needs of an answer file of the user's own: the command that brings in the guest
//! agent, and the folder of the driver without which Setup sees no disk.
//!
//! Sees commands of the answer file alone: what a script of the user's runs is not known here.

use std::path::PathBuf;

use roxmltree::{Document, Node};

use winimg_base::diag::Diagnostic;
use winimg_base::error::Result;
use winimg_base::text::{Located, Source};
use winimg_machine::vm::Platform;
use winimg_recipe::recipe::{DiskBus, Recipe};

use super::lint::{NAMESPACE, WCM, at, components, named, text_at};
use super::template::renderings;

const DEPLOYMENT: &str = "Microsoft-Windows-Deployment";
const DRIVERS: &str = "Microsoft-Windows-PnpCustomizationsWinPE";
const IDENTITY: &str = "processorArchitecture=\"amd64\" publicKeyToken=\"31bf3856ad364e35\" language=\"neutral\" versionScope=\"nonSxS\"";

/// Runs `stage.cmd`, as the built-in template does.
const STAGE: &str = r"cmd.exe /c for %i in (D E F G H) do if exist %i:\winimg\stage.cmd call %i:\winimg\stage.cmd %i:";

const DRIVER_PATHS: &str = r#"<DriverPaths>
{{#each driver_paths}}
  <PathAndCredentials wcm:action="add" wcm:keyValue="{{key}}"><Path>{{path}}</Path></PathAndCredentials>
{{/each}}
</DriverPaths>"#;

/// Where there is no cure in XML.
const OTHERWISE: &str =
    "where Windows is known to be built by this file all the same, set setup.lint = \"warn\"";

/// Returns complaints about the recipe's own answer file, each at its line of the recipe and with
/// the XML to paste. Without a platform those of QEMU. Nothing where the recipe has none of its
/// own, or one that is no answer file at all, which the lint complains about.
pub fn check_contract(
    template: &Source,
    recipe: &Recipe,
    platform: Option<Platform>,
) -> Result<Vec<Diagnostic>> {
    let Some(own) = &recipe.setup.answer_file else {
        return Ok(Vec::new());
    };
    let files = renderings(template, recipe)?;
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
    let lacks = |has: fn(Node) -> bool| !documents.iter().any(|d| has(d.root_element()));
    let sees_virtio =
        recipe.machine.disk_bus == DiskBus::Virtio && platform != Some(Platform::HyperV);
    let stage = lacks(runs_stage).then(|| without_stage(root, own));
    let driver = (sees_virtio && lacks(names_drivers)).then(|| without_driver(root, own));
    Ok(stage.into_iter().chain(driver).collect())
}

/// Returns true where an answer file from this template runs `\winimg\stage.cmd` in the specialize
/// pass on some medium.
pub fn is_staged(template: &Source, recipe: &Recipe) -> Result<bool> {
    let files = renderings(template, recipe)?;
    let mut documents = files
        .iter()
        .filter_map(|xml| Document::parse(xml.expose()).ok());
    Ok(documents.any(|document| runs_stage(document.root_element())))
}

fn runs_stage(root: Node) -> bool {
    let components = components(root, Some("specialize"), DEPLOYMENT).into_iter();
    let components = components.filter(|component| {
        let architecture = component.attribute("processorArchitecture");
        architecture.is_none_or(|is| is.eq_ignore_ascii_case("amd64"))
    });
    let lists = components.flat_map(|component| {
        named(component, "RunSynchronous").chain(named(component, "RunAsynchronous"))
    });
    let mut commands = lists.flat_map(|list| list.children().filter(Node::is_element));
    commands.any(|command| text_at(command, "Path").is_some_and(is_stage))
}

/// Returns true for a command line that names `winimg` and `stage.cmd`, be it in one path or after
/// a change of the folder.
fn is_stage(command: &str) -> bool {
    let is_part_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let has = |wanted: &str| {
        let mut names = command.split(|c| !is_part_of_name(c));
        names.any(|name| name.eq_ignore_ascii_case(wanted))
    };
    has("winimg") && has("stage.cmd")
}

fn names_drivers(root: Node) -> bool {
    let components = components(root, Some("windowsPE"), DRIVERS).into_iter();
    let lists = components.flat_map(|component| named(component, "DriverPaths"));
    let mut paths = lists.flat_map(|list| named(list, "PathAndCredentials"));
    paths.any(|item| text_at(item, "Path").is_some_and(|path| !path.is_empty()))
}

fn without_stage(root: Node, own: &Located<PathBuf>) -> Diagnostic {
    let fact = format!(
        r"nothing in {} runs winimg's \winimg\stage.cmd in the pass specialize: no guest agent would start, and the build could not reach Windows",
        own.value.display()
    );
    Diagnostic::error(fact)
        .at(&own.place, "its commands are the file's own")
        .help(stage_block(root))
        .help(OTHERWISE)
}

/// Returns where to put the command, and the XML: as little as the file lacks.
fn stage_block(root: Node) -> String {
    let component = components(root, Some("specialize"), DEPLOYMENT);
    let component = component.first().copied();
    let list = component.and_then(|component| at(component, "RunSynchronous"));
    let orders = list
        .into_iter()
        .flat_map(|list| named(list, "RunSynchronousCommand"));
    let orders = orders.filter_map(|command| at(command, "Order")?.text()?.trim().parse().ok());
    let order = orders.max().unwrap_or(0u32).saturating_add(1);
    let command = format!(
        "<RunSynchronousCommand{} wcm:action=\"add\">\n  <Order>{order}</Order>\n  <Path>{STAGE}</Path>\n\
         </RunSynchronousCommand>",
        wcm(root)
    );
    if list.is_some() {
        let place = format!("to <RunSynchronous> of {DEPLOYMENT} in the pass specialize");
        return block(&place, &command);
    }
    let list = enclose("RunSynchronous", "", &command);
    if component.is_some() {
        return block(&format!("to {DEPLOYMENT} in the pass specialize"), &list);
    }
    in_pass(root, "specialize", &component_of(DEPLOYMENT, &list))
}

fn without_driver(root: Node, own: &Located<PathBuf>) -> Diagnostic {
    let fact = format!(
        "{} names no driver folder in the pass windowsPE: Windows Setup would not see the machine's virtio disk",
        own.value.display()
    );
    let paths = DRIVER_PATHS.replace(" wcm:action", &format!("{} wcm:action", wcm(root)));
    let help = match components(root, Some("windowsPE"), DRIVERS).first() {
        Some(_) => block(&format!("to {DRIVERS} in the pass windowsPE"), &paths),
        None => in_pass(root, "windowsPE", &component_of(DRIVERS, &paths)),
    };
    Diagnostic::error(fact)
        .at(&own.place, "`disk_bus` of the machine is \"virtio\"")
        .help(help)
        .help("or build with disk_bus = \"nvme\" or \"ahci\", whose drivers Windows has")
        .help(OTHERWISE)
}

/// The declaration that the block needs where the file's root does not make it.
fn wcm(root: Node) -> String {
    match root.lookup_namespace_uri(Some("wcm")) {
        Some(WCM) => String::new(),
        _ => format!(" xmlns:wcm=\"{WCM}\""),
    }
}

fn component_of(name: &str, inside: &str) -> String {
    enclose("component", &format!(" name=\"{name}\" {IDENTITY}"), inside)
}

fn in_pass(root: Node, pass: &str, component: &str) -> String {
    let mut settings = named(root, "settings");
    if settings.any(|settings| settings.attribute("pass") == Some(pass)) {
        return block(&format!("to the pass {pass}"), component);
    }
    let attribute = format!(" pass=\"{pass}\"");
    block("to <unattend>", &enclose("settings", &attribute, component))
}

fn enclose(name: &str, attributes: &str, inside: &str) -> String {
    let inside: Vec<String> = inside.lines().map(|line| format!("  {line}")).collect();
    format!("<{name}{attributes}>\n{}\n</{name}>", inside.join("\n"))
}

fn block(place: &str, xml: &str) -> String {
    format!("add {place}:\n{xml}")
}
