//! Lists the listening TCP ports of the sandbox, and the processes that own them.

use crate::protocol::failure::Failure;
use crate::protocol::message::PortListing;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Listeners beyond this number are not listed, so that the answer fits into one frame.
const MAX_LISTENERS: usize = 1024;
/// How many open files are examined to find the listeners' processes; code that opens more only
/// hides its own names.
const MAX_LINKS: usize = 100_000;
const LISTEN: &str = "0A";

#[derive(Debug, PartialEq)]
struct Listener {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// Runs on a thread with the rights of the code user: the runner itself may not look at other
/// processes' files.
///
/// `hidden` are the runner's own listeners, which are not servers of the sandbox.
pub fn list(hidden: &[(Ipv4Addr, u16)]) -> Result<Value, Failure> {
    let mut listeners = table("/proc/net/tcp")?;
    listeners.retain(|listener| match listener.address {
        IpAddr::V4(address) => !hidden.contains(&(address, listener.port)),
        IpAddr::V6(_) => true,
    });
    // A kernel without IPv6 has no such file.
    listeners.extend(table("/proc/net/tcp6").unwrap_or_default());
    listeners.truncate(MAX_LISTENERS);
    let owners = owners_of(&listeners);
    let mut ports: Vec<PortListing> = listeners
        .iter()
        .map(|listener| {
            let pid = owners.get(&listener.inode).copied();
            PortListing {
                port: listener.port,
                address: listener.address.to_string(),
                pid,
                process: pid.and_then(name_of),
            }
        })
        .collect();
    ports.sort();
    // Workers that share a port each have a socket.
    ports.dedup();
    Ok(json!({ "ports": ports }))
}

fn table(path: &str) -> Result<Vec<Listener>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
    Ok(text.lines().skip(1).filter_map(parse).collect())
}

/// A line of /proc/net/tcp or tcp6, if it describes a listening socket.
fn parse(line: &str) -> Option<Listener> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != LISTEN {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    Some(Listener {
        address: parse_address(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// The kernel prints addresses as four-byte words in the machine's byte order.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let words = hex
        .as_bytes()
        .chunks(8)
        .map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok())
        .collect::<Option<Vec<u32>>>()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

/// For each socket, the process with the lowest id that has it open.
fn owners_of(listeners: &[Listener]) -> HashMap<u64, i32> {
    let mut owners = HashMap::new();
    let Ok(entries) = fs::read_dir("/proc") else {
        return owners;
    };
    let mut pids: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let mut left = MAX_LINKS;
    for pid in pids {
        // A process that this user may not inspect, or that has ended meanwhile, has no name.
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        for file in files.flatten() {
            if left == 0 {
                return owners;
            }
            left -= 1;
            let Some(inode) = fs::read_link(file.path())
                .ok()
                .and_then(|target| socket_inode(target.to_str()?))
            else {
                continue;
            };
            if listeners.iter().any(|listener| listener.inode == inode) {
                owners.entry(inode).or_insert(pid);
            }
        }
    }
    owners
}

fn socket_inode(target: &str) -> Option<u64> {
    target
        .strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

fn name_of(pid: i32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn only_lines_about_listeners_are_parsed() {
        let listening = "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0000000000000000 100 0 0 10 0";
        assert_eq!(
            parse(listening),
            Some(Listener {
                address: Ipv4Addr::LOCALHOST.into(),
                port: 8000,
                inode: 12345,
            })
        );
        assert_eq!(parse(&listening.replace(" 0A ", " 01 ")), None);
        assert_eq!(parse("   0: zz"), None);
        assert_eq!(parse(""), None);
        let v6 = listening.replace("0100007F", "00000000000000000000000001000000");
        assert_eq!(
            parse(&v6).map(|l| l.address),
            Some(Ipv6Addr::LOCALHOST.into())
        );
    }

    #[test]
    fn a_socket_that_this_process_listens_on_is_found_with_its_name() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let answer = list(&[]).expect("a list");
        let found = answer["ports"]
            .as_array()
            .expect("an array")
            .iter()
            .find(|entry| entry["port"] == port)
            .expect("the listener");
        assert_eq!(found["address"], "127.0.0.1");
        assert_eq!(found["pid"], std::process::id());
        assert!(found["process"].is_string());
    }
}
