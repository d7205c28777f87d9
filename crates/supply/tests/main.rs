//! What is fetched, unpacked, locked and shared, over real sockets and on real files.

mod fetch;
mod lock;
mod remote;
mod store_unpack;
