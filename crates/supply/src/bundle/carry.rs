//! What of the command line and the environment goes into a bundle: its variables and settings, and no secret.

use super::index::{Index, Variable};
use winimg_base::text::redact_url;
use winimg_recipe::recipe::{Options, Recipe};

/// Variables with these beginnings come from the environment.
const ENVIRONMENT: &str = "WINIMG_VAR_";
/// A shorter value in a query is no token.
const TOKEN: usize = 8;

/// Writes it into the index; what was left out, and why.
pub fn of(recipe: &Recipe, options: &Options, index: &mut Index) -> Vec<String> {
    let mut remarks = Vec::new();
    for (name, value) in &options.env {
        let Some(name) = name.strip_prefix(ENVIRONMENT) else {
            continue;
        };
        let origin = format!("environment {ENVIRONMENT}{name}");
        // The variable may be called otherwise: this may be another name of it.
        if recipe.vars.iter().any(|v| v.origin == origin) {
            let kept = variable(recipe, name, value, &mut remarks);
            index.environment.extend(kept);
        }
    }
    for (name, value) in &options.vars {
        let kept = variable(recipe, name, value, &mut remarks);
        index.vars.extend(kept);
    }
    for set in &options.set {
        let (path, value) = set.split_once('=').unwrap_or((set, ""));
        if path.trim() == "media.product_key" && value != "kms" {
            let remark = "media.product_key is not in the bundle: give it again with --set";
            remarks.push(remark.into());
            continue;
        }
        index.set.push(format!("{path}={}", without_query(value)));
    }
    remarks
}

fn variable(
    recipe: &Recipe,
    name: &str,
    value: &str,
    remarks: &mut Vec<String>,
) -> Option<Variable> {
    let key = recipe.media.product_key.as_ref();
    if key.is_some_and(|key| key.value == value && value != "kms") {
        remarks.push(format!(
            "the variable {name} is a product key and not in the bundle: give it again with --var"
        ));
        return None;
    }
    let mut kept = without_query(value);
    if value.len() >= TOKEN && queries(recipe).any(|query| query.contains(value)) {
        remarks.push(format!(
            "the variable {name} stands in the query of a URL and is empty in the bundle: it may be a token"
        ));
        kept.clear();
    }
    Some(Variable {
        name: name.to_string(),
        value: kept,
    })
}

/// A URL without its query and user; anything else as it is.
fn without_query(value: &str) -> String {
    let shown = redact_url(value);
    shown.trim_end_matches("?…").to_string()
}

/// Of all URLs that the recipe names.
fn queries(recipe: &Recipe) -> impl Iterator<Item = &str> {
    let origins = recipe.inputs().filter_map(|input| input.origin());
    origins.filter_map(|origin| origin.url.value.query())
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_recipe::recipe;

    #[test]
    fn a_variable_that_the_environment_sets_by_another_name_is_carried() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recipe.toml");
        let text = "schema = 1\nname = \"a\"\n[vars]\nk_semver = { default = \"v1.0.0\", alias = [\"k_version\"], prefix = \"v\" }\n\
                    [media]\nimage = \"datacenter-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n\
                    [[steps]]\nname = \"a\"\ncmd = \"echo {{k_semver}}\"\n[outputs]\nraw = {}\n";
        std::fs::write(&path, text).expect("the recipe");
        let options = Options {
            env: vec![
                ("WINIMG_VAR_k_version".into(), "1.36.1".into()),
                ("WINIMG_VAR_other".into(), "x".into()),
            ],
            ..Options::default()
        };
        let (read, said) = recipe::read(&path, &options);
        let read = read.unwrap_or_else(|| panic!("{}", said.render(false)));
        let mut index = Index::default();
        of(&read, &options, &mut index);
        let carried: Vec<_> = index
            .environment
            .iter()
            .map(|v| (v.name.as_str(), v.value.as_str()))
            .collect();
        assert_eq!(carried, [("k_version", "1.36.1")]);
    }
}
