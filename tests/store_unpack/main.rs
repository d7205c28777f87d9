//! Archives made here byte by byte, good and hostile: what is unpacked, and what each refusal says.

mod bench;
mod bytes;
mod good;
mod hostile;
mod refused;
mod trees;
