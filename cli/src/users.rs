// SPDX-License-Identifier: GPL-2.0-only
//! The users of a device.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use serde::Serialize;

use crate::device::{self, DevId, Device};
use crate::text::printable;

/// A process that has a device open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its process ID.
    pub pid: u32,
    /// Its name.
    pub command: String,
}

/// The users of a device and its partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Users {
    /// Mount points in the caller's mount namespace.
    pub mounts: Vec<String>,
    /// Block devices on top of it: device-mapper, md, other loop devices.
    pub holders: Vec<String>,
    /// Nodes in use as swap.
    pub swaps: Vec<String>,
    /// Processes that have it open, as far as the caller may see.
    pub processes: Vec<Process>,
}

impl Users {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Whether there are users other than open files.
    pub fn are_lasting(&self) -> bool {
        !(self.mounts.is_empty()
            && self.holders.is_empty()
            && self.swaps.is_empty())
    }

    /// As text.
    pub fn describe(&self) -> String {
        let mounts = self.mounts.iter().map(|at| format!("mounted on {at}"));
        let holders = self.holders.iter().map(|name| format!("held by {name}"));
        let swaps = self.swaps.iter().map(|name| format!("swap on {name}"));
        let processes = self
            .processes
            .iter()
            .map(|p| format!("open in {} (process {})", p.command, p.pid));
        mounts
            .chain(holders)
            .chain(swaps)
            .chain(processes)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// A device and its partitions.
struct Nodes {
    paths: Vec<PathBuf>,
    ids: Vec<DevId>,
    folders: Vec<PathBuf>,
}

impl Nodes {
    fn of(device: Device) -> Self {
        let mut nodes = Self {
            paths: vec![device.node()],
            ids: device.id().into_iter().collect(),
            folders: vec![device.sysfs()],
        };
        for partition in device.partitions() {
            nodes.paths.push(partition.node);
            nodes.ids.push(partition.id);
            nodes.folders.push(partition.sysfs);
        }
        nodes
    }
}

/// Finds the users of a device.
pub fn of(device: Device) -> Users {
    let nodes = Nodes::of(device);
    Users {
        mounts: mounts(&nodes),
        holders: holders(&nodes),
        swaps: swaps(&nodes),
        processes: processes(&nodes.ids),
    }
}

/// Decodes the octal escapes of the files in /proc.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code =
            tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

fn mounts(nodes: &Nodes) -> Vec<String> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| mount_of(line, nodes))
        .collect()
}

/// The mount point in a line of mountinfo, if one of the nodes is mounted
/// there.
fn mount_of(line: &[u8], nodes: &Nodes) -> Option<String> {
    let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let id: DevId = std::str::from_utf8(fields.get(2)?).ok()?.parse().ok()?;
    // Btrfs has a device number of its own: compare the source's name too.
    let source = fields
        .iter()
        .position(|field| *field == b"-")
        .and_then(|at| fields.get(at + 2));
    let by_name = || {
        source.is_some_and(|source| {
            nodes.paths.iter().any(|path| unescape(source) == *path)
        })
    };
    (nodes.ids.contains(&id) || by_name())
        .then(|| printable(&unescape(fields.get(4)?)).into())?
}

fn holders(nodes: &Nodes) -> Vec<String> {
    let mut names: Vec<String> = nodes
        .folders
        .iter()
        .flat_map(|folder| {
            fs::read_dir(folder.join("holders")).into_iter().flatten()
        })
        .filter_map(|entry| Some(printable(&entry.ok()?.file_name())))
        .collect();
    // A loop device is not listed as a holder of its image.
    for device in device::all() {
        let image = device.attribute("loop/backing_file").map(PathBuf::from);
        if image.is_some_and(|image| nodes.paths.contains(&image)) {
            names.push(device.to_string());
        }
    }
    names.sort();
    names.dedup();
    names
}

fn swaps(nodes: &Nodes) -> Vec<String> {
    let table = fs::read("/proc/swaps").unwrap_or_default();
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            line.split(|byte| *byte == b' ' || *byte == b'\t').next()
        })
        .map(unescape)
        .filter(|name| nodes.paths.iter().any(|path| path == Path::new(name)))
        .map(|name| printable(&name))
        .collect()
}

/// All processes but this one.
pub fn other_processes() -> Vec<u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .collect()
}

/// Whether a process's open file is one of these block devices.
pub fn is_open(descriptor: &Path, ids: &[DevId]) -> bool {
    // Sockets, pipes and the like have no path.
    let Ok(target) = fs::read_link(descriptor) else { return false };
    if !target.as_os_str().as_bytes().starts_with(b"/") {
        return false;
    }
    // Don't ask the server of a network file system: it may not answer.
    let Ok(stat) =
        statx(CWD, descriptor, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)
    else {
        return false;
    };
    FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice
        && ids.contains(&DevId {
            major: stat.stx_rdev_major,
            minor: stat.stx_rdev_minor,
        })
}

/// The other processes that have one of these block devices open, as far as the
/// caller may see.
fn processes(ids: &[DevId]) -> Vec<Process> {
    let mut found: Vec<Process> = other_processes()
        .into_iter()
        .filter(|pid| {
            fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().any(
                |entry| entry.is_ok_and(|entry| is_open(&entry.path(), ids)),
            )
        })
        .map(|pid| {
            let name =
                fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = OsString::from_vec(
                name.strip_suffix(b"\n").unwrap_or(&name).to_vec(),
            );
            Process { pid, command: printable(&name) }
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_proc() {
        assert_eq!(unescape(b"/mnt/a\\040b"), "/mnt/a b");
        assert_eq!(unescape(b"/mnt/a\\134040"), "/mnt/a\\040");
        assert_eq!(unescape(b"/mnt\\"), "/mnt\\");
        assert_eq!(unescape(b""), "");
    }

    #[test]
    fn lines_of_mountinfo() {
        let nodes = Nodes {
            paths: vec!["/dev/loop0".into()],
            ids: vec![DevId { major: 7, minor: 0 }],
            folders: vec![],
        };
        let of = |line: &str| mount_of(line.as_bytes(), &nodes);
        let ext4 =
            "36 35 7:0 / /mnt/a\\040b rw,noatime shared:1 - ext4 /dev/loop0 rw";
        assert_eq!(of(ext4).as_deref(), Some("/mnt/a b"));
        let btrfs = "36 35 0:40 /sub /mnt rw - btrfs /dev/loop0 rw";
        assert_eq!(of(btrfs).as_deref(), Some("/mnt"));
        assert_eq!(of("36 35 7:1 / /mnt rw - ext4 /dev/loop1 rw"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn users_in_words() {
        let mut users = Users::default();
        assert!(users.is_empty() && !users.are_lasting());
        users.mounts.push("/mnt".to_owned());
        users.processes.push(Process { pid: 7, command: "fio".to_owned() });
        assert!(users.are_lasting());
        assert_eq!(
            users.describe(),
            "mounted on /mnt, open in fio (process 7)"
        );
    }
}
