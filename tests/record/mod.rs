//! SBOMs, provenance and signatures as their readers get them: whole texts, and the judgement of other people's programs.

mod cosign;
mod documents;
mod judges;
mod place;
mod sample;
mod signatures;
