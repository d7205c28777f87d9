//! Builds the variants from axes and rows.

use std::collections::{BTreeMap, BTreeSet};

use super::overrides::VariantOverrides;
use super::{MOST, MatrixSpec, VariantSpec, name};
use crate::document::overlay::{RecipeOverlay, RecipeSetting};
use crate::fields::TableReader;
use winimg_base::text::{Located, Place};

/// The parsed tables of the file.
pub struct MatrixParts {
    /// Values for every variant.
    pub base: VariantOverrides,
    pub template: Located<String>,
    pub axes: Vec<MatrixAxis>,
    pub exclude: Vec<ExcludeRow>,
    pub include: Vec<IncludeRow>,
}

pub struct MatrixAxis {
    pub name: Located<String>,
    pub values: Vec<AxisValue>,
}

#[derive(Clone)]
pub struct AxisValue {
    pub name: Located<String>,
    pub says: VariantOverrides,
    /// A string, as opposed to a table.
    pub is_plain: bool,
}

/// Excludes each combination that has one of these values on each of these axes.
pub struct ExcludeRow {
    pub place: Place,
    pub wanted: Vec<(usize, Vec<String>)>,
}

/// An additional variant.
pub struct IncludeRow {
    pub place: Place,
    pub name: Option<Located<String>>,
    pub values: Vec<(usize, AxisValue)>,
    pub says: VariantOverrides,
}

/// Builds the variants. Complains about rows without effect and about contradictions.
pub fn build_variants(fields: &TableReader<'_>, parts: &MatrixParts) -> MatrixSpec {
    let axes: Vec<String> = parts.axes.iter().map(|a| a.name.value.clone()).collect();
    let mut making = VariantBuilder {
        fields,
        parts,
        seen: BTreeMap::new(),
        told: BTreeSet::new(),
        variants: Vec::new(),
    };
    making.add_combinations();
    for row in &parts.include {
        let values: Vec<_> = row.values.iter().map(|(at, value)| (*at, value)).collect();
        making.add_variant(&values, Some(row));
    }
    if making.variants.is_empty() && fields.is_whole() && !fields.cx.has_problems() {
        let help = "add axes under [matrix.axes], or rows with [[matrix.include]]";
        let fact = "the matrix has no variants";
        fields.cx.error(fact, &fields.place, "", help);
    }
    MatrixSpec {
        variants: making.variants,
        axes,
        pipeline: None,
    }
}

struct VariantBuilder<'a> {
    fields: &'a TableReader<'a>,
    parts: &'a MatrixParts,
    /// The names so far, in lower case.
    seen: BTreeMap<String, Place>,
    /// Problems reported so far: each variant would repeat them.
    told: BTreeSet<String>,
    variants: Vec<VariantSpec>,
}

