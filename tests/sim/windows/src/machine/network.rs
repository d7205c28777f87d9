//! The network card: its kernel module, when Windows has a driver for it, and an address by DHCP.
//!
//! Windows has a driver for e1000e's 82574L in-box; for virtio-net and vmxnet3 a package has to be in the driver store.
//! One card and one lease, asked for once: the lease is taken for as long as the machine runs.
//!
//! Source: RFC 2131, RFC 2132; options 26 (MTU), 245 (Azure's wire server).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{debug, sys};
use crate::windows::network::Lease;

/// PCI vendor and device, list of kernel modules, and the driver package that Windows needs for it.
const CARDS: [(&str, &str, Option<&str>); 4] = [
    ("0x8086:0x10d3", "e1000e", None),
    ("0x1af4:0x1000", "netkvm", Some("netkvm.inf_amd64_")),
    ("0x1af4:0x1041", "netkvm", Some("netkvm.inf_amd64_")),
    ("0x15ad:0x07b0", "vmxnet3", Some("vmxnet3.inf_amd64_")),
];
/// How often a request is sent, and how long an answer is waited for each time.
const TRIES: u32 = 4;
const ANSWER: Duration = Duration::from_secs(2);
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;

/// Brings the card up. `None`: no card, no driver, or nobody who answers.
pub fn connect(c_root: &Path) -> Option<Lease> {
    let modules = card(c_root)?;
    let found = sys::load_modules(modules)
        .map_err(|e| e.to_string())
        .and_then(|()| lease());
    found
        .inspect(|lease| debug(&format!("network: {lease:?}")))
        .inspect_err(|fault| debug(&format!("network: {fault}")))
        .ok()
}

/// The list of kernel modules of the first card that Windows has a driver for.
fn card(c_root: &Path) -> Option<&'static str> {
    let store = c_root.join("Windows/System32/DriverStore/FileRepository");
    let packages: Vec<String> = std::fs::read_dir(store)
        .into_iter()
        .flatten()
        .flatten()
        .map(|held| held.file_name().to_string_lossy().to_ascii_lowercase())
        .collect();
    let devices = std::fs::read_dir("/sys/bus/pci/devices")
        .into_iter()
        .flatten()
        .flatten();
    let ids = devices.map(|device| {
        let read =
            |name: &str| std::fs::read_to_string(device.path().join(name)).unwrap_or_default();
        format!("{}:{}", read("vendor").trim(), read("device").trim())
    });
    driven(ids, &packages)
}

fn driven(ids: impl Iterator<Item = String>, packages: &[String]) -> Option<&'static str> {
    for id in ids {
        if let Some((_, modules, package)) = CARDS.iter().find(|(known, ..)| *known == id)
            && package.is_none_or(|package| packages.iter().any(|held| held.starts_with(package)))
        {
            return Some(modules);
        }
    }
    None
}

fn lease() -> Result<Lease, String> {
    let name = interface().ok_or("the card has no interface")?;
    let mac = std::fs::read_to_string(format!("/sys/class/net/{name}/address"))
        .map_err(|e| e.to_string())?;
    let hardware = hardware(mac.trim()).ok_or("the card has no address")?;
    set_up(&name).map_err(|e| format!("{name}: {e}"))?;
    let socket = UdpSocket::bind("0.0.0.0:68").map_err(|e| e.to_string())?;
    socket.set_broadcast(true).map_err(|e| e.to_string())?;
    bind_to(&socket, &name).map_err(|e| e.to_string())?;
    let id = std::process::id().to_be_bytes();
    let offer = exchange(&socket, &message(DISCOVER, id, hardware, &[]), id, OFFER)?;
    let mut options = vec![(50, offer.address.to_vec())];
    if let Some(server) = offer.server {
        options.push((54, server.to_vec()));
    }
    let ack = exchange(&socket, &message(REQUEST, id, hardware, &options), id, ACK)?;
    let lease = Lease {
        mac: mac.trim().to_ascii_uppercase().replace(':', "-"),
        address: ack.address,
        mask: ack.mask.unwrap_or([255, 255, 255, 0]),
        router: ack.router,
        mtu: ack.mtu,
        wire_server: ack.wire_server,
        seconds: ack.seconds,
    };
    configure(&name, &lease).map_err(|e| format!("{name}: {e}"))?;
    Ok(lease)
}

