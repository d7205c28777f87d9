//! The one network card that a machine can have, as far as programs here ask for it.

/// The card's interface below `Tcpip\Parameters\Interfaces`.
pub const INTERFACE: &str = "{77696E69-6D67-0000-0000-000000000001}";

/// What DHCP gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// `52-54-00-12-34-56`
    pub mac: String,
    pub address: [u8; 4],
    pub mask: [u8; 4],
    pub router: Option<[u8; 4]>,
    /// Option 26.
    pub mtu: Option<u16>,
    /// Option 245: Azure's wire server.
    pub wire_server: Option<[u8; 4]>,
    /// Option 51, in seconds.
    pub seconds: Option<u32>,
}
