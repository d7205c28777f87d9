//! The recipes are part of the program (`src/cmd/builtin_recipes.rs`): a new file among them is a new program.

fn main() {
    println!("cargo:rerun-if-changed=recipes");
}