/// The first interface that is a device; it shows some time after its module was loaded.
fn interface() -> Option<String> {
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        let entries = std::fs::read_dir("/sys/class/net")
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter(|held| held.path().join("device").exists())
            .map(|held| held.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        if let Some(name) = names.into_iter().next() {
            return Some(name);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

fn hardware(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16))
        .collect::<Result<_, _>>()
        .ok()?;
    bytes.try_into().ok()
}

/// A request of a client that has no address yet and takes answers by broadcast.
fn message(kind: u8, id: [u8; 4], hardware: [u8; 6], options: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![1, 1, 6, 0];
    out.extend(id);
    out.extend([0, 0, 0x80, 0]);
    out.resize(28, 0);
    out.extend(hardware);
    out.resize(236, 0);
    out.extend(COOKIE);
    out.extend([53, 1, kind]);
    out.extend([61, 7, 1]);
    out.extend(hardware);
    for (number, value) in options {
        out.extend([*number, value.len() as u8]);
        out.extend(value);
    }
    // What is asked for: mask, router, name server, MTU, lease, vendor's 245.
    out.extend([55, 6, 1, 3, 6, 26, 51, 245, 255]);
    out.resize(out.len().max(300), 0);
    out
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    kind: u8,
    address: [u8; 4],
    server: Option<[u8; 4]>,
    mask: Option<[u8; 4]>,
    router: Option<[u8; 4]>,
    mtu: Option<u16>,
    seconds: Option<u32>,
    wire_server: Option<[u8; 4]>,
}

/// An answer to this client's request, or nothing.
fn read(packet: &[u8], id: [u8; 4]) -> Option<Answer> {
    if packet.first() != Some(&2) || packet.get(4..8)? != id || packet.get(236..240)? != COOKIE {
        return None;
    }
    let mut answer = Answer {
        address: packet.get(16..20)?.try_into().ok()?,
        ..Answer::default()
    };
    let mut rest = packet.get(240..)?;
    loop {
        match rest {
            [255, ..] | [] => break,
            [0, after @ ..] => rest = after,
            [number, length, after @ ..] => {
                let value = after.get(..usize::from(*length))?;
                let four = value.get(..4).and_then(|value| value.try_into().ok());
                match number {
                    1 => answer.mask = four,
                    3 => answer.router = four,
                    26 => answer.mtu = value.try_into().ok().map(u16::from_be_bytes),
                    51 => answer.seconds = four.map(u32::from_be_bytes),
                    53 => answer.kind = *value.first()?,
                    54 => answer.server = four,
                    245 => answer.wire_server = four,
                    _ => {}
                }
                rest = &after[usize::from(*length)..];
            }
            [_] => return None,
        }
    }
    Some(answer)
}

fn exchange(socket: &UdpSocket, request: &[u8], id: [u8; 4], wanted: u8) -> Result<Answer, String> {
    for _ in 0..TRIES {
        socket
            .send_to(request, "255.255.255.255:67")
            .map_err(|e| format!("DHCP request: {e}"))?;
        let deadline = Instant::now() + ANSWER;
        while let Some(left) = deadline
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            socket
                .set_read_timeout(Some(left))
                .map_err(|e| e.to_string())?;
            let mut packet = [0; 1500];
            let Ok(length) = socket.recv(&mut packet) else {
                break;
            };
            if let Some(answer) = read(&packet[..length], id).filter(|answer| answer.kind == wanted)
            {
                return Ok(answer);
            }
        }
    }
    Err("nobody answers DHCP".to_owned())
}

/// `struct ifreq`: a name of 16 bytes, then 24 that depend on the request.
fn ifreq(name: &str) -> [u8; 40] {
    let mut request = [0; 40];
    let length = name.len().min(15);
    request[..length].copy_from_slice(&name.as_bytes()[..length]);
    request
}

