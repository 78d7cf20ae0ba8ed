//! The cgroup hierarchies of this machine: version 1, version 2, or both.

use std::fs;
use std::path::PathBuf;

use crate::fault::{Context, Outcome};

/// The version 1 controllers that a sandbox needs.
const V1_CONTROLLERS: [&str; 6] = ["memory", "pids", "cpu", "cpuacct", "freezer", "devices"];
pub const UNIFIED: &str = "unified";

/// One mounted hierarchy.
#[derive(Debug)]
pub struct Hierarchy {
    pub root: PathBuf,
    /// Version 1: its controllers. Version 2: only `unified`.
    pub names: Vec<&'static str>,
    pub device: String,
}

impl Hierarchy {
    pub fn is_unified(&self) -> bool {
        self.names == [UNIFIED]
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }
}

/// The hierarchies of this machine.
#[derive(Debug, Default)]
pub struct Hierarchies(pub Vec<Hierarchy>);

impl Hierarchies {
    pub fn discover() -> Outcome<Self> {
        let text = fs::read_to_string("/proc/self/mountinfo")
            .context(|| "reading /proc/self/mountinfo".into())?;
        let mut found: Vec<Hierarchy> = Vec::new();
        for line in text.lines() {
            if let Some(hierarchy) = parse_mount(line)
                && !found.iter().any(|known| known.device == hierarchy.device)
            {
                found.push(hierarchy);
            }
        }
        Ok(Hierarchies(found))
    }

    pub fn unified(&self) -> Option<&Hierarchy> {
        self.0.iter().find(|hierarchy| hierarchy.is_unified())
    }

    /// Whether the controllers are version 2, which is the case if version 1 has none of them.
    pub fn is_pure_v2(&self) -> bool {
        self.unified().is_some() && self.0.len() == 1
    }

    pub fn mode(&self) -> &'static str {
        match (self.unified(), self.0.len()) {
            (_, 0) => "none",
            (Some(_), 1) => "v2",
            (Some(_), _) => "hybrid",
            (None, _) => "v1",
        }
    }

    /// The names of all usable controllers.
    pub fn controllers(&self) -> Outcome<Vec<String>> {
        if !self.is_pure_v2() {
            let names = self
                .0
                .iter()
                .filter(|hierarchy| !hierarchy.is_unified())
                .flat_map(|hierarchy| &hierarchy.names);
            return Ok(names.map(|name| (*name).to_owned()).collect());
        }
        let file = self.0[0].root.join("cgroup.controllers");
        let text = fs::read_to_string(&file).context(|| format!("reading {}", file.display()))?;
        Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
    }

    /// The sandbox's cgroup in every hierarchy, whether or not it exists.
    pub fn paths<'a>(
        &'a self,
        parent: &'a str,
        id: &'a str,
    ) -> impl Iterator<Item = (&'a Hierarchy, PathBuf)> {
        self.0
            .iter()
            .map(move |hierarchy| (hierarchy, hierarchy.root.join(parent).join(id)))
    }
}

fn parse_mount(line: &str) -> Option<Hierarchy> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let device = left.nth(2)?.to_owned();
    let root = PathBuf::from(left.nth(1)?);
    let mut right = right.split(' ');
    let kind = right.next()?;
    let options = right.nth(1)?;
    let names: Vec<&'static str> = match kind {
        "cgroup2" => vec![UNIFIED],
        "cgroup" => V1_CONTROLLERS
            .into_iter()
            .filter(|name| options.split(',').any(|option| option == *name))
            .collect(),
        _ => return None,
    };
    (!names.is_empty()).then_some(Hierarchy {
        root,
        names,
        device,
    })
}
