//! The network's listeners: the proxy, and the ports of names.

use crate::network::wire::Watch;
use crate::server::poll::Poll;
use crate::server::token::NetworkPart;
use crate::sys;
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Ports of all names together at a time.
const MAX_LISTENERS: usize = 1024;
const BACKLOG: i32 = 1024;

struct Listener {
    socket: TcpListener,
    watch: Watch,
    /// Where programs connect to; the proxy has none.
    address: Option<(Ipv4Addr, u16)>,
}

#[derive(Default)]
pub struct Listeners {
    by_id: HashMap<u32, Listener>,
    by_address: HashMap<(Ipv4Addr, u16), u32>,
    next: u32,
    /// There was no descriptor for a connection; listeners pause until one is free.
    exhausted: bool,
}

impl Listeners {
    pub fn add_proxy(&mut self, port: u16, poll: &Poll) -> io::Result<()> {
        self.add(listen(Ipv4Addr::LOCALHOST, port)?, None, poll)
    }

    /// A port on which a server of the sandbox listens on all addresses is not available.
    pub fn add_port(&mut self, address: Ipv4Addr, port: u16, poll: &Poll) {
        if self.by_id.len() < MAX_LISTENERS
            && !self.by_address.contains_key(&(address, port))
            && let Ok(socket) = listen(address, port)
        {
            let _ = self.add(socket, Some((address, port)), poll);
        }
    }

    fn add(
        &mut self,
        socket: TcpListener,
        address: Option<(Ipv4Addr, u16)>,
        poll: &Poll,
    ) -> io::Result<()> {
        let id = self.next;
        self.next = id.wrapping_add(1);
        let mut watch = Watch::default();
        watch.set(poll, &socket, libc::EPOLLIN, NetworkPart::Listener, id)?;
        if let Some(address) = address {
            self.by_address.insert(address, id);
        }
        let listener = Listener {
            socket,
            watch,
            address,
        };
        self.by_id.insert(id, listener);
        Ok(())
    }

    /// Stops listening on all ports of an address.
    pub fn remove(&mut self, address: Ipv4Addr, poll: &Poll) {
        let gone: Vec<(Ipv4Addr, u16)> = self
            .by_address
            .keys()
            .filter(|(other, _)| *other == address)
            .copied()
            .collect();
        for key in gone {
            if let Some(id) = self.by_address.remove(&key)
                && let Some(mut listener) = self.by_id.remove(&id)
            {
                let part = NetworkPart::Listener;
                let _ = listener.watch.set(poll, &listener.socket, 0, part, id);
            }
        }
    }

    /// Addresses of names that have listeners.
    pub fn addresses(&self) -> impl Iterator<Item = (Ipv4Addr, u16)> {
        self.by_address.keys().copied()
    }

    /// The next connection of a program, with the address it connected to unless that is the proxy.
    /// Without a free descriptor, the same connection would be reported again and again.
    pub fn accept(&mut self, id: u32, poll: &Poll) -> Option<(TcpStream, Option<(Ipv4Addr, u16)>)> {
        let listener = self.by_id.get(&id)?;
        match listener.socket.accept() {
            Ok((socket, _)) => Some((socket, listener.address)),
            Err(error) => {
                if is_exhaustion(&error) {
                    self.exhausted = true;
                    self.pause(poll);
                }
                None
            }
        }
    }

    /// A descriptor is free again.
    pub fn relieve(&mut self, poll: &Poll) {
        if self.exhausted {
            self.resume(poll);
        }
    }

    pub fn pause(&mut self, poll: &Poll) {
        self.watch(0, poll);
    }

    pub fn resume(&mut self, poll: &Poll) {
        self.exhausted = false;
        self.watch(libc::EPOLLIN, poll);
    }

    fn watch(&mut self, interest: i32, poll: &Poll) {
        for (id, listener) in &mut self.by_id {
            let part = NetworkPart::Listener;
            let _ = listener
                .watch
                .set(poll, &listener.socket, interest, part, *id);
        }
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

fn listen(address: Ipv4Addr, port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((address, port))?;
    listener.set_nonblocking(true)?;
    // SAFETY: plain system call on a socket that we own; it only makes the queue longer.
    sys::check(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) })?;
    Ok(listener)
}
