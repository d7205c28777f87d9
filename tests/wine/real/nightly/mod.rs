//! One module a kind of program. Each test has a Windows of its own.

mod answers;
mod kubernetes;
mod networks;
mod runtime;
mod storage;
