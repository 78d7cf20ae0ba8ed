//! Gives a sandbox a range of addresses that lead back into it, which the runner uses to represent
//! other hosts.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::fault::{Context, Fault, Outcome};
use crate::sys::{self, Forked};

/// 198.18.0.1/15, a range reserved for network tests: it hides no internet host.
const ADDRESS: [u8; 4] = [198, 18, 0, 1];
const PREFIX_BITS: u8 = 15;
/// The first interface of every network namespace is its loopback.
const LOOPBACK: u32 = 1;

/// Adds the range to the loopback of a sandbox's network namespace.
///
/// An address rather than just a route: programs that check for a network before they resolve names
/// find one.
///
/// SECURITY: packets to the range never leave the namespace, and `lo` stays its only interface
/// (threat: reaching a network; guarded by isolation.test.ts and by the network suite).
pub fn give_range(pid: i32) -> Outcome<()> {
    let giving = || "configuring the network addresses of the sandbox".to_string();
    let namespace = |kind: &str| {
        let path = format!("/proc/{pid}/ns/{kind}");
        File::open(&path).context(|| format!("opening {path}"))
    };
    let (user, net) = (namespace("user")?, namespace("net")?);
    let (mut refusal, refused) = io::pipe().context(giving)?;
    // SAFETY: the launcher has one thread; the child does its work and ends.
    let child = match unsafe { sys::fork(0) }.context(giving)? {
        Forked::Parent(child) => child,
        Forked::Child => {
            let outcome = enter(&user, &net).and_then(|()| add_address());
            if let Err(error) = &outcome {
                let _ = write!(&refused, "{error}");
            }
            std::process::exit(i32::from(outcome.is_err()));
        }
    };
    drop(refused);
    let mut reason = String::new();
    refusal.read_to_string(&mut reason).context(giving)?;
    match sys::wait_child(child).context(giving)?.success() {
        true => Ok(()),
        false => Err(Fault::new(format!("{}: {reason}", giving()))),
    }
}

/// Without root the namespace can only be entered through the user namespace that owns it.
fn enter(user: &File, net: &File) -> io::Result<()> {
    match sys::setns(net.as_fd(), libc::CLONE_NEWNET) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            sys::setns(user.as_fd(), libc::CLONE_NEWUSER)?;
            sys::setns(net.as_fd(), libc::CLONE_NEWNET)
        }
        entered => entered,
    }
}

fn add_address() -> io::Result<()> {
    let socket = sys::route_socket()?;
    sys::write_once(socket.as_raw_fd(), &new_address())?;
    acknowledged(socket)
}

/// RTM_NEWADDR for the loopback, with an acknowledgement.
fn new_address() -> Vec<u8> {
    let mut attributes = Vec::new();
    for kind in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
        attributes.extend_from_slice(&8u16.to_ne_bytes());
        attributes.extend_from_slice(&kind.to_ne_bytes());
        attributes.extend_from_slice(&ADDRESS);
    }
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let length = 16 + 8 + attributes.len();
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(&(length as u32).to_ne_bytes());
    message.extend_from_slice(&libc::RTM_NEWADDR.to_ne_bytes());
    message.extend_from_slice(&(flags as u16).to_ne_bytes());
    // Sequence number and sender, which we may choose.
    message.extend_from_slice(&[0; 8]);
    let (family, scope) = (libc::AF_INET as u8, libc::RT_SCOPE_HOST);
    message.extend_from_slice(&[family, PREFIX_BITS, 0, scope]);
    message.extend_from_slice(&LOOPBACK.to_ne_bytes());
    message.extend_from_slice(&attributes);
    message
}

/// Reads the kernel's answer: an error number, zero for success.
fn acknowledged(socket: OwnedFd) -> io::Result<()> {
    let mut answer = [0; 512];
    let n = File::from(socket).read(&mut answer)?;
    let kind = answer.get(4..6).filter(|_| n >= 20);
    if kind != Some(&(libc::NLMSG_ERROR as u16).to_ne_bytes()) {
        return Err(io::Error::other(
            "the kernel did not acknowledge the address",
        ));
    }
    let code = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}
