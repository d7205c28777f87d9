//! Registry hives: what winimg reads from them, judged by libhivex's programs (package
//! libhivex-bin).

mod hostile;
mod judged;
