//! Adds variables and settings of the command line and the environment to a bundle, without
//! secrets.

use super::index::{BundleIndex, BundleVariable};
use winimg_base::text::redact_if_url;
use winimg_recipe::{ReadOptions, Recipe};

/// Prefix of variables in the environment.
const ENVIRONMENT: &str = "WINIMG_VAR_";
/// Minimum length of a token in a query.
const TOKEN: usize = 8;

/// Adds them to the index. Returns remarks about omitted values.
pub fn add_variables(
    recipe: &Recipe,
    options: &ReadOptions,
    index: &mut BundleIndex,
) -> Vec<String> {
    let mut remarks = Vec::new();
    for (name, value) in &options.env {
        let Some(name) = name.strip_prefix(ENVIRONMENT) else {
            continue;
        };
        let origin = format!("environment {ENVIRONMENT}{name}");
        // The recipe may use another name (alias) for this variable.
        if recipe.vars.iter().any(|v| v.origin == origin) {
            let kept = check_variable(recipe, name, value, &mut remarks);
            index.environment.extend(kept);
        }
    }
    for (name, value) in &options.vars {
        let kept = check_variable(recipe, name, value, &mut remarks);
        index.vars.extend(kept);
    }
    for set in &options.set {
        let (path, value) = set.split_once('=').unwrap_or((set, ""));
        if path.trim() == "media.product_key" && value != "kms" {
            let remark = "media.product_key is not included in the bundle: \
                          pass it again with --set";
            remarks.push(remark.into());
            continue;
        }
        index.set.push(format!("{path}={}", without_query(value)));
    }
    remarks
}

fn check_variable(
    recipe: &Recipe,
    name: &str,
    value: &str,
    remarks: &mut Vec<String>,
) -> Option<BundleVariable> {
    let key = recipe.media.product_key.as_ref();
    if key.is_some_and(|key| key.value == value && value != "kms") {
        remarks.push(format!(
            "the variable {name} is a product key and not included in the bundle: \
             pass it again with --var"
        ));
        return None;
    }
    let mut kept = without_query(value);
    if value.len() >= TOKEN && iter_queries(recipe).any(|query| query.contains(value)) {
        remarks.push(format!(
            "the variable {name} is used in the query of a URL and left empty in the bundle: \
             it may be a token"
        ));
        kept.clear();
    }
    Some(BundleVariable {
        name: name.to_string(),
        value: kept,
    })
}

/// Removes query and user from a URL; returns other values unchanged.
fn without_query(value: &str) -> String {
    let shown = redact_if_url(value);
    shown.trim_end_matches("?…").to_string()
}

/// Returns the queries of all URLs in the recipe.
fn iter_queries(recipe: &Recipe) -> impl Iterator<Item = &str> {
    let origins = recipe.inputs().filter_map(|input| input.origin());
    origins.filter_map(|origin| origin.url.value.query())
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_recipe as recipe;

    #[test]
    fn a_variable_that_the_environment_sets_by_another_name_is_carried() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recipe.toml");
        let text = "schema = 1\nname = \"a\"\n[vars]\nk_semver = { default = \"v1.0.0\", alias = [\"k_version\"], prefix = \"v\" }\n\
                    [media]\nimage = \"datacenter-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n\
                    [[steps]]\nname = \"a\"\ncmd = \"echo {{k_semver}}\"\n[outputs]\nraw = {}\n";
        std::fs::write(&path, text).expect("the recipe");
        let options = ReadOptions {
            env: vec![
                ("WINIMG_VAR_k_version".into(), "1.36.1".into()),
                ("WINIMG_VAR_other".into(), "x".into()),
            ],
            ..ReadOptions::default()
        };
        let (read, said) = recipe::read(&path, &options);
        let read = read.unwrap_or_else(|| panic!("{}", said.render(false)));
        let mut index = BundleIndex::default();
        add_variables(&read, &options, &mut index);
        let carried: Vec<_> = index
            .environment
            .iter()
            .map(|v| (v.name.as_str(), v.value.as_str()))
            .collect();
        assert_eq!(carried, [("k_version", "1.36.1")]);
    }
}
