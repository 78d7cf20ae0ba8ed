//! Maps names to the addresses that represent them in the sandbox.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;

/// The maximum number of names with an address.
///
/// SECURITY: sandbox code can query names without end. Beyond this number, the least recently used
/// name loses its address (guarded by `a_flood_of_names_uses_bounded_memory`).
const MAX_NAMES: usize = 256;

/// A range of addresses that lead back into the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub first: Ipv4Addr,
    pub size: u32,
}

/// A range reserved for network tests, so it hides no internet host. The launcher has made it local
/// to the sandbox.
pub const OWN_RANGE: Range = Range {
    first: Ipv4Addr::new(198, 18, 0, 0),
    size: 1 << 17,
};
/// A part of the loopback network that no program uses, for sandboxes where no range can be made
/// local.
pub const LOOPBACK_RANGE: Range = Range {
    first: Ipv4Addr::new(127, 198, 0, 0),
    size: 1 << 16,
};

struct Entry {
    address: Ipv4Addr,
    used: u64,
}

pub struct Names {
    range: Range,
    by_name: HashMap<Rc<str>, Entry>,
    by_address: HashMap<Ipv4Addr, Rc<str>>,
    /// Counts up through the range, so that an address is not given to another name soon.
    next: u32,
    clock: u64,
}

impl Names {
    pub fn new(range: Range) -> Names {
        Names {
            range,
            by_name: HashMap::new(),
            by_address: HashMap::new(),
            next: 1,
            clock: 0,
        }
    }

    /// Returns the address of a name, and the address that another name lost to it.
    pub fn allocate(&mut self, name: &str) -> (Ipv4Addr, Option<Ipv4Addr>) {
        self.clock += 1;
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.used = self.clock;
            return (entry.address, None);
        }
        let evicted = (self.by_name.len() >= MAX_NAMES).then(|| self.evict());
        let address = self.free_address();
        let name: Rc<str> = name.into();
        self.by_address.insert(address, name.clone());
        let used = self.clock;
        self.by_name.insert(name, Entry { address, used });
        (address, evicted.flatten())
    }

    /// The name that an address represents; looking it up counts as a use.
    pub fn name_of(&mut self, address: Ipv4Addr) -> Option<Rc<str>> {
        let name = self.by_address.get(&address)?.clone();
        self.clock += 1;
        if let Some(entry) = self.by_name.get_mut(&name) {
            entry.used = self.clock;
        }
        Some(name)
    }

    fn evict(&mut self) -> Option<Ipv4Addr> {
        let (name, entry) = self.by_name.iter().min_by_key(|(_, entry)| entry.used)?;
        let (name, address) = (name.clone(), entry.address);
        self.by_name.remove(&name);
        self.by_address.remove(&address);
        Some(address)
    }

    /// Always finds a free address: the range has far more addresses than names may have.
    fn free_address(&mut self) -> Ipv4Addr {
        loop {
            // Some programs treat the first and the last address of a network specially.
            self.next = self.next % (self.range.size - 2) + 1;
            let address = Ipv4Addr::from_bits(self.range.first.to_bits() + self.next);
            if !self.by_address.contains_key(&address) {
                return address;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address() {
        let mut names = Names::new(OWN_RANGE);
        let (first, _) = names.allocate("a.test");
        let (other, _) = names.allocate("b.test");
        assert_ne!(first, other);
        assert_eq!(names.allocate("a.test"), (first, None));
        assert_eq!(names.name_of(first).as_deref(), Some("a.test"));
        assert_eq!(names.name_of(Ipv4Addr::new(198, 19, 0, 1)), None);
    }

    #[test]
    fn a_flood_of_names_uses_bounded_memory() {
        let mut names = Names::new(LOOPBACK_RANGE);
        let (kept, _) = names.allocate("kept.test");
        for number in 0..100_000 {
            let (address, _) = names.allocate(&format!("n{number}.test"));
            let bits = address.to_bits() - LOOPBACK_RANGE.first.to_bits();
            assert!(bits > 0 && bits < LOOPBACK_RANGE.size - 1);
            assert_eq!(names.name_of(kept).as_deref(), Some("kept.test"));
        }
        assert_eq!(names.by_name.len(), MAX_NAMES);
        assert_eq!(names.by_address.len(), MAX_NAMES);
        assert_eq!(names.allocate("kept.test"), (kept, None));
    }
}
