//! Fetching over real sockets from a server that misbehaves, and into a store that several share.

mod desk;
mod hostile;
mod images;
mod locked;
mod logins;
mod messages;
mod mirrored;
mod processes;
mod registries;
mod secure;
mod signed;
mod transfers;
