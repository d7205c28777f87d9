//! docs/accounts.md says who can log in to a clone of each recipe: its table is compared with what the recipes do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use winimg_recipe::plan::{self, BuildPlan, PayloadEntry};
use winimg_recipe::verbs::{GeneralizeSpec, SealAnswer, UserState};
use winimg_recipe::{Recipe, Verb};

use super::{name, options_for, recipes, silent};

/// What the table says of a recipe, as far as a test can know it.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    seal: String,
    is_disabled: bool,
    users: BTreeSet<String>,
    metadata: BTreeSet<String>,
}

/// What a cell has between backticks.
fn quoted(cell: &str) -> BTreeSet<String> {
    let words = cell.split('`').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

fn table() -> BTreeMap<String, Row> {
    let docs = fs::read_to_string("docs/accounts.md").expect("docs/accounts.md");
    let rows = docs.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [recipe, seal, built_in, users, how, metadata] = cells[..] else {
            panic!("six columns: {line}");
        };
        assert!(!how.is_empty(), "{line}");
        let is_disabled = built_in.starts_with("disabled");
        assert!(is_disabled || built_in.starts_with("enabled:"), "{line}");
        let services = quoted(metadata);
        let row = Row {
            seal: seal.trim_matches('`').to_owned(),
            is_disabled,
            users: quoted(users),
            metadata: services
                .into_iter()
                .filter(|s| s.ends_with("Service"))
                .collect(),
        };
        (recipe.trim_matches('`').to_owned(), row)
    })
    .collect()
}

/// The answer file of the clone, as it goes into the image.
fn answer_file(plan: &BuildPlan) -> Option<&str> {
    plan.payload.iter().find_map(|entry| match entry {
        PayloadEntry::Text { file, text, .. } if file == "seal.xml" => Some(text.as_str()),
        _ => None,
    })
}

fn value<'r>(recipe: &'r Recipe, var: &str) -> &'r str {
    let found = recipe.vars.iter().find(|v| v.name == var);
    found.map_or("", |v| v.value.as_str())
}

/// What the recipe does, by its seal, its users and cloudbase-init's settings.
fn does(recipe: &Recipe) -> Row {
    let plan = plan::make(recipe).expect("a plan");
    let verbs = || {
        let run = recipe.steps.iter().filter(|step| step.skipped.is_none());
        run.map(|step| &step.verb)
    };
    let seal = verbs().find_map(|verb| match verb {
        Verb::Generalize(GeneralizeSpec { answer_file, .. }) => Some(answer_file),
        _ => None,
    });
    let seal = match seal {
        None => "not sealed".to_owned(),
        Some(SealAnswer::None) => "none".to_owned(),
        Some(SealAnswer::BuiltIn) => "winimg's own".to_owned(),
        Some(SealAnswer::Own(own)) => {
            let path = own.value.display().to_string();
            let (_, below) = path.split_once("recipes/").expect("below recipes/");
            below.to_owned()
        }
    };
    let tasks = verbs().filter_map(|verb| match verb {
        Verb::Task(task) => Some(format!("{task:?}")),
        _ => None,
    });
    let at_start: String = tasks.collect();
    let is_disabled = format!("{at_start}{}", answer_file(&plan).unwrap_or_default())
        .contains("Disable-LocalUser");
    let mut users: BTreeSet<String> = verbs()
        .filter_map(|verb| match verb {
            Verb::User(user) if user.state == UserState::Present => Some(user.name.value.clone()),
            _ => None,
        })
        .collect();
    if !is_disabled {
        users.insert("Administrator".to_owned());
    }
    let has_agent = recipe
        .components
        .iter()
        .any(|component| component.name.value == "cloudbase-init");
    let mut metadata = BTreeSet::new();
    if has_agent {
        let services = value(recipe, "cloudbase_metadata_services").split(", ");
        let class = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
        metadata = services.map(class).collect();
        if value(recipe, "cloudbase_plugins").contains("CreateUserPlugin") {
            users.insert(value(recipe, "cloudbase_username").to_owned());
        }
    }
    Row {
        seal,
        is_disabled,
        users,
        metadata,
    }
}

#[test]
fn the_table_of_accounts_is_what_the_recipes_do() {
    let told = table();
    let done: BTreeMap<String, Row> = recipes()
        .iter()
        .map(|path| {
            let file = name(path);
            let recipe = silent(path, &options_for(&file));
            (file.replace(".toml", ""), does(&recipe))
        })
        .collect();
    assert_eq!(told, done);
}

/// A clone whose agent renames an account that is disabled has nobody who can log in.
#[test]
fn renaming_the_built_in_administrator_is_refused() {
    let mut options = options_for("capi-ova");
    options
        .vars
        .push(("cloudbase_rename_admin_user".into(), "true".into()));
    let (_, said) = winimg_recipe::read(Path::new("recipes/capi-ova.toml"), &options);
    let said = said.render(false);
    assert!(
        said.contains("docs/accounts.md") && said.contains("nobody could log in"),
        "{said}"
    );
}

/// The seal takes "Administrator" in no language for the name of the account.
#[test]
fn no_seal_names_the_built_in_administrator() {
    let mut judged = 0;
    for path in recipes() {
        let recipe = silent(&path, &options_for(&name(&path)));
        let plan = plan::make(&recipe).expect("a plan");
        let Some(text) = answer_file(&plan) else {
            continue;
        };
        judged += 1;
        let document = roxmltree::Document::parse(text).expect("XML");
        let commands = document
            .descendants()
            .filter(|n| n.has_tag_name(("urn:schemas-microsoft-com:unattend", "Path")));
        for command in commands.filter_map(|n| n.text()) {
            let command = command.replace("Set-Administrator.ps1", "");
            assert!(!command.contains("Administrator"), "{command}");
        }
    }
    assert!(judged >= 8, "{judged}");
}
