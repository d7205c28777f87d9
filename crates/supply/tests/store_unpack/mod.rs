//! Archives made here byte by byte, good and hostile: what is unpacked, and what each refusal says.

mod bench;
mod good;
mod hostile;
mod refused;
mod trees;