impl VariantBuilder<'_> {
    /// Adds every combination that no row excludes, the last axis fastest.
    fn add_combinations(&mut self) {
        let axes = &self.parts.axes;
        let lengths = axes.iter().map(|axis| axis.values.len());
        let count = lengths.fold(1usize, usize::saturating_mul);
        if axes.is_empty() || count == 0 {
            return;
        }
        if count > MOST {
            let fact = format!("the axes make {count} variants");
            let help = format!("a matrix has at most {MOST}: split it into several files");
            let place = &axes[0].name.place;
            return self.fields.cx.error(fact, place, "", &help);
        }
        let mut used = vec![false; self.parts.exclude.len()];
        for number in 0..count {
            let values = select_values(axes, number);
            let mut is_out = false;
            for (row, used) in self.parts.exclude.iter().zip(&mut used) {
                let matches = row
                    .wanted
                    .iter()
                    .all(|(axis, names)| names.contains(&values[*axis].1.name.value));
                if matches {
                    (*used, is_out) = (true, true);
                }
            }
            if !is_out {
                self.add_variant(&values, None);
            }
        }
        for (row, _) in self
            .parts
            .exclude
            .iter()
            .zip(used)
            .filter(|(_, used)| !used)
        {
            let help = "remove the row, or list other values";
            let fact = "this row of `exclude` matches no variant";
            self.fields.cx.error(fact, &row.place, "", help);
        }
    }

    fn add_variant(&mut self, values: &[(usize, &AxisValue)], row: Option<&IncludeRow>) {
        let parts = self.parts;
        let own = row.map(|row| &row.says);
        let chosen: Vec<(&str, &VariantOverrides)> = values
            .iter()
            .map(|(at, value)| (parts.axes[*at].name.value.as_str(), &value.says))
            .collect();
        self.check_contradictions(&chosen);
        let axes = chosen.iter().map(|(_, says)| *says);
        let all: Vec<&VariantOverrides> = std::iter::once(&parts.base)
            .chain(axes)
            .chain(own)
            .collect();
        let recipe = all.iter().rev().find_map(|says| says.recipe.clone());
        let Some(recipe) = recipe else {
            let place = row.map_or(&self.fields.place, |row| &row.place);
            let help =
                "write `recipe = \"recipe.toml\"` under [matrix], or in every value of one axis";
            let fact = "some variants have no recipe";
            return self.report_once(fact.into(), place, help);
        };
        let named: Vec<(String, String)> = values
            .iter()
            .map(|(at, value)| (parts.axes[*at].name.value.clone(), value.name.value.clone()))
            .collect();
        let template = row
            .and_then(|row| row.name.as_ref())
            .unwrap_or(&parts.template);
        let place = row.map_or(&template.place, |row| match &row.name {
            Some(name) => &name.place,
            None => &row.place,
        });
        let name = match name::render(&template.value, &recipe.value, &named) {
            Ok(name) => Located::new(name, place.clone()),
            Err(Some(axis)) => {
                let fact = format!("this row has no `{axis}`, which its name contains");
                let help = "set the axis, or give the row a `name` of its own";
                return self.fields.cx.error(fact, place, "", help);
            }
            Err(None) => return,
        };
        if !name::check(self.fields, &name, &mut self.seen) {
            return;
        }
        let vars = all.iter().flat_map(|says| &says.vars);
        let settings = all.iter().flat_map(|says| says.settings.iter().cloned());
        let called = RecipeSetting::text_at_top("name", name.clone());
        self.variants.push(VariantSpec {
            name,
            recipe,
            values: named,
            overlay: RecipeOverlay {
                vars: last_of_each(vars),
                settings: settings.chain([called]).collect(),
            },
        });
    }

    /// Complains about two axes that both set the recipe or the same variable.
    fn check_contradictions(&mut self, chosen: &[(&str, &VariantOverrides)]) {
        for (at, (axis, says)) in chosen.iter().enumerate() {
            for (other, before) in &chosen[..at] {
                if let (Some(recipe), Some(_)) = (&says.recipe, &before.recipe) {
                    let fact = format!("`{other}` and `{axis}` both set the recipe");
                    self.report_once(fact, &recipe.place, "let only one axis set it");
                }
                for (name, place, _) in &says.vars {
                    if before.vars.iter().any(|(known, ..)| known == name) {
                        let fact = format!("`{other}` and `{axis}` both set the variable `{name}`");
                        self.report_once(fact, place, "let only one axis set it");
                    }
                }
            }
        }
    }

    /// Reports a problem once, although every variant would repeat it.
    fn report_once(&mut self, fact: String, place: &Place, help: &str) {
        if self.told.insert(fact.clone()) {
            self.fields.cx.error(fact, place, "", help);
        }
    }
}

/// Returns the value of each axis in the combination with this number.
fn select_values(axes: &[MatrixAxis], number: usize) -> Vec<(usize, &AxisValue)> {
    let mut rest = number;
    let mut values: Vec<(usize, &AxisValue)> = Vec::with_capacity(axes.len());
    for (at, axis) in axes.iter().enumerate().rev() {
        values.push((at, &axis.values[rest % axis.values.len()]));
        rest /= axis.values.len();
    }
    values.reverse();
    values
}

fn last_of_each<'a>(
    vars: impl Iterator<Item = &'a (String, Place, Located<String>)>,
) -> Vec<(String, Located<String>)> {
    let mut all: Vec<(String, Located<String>)> = Vec::new();
    for (name, _, value) in vars {
        all.retain(|(known, _)| known != name);
        all.push((name.clone(), value.clone()));
    }
    all
}
