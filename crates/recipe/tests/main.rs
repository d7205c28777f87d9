//! Recipes as they are read and planned, as whole texts.

mod clone;
mod host;
mod inherited;
mod matrix;
mod mirrors;
mod plan;
mod recipe;
mod recipe_pins;
mod recipe_reference;
mod recipe_schema;
mod recipe_signatures;
mod recipe_vars;
mod targets;
mod trust;
