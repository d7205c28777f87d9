//! From axes and rows to variants.

use std::collections::{BTreeMap, BTreeSet};

use super::value::Says;
use super::{MOST, Matrix, Variant, name};
use crate::recipe::fields::Fields;
use crate::recipe::overlay::{Overlay, Setting};
use winimg_base::text::{Located, Place};

/// What the tables of the file came to.
pub struct Parts {
    /// What holds for every variant.
    pub base: Says,
    pub template: Located<String>,
    pub axes: Vec<Axis>,
    pub exclude: Vec<Exclude>,
    pub include: Vec<Include>,
}

pub struct Axis {
    pub name: Located<String>,
    pub values: Vec<AxisValue>,
}

#[derive(Clone)]
pub struct AxisValue {
    pub name: Located<String>,
    pub says: Says,
    /// A text, and no table.
    pub is_plain: bool,
}

/// Leaves out each combination that has one of these values on each of these axes.
pub struct Exclude {
    pub place: Place,
    pub wanted: Vec<(usize, Vec<String>)>,
}

/// One more variant.
pub struct Include {
    pub place: Place,
    pub name: Option<Located<String>>,
    pub values: Vec<(usize, AxisValue)>,
    pub says: Says,
}

/// Makes the variants, and complains of rows that change nothing and of what two of them say otherwise.
pub fn combine(fields: &Fields<'_>, parts: &Parts) -> Matrix {
    let axes: Vec<String> = parts.axes.iter().map(|a| a.name.value.clone()).collect();
    let mut making = Making {
        fields,
        parts,
        seen: BTreeMap::new(),
        told: BTreeSet::new(),
        variants: Vec::new(),
    };
    making.combinations();
    for row in &parts.include {
        let values: Vec<_> = row.values.iter().map(|(at, value)| (*at, value)).collect();
        making.variant(&values, Some(row));
    }
    if making.variants.is_empty() && fields.is_whole() && !fields.cx.has_problems() {
        let help = "name axes under [matrix.axes], or rows with [[matrix.include]]";
        let fact = "the matrix has no variants";
        fields.cx.error(fact, &fields.place, "", help);
    }
    Matrix {
        variants: making.variants,
        axes,
        pipeline: None,
    }
}

struct Making<'a> {
    fields: &'a Fields<'a>,
    parts: &'a Parts,
    /// The names until now, in lower case.
    seen: BTreeMap<String, Place>,
    /// What was complained of, as each variant would.
    told: BTreeSet<String>,
    variants: Vec<Variant>,
}

impl Making<'_> {
    /// Every combination that no row excludes, the last axis fastest.
    fn combinations(&mut self) {
        let axes = &self.parts.axes;
        let lengths = axes.iter().map(|axis| axis.values.len());
        let count = lengths.fold(1usize, usize::saturating_mul);
        if axes.is_empty() || count == 0 {
            return;
        }
        if count > MOST {
            let fact = format!("the axes make {count} variants");
            let help = format!("at most {MOST} are built from one matrix: make several files");
            let place = &axes[0].name.place;
            return self.fields.cx.error(fact, place, "", &help);
        }
        let mut used = vec![false; self.parts.exclude.len()];
        for number in 0..count {
            let values = nth(axes, number);
            let mut is_out = false;
            for (row, used) in self.parts.exclude.iter().zip(&mut used) {
                let has = |(axis, names): &(usize, Vec<String>)| {
                    names.contains(&values[*axis].1.name.value)
                };
                if row.wanted.iter().all(has) {
                    (*used, is_out) = (true, true);
                }
            }
            if !is_out {
                self.variant(&values, None);
            }
        }
        for (row, _) in self
            .parts
            .exclude
            .iter()
            .zip(used)
            .filter(|(_, used)| !used)
        {
            let help = "every variant stays: take the row out, or name other values";
            let fact = "this row of `exclude` excludes nothing";
            self.fields.cx.error(fact, &row.place, "", help);
        }
    }

    fn variant(&mut self, values: &[(usize, &AxisValue)], row: Option<&Include>) {
        let parts = self.parts;
        let own = row.map(|row| &row.says);
        let chosen: Vec<(&str, &Says)> = values
            .iter()
            .map(|(at, value)| (parts.axes[*at].name.value.as_str(), &value.says))
            .collect();
        self.contradictions(&chosen);
        let axes = chosen.iter().map(|(_, says)| *says);
        let all: Vec<&Says> = std::iter::once(&parts.base)
            .chain(axes)
            .chain(own)
            .collect();
        let recipe = all.iter().rev().find_map(|says| says.recipe.clone());
        let Some(recipe) = recipe else {
            let place = row.map_or(&self.fields.place, |row| &row.place);
            let help =
                "write `recipe = \"recipe.toml\"` under [matrix], or into every value of one axis";
            let fact = "there are variants without a recipe";
            return self.tell(fact.into(), place, help);
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
                let fact = format!("this row has no `{axis}`, which its name is made with");
                let help = "give the axis a value, or the row a `name` of its own";
                return self.fields.cx.error(fact, place, "", help);
            }
            Err(None) => return,
        };
        if !name::check(self.fields, &name, &mut self.seen) {
            return;
        }
        let vars = all.iter().flat_map(|says| &says.vars);
        let settings = all.iter().flat_map(|says| says.settings.iter().cloned());
        let called = Setting::text_at_top("name", name.clone());
        self.variants.push(Variant {
            name,
            recipe,
            values: named,
            overlay: Overlay {
                vars: last_of_each(vars),
                settings: settings.chain([called]).collect(),
            },
        });
    }

    /// Two axes that each choose the recipe, or one variable: which of them holds, nobody could say.
    fn contradictions(&mut self, chosen: &[(&str, &Says)]) {
        for (at, (axis, says)) in chosen.iter().enumerate() {
            for (other, before) in &chosen[..at] {
                if let (Some(recipe), Some(_)) = (&says.recipe, &before.recipe) {
                    let fact = format!("`{other}` and `{axis}` both name a recipe");
                    self.tell(fact, &recipe.place, "let one axis choose it");
                }
                for (name, place, _) in &says.vars {
                    if before.vars.iter().any(|(known, ..)| known == name) {
                        let fact = format!("`{other}` and `{axis}` both set the variable `{name}`");
                        self.tell(fact, place, "let one axis set it");
                    }
                }
            }
        }
    }

    /// Once, although every variant would say it.
    fn tell(&mut self, fact: String, place: &Place, help: &str) {
        if self.told.insert(fact.clone()) {
            self.fields.cx.error(fact, place, "", help);
        }
    }
}

/// Of the combination with this number the value of each axis.
fn nth(axes: &[Axis], number: usize) -> Vec<(usize, &AxisValue)> {
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