fn ioctl(socket: &impl AsRawFd, number: libc::Ioctl, request: &mut [u8]) -> io::Result<()> {
    // SAFETY: the kernel reads and writes at most the size of its struct, which the callers' arrays have.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), number, request.as_mut_ptr()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

const SIOCADDRT: libc::Ioctl = 0x890B;
const SIOCSIFFLAGS: libc::Ioctl = 0x8914;
const SIOCSIFADDR: libc::Ioctl = 0x8916;
const SIOCSIFNETMASK: libc::Ioctl = 0x891C;

fn set_up(name: &str) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut request = ifreq(name);
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as u16;
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    ioctl(&socket, SIOCSIFFLAGS, &mut request)?;
    // The link needs a moment; without one nobody answers, which is found later.
    let carrier = Path::new("/sys/class/net").join(name).join("carrier");
    let deadline = Instant::now() + Duration::from_secs(4);
    while Instant::now() < deadline
        && std::fs::read_to_string(&carrier).is_ok_and(|text| text.trim() != "1")
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn bind_to(socket: &UdpSocket, name: &str) -> io::Result<()> {
    // SAFETY: pointer and length are the name's.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `struct sockaddr_in` with an address.
fn sockaddr(address: [u8; 4]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    out[4..8].copy_from_slice(&address);
    out
}

fn configure(name: &str, lease: &Lease) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    for (number, address) in [(SIOCSIFADDR, lease.address), (SIOCSIFNETMASK, lease.mask)] {
        let mut request = ifreq(name);
        request[16..32].copy_from_slice(&sockaddr(address));
        ioctl(&socket, number, &mut request)?;
    }
    let Some(router) = lease.router else {
        return Ok(());
    };
    // `struct rtentry` of x86-64: padding of 8, destination, gateway, mask, flags (RTF_UP, RTF_GATEWAY); 120 bytes.
    let mut route = [0; 120];
    route[8..24].copy_from_slice(&sockaddr([0; 4]));
    route[24..40].copy_from_slice(&sockaddr(router));
    route[40..56].copy_from_slice(&sockaddr([0; 4]));
    route[56..58].copy_from_slice(&3u16.to_ne_bytes());
    ioctl(&socket, SIOCADDRT, &mut route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_needs_a_driver_of_windows() {
        let ids = |list: &[&str]| {
            list.iter()
                .map(|id| (*id).to_owned())
                .collect::<Vec<_>>()
                .into_iter()
        };
        let netkvm = ["netkvm.inf_amd64_0123".to_owned()];
        assert_eq!(
            driven(ids(&["0x1234:0x1111", "0x8086:0x10d3"]), &[]),
            Some("e1000e")
        );
        assert_eq!(driven(ids(&["0x1af4:0x1041"]), &[]), None);
        assert_eq!(driven(ids(&["0x1af4:0x1041"]), &netkvm), Some("netkvm"));
        assert_eq!(driven(ids(&["0x15ad:0x07b0"]), &netkvm), None);
    }

    #[test]
    fn dhcp_in_both_directions() {
        let id = [1, 2, 3, 4];
        let request = message(
            REQUEST,
            id,
            [0x52, 0x54, 0, 1, 2, 3],
            &[(50, vec![10, 0, 2, 15])],
        );
        assert_eq!(request.len(), 300);
        assert_eq!(request[..12], [1, 1, 6, 0, 1, 2, 3, 4, 0, 0, 0x80, 0]);
        assert_eq!(
            request[236..255],
            [
                99, 130, 83, 99, 53, 1, 3, 61, 7, 1, 0x52, 0x54, 0, 1, 2, 3, 50, 4, 10
            ]
        );
        assert_eq!(read(&request, id), None, "a request is no answer");
        let mut answer = request.clone();
        answer[0] = 2;
        answer[16..20].copy_from_slice(&[10, 0, 2, 15]);
        answer.truncate(240);
        answer.extend([
            53, 1, ACK, 0, 1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 2, 2, 26, 2, 5, 0x78, 51, 4, 0, 1,
            0x51, 0x80, 245, 4, 168, 63, 129, 16, 255,
        ]);
        assert_eq!(
            read(&answer, id),
            Some(Answer {
                kind: ACK,
                address: [10, 0, 2, 15],
                server: None,
                mask: Some([255, 255, 255, 0]),
                router: Some([10, 0, 2, 2]),
                mtu: Some(1400),
                seconds: Some(86400),
                wire_server: Some([168, 63, 129, 16]),
            })
        );
        assert_eq!(read(&answer, [9; 4]), None, "an answer to somebody else");
        for length in 0..answer.len() - 1 {
            let _ = read(&answer[..length], id);
        }
    }
}
