// SPDX-License-Identifier: GPL-2.0-only
//! The users of a device.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use serde::Serialize;

use crate::cgroup::{self, Place};
use crate::device::{self, DevId, Device};
use crate::image::Identity;
use crate::text::{printable, shown};

/// A process that has a device open, or one in a mount namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its process ID.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// What it belongs to.
    #[serde(flatten)]
    pub place: Place,
}

impl Process {
    fn of(pid: u32) -> Self {
        let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = OsString::from_vec(
            name.strip_suffix(b"\n").unwrap_or(&name).to_vec(),
        );
        Self { pid, command: printable(&name), place: cgroup::of(pid) }
    }

    /// As text: "fio (process 7, a.service)".
    pub fn describe(&self) -> String {
        let place = self.place.to_string();
        let comma = if place.is_empty() { "" } else { ", " };
        format!("{} (process {}{comma}{place})", self.command, self.pid)
    }
}

/// A mount that the caller's mount namespace doesn't have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
    /// Where, as its processes see it.
    pub mount_point: String,
    /// The inode number of its namespace, if the caller may know it.
    pub namespace: Option<u64>,
    /// A process that sees it.
    #[serde(flatten)]
    pub process: Process,
}

/// A block device on top of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stacked {
    /// Its name in sysfs: dm-0.
    pub device: String,
    /// dm, md, loop, floop; null for others.
    pub kind: Option<&'static str>,
    /// device-mapper's name, with its subsystem ("LVM vg-lv"); md's level.
    pub name: Option<String>,
}

/// A file system that uses a device and is mounted nowhere that can be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lingering {
    /// The device or partition.
    pub device: String,
    /// ext4, xfs, ...
    pub kind: String,
}

/// The users of a device and its partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Users {
    /// Mount points in the caller's mount namespace.
    pub mounts: Vec<String>,
    /// Those in other ones.
    pub mounts_elsewhere: Vec<Elsewhere>,
    /// File systems that are in use without a mount.
    pub file_systems: Vec<Lingering>,
    /// Block devices on top of it: device-mapper, md, other loop devices.
    pub holders: Vec<String>,
    /// The same, with what they are.
    pub stacked: Vec<Stacked>,
    /// Nodes in use as swap.
    pub swaps: Vec<String>,
    /// Processes that have it open, as far as the caller may see.
    pub processes: Vec<Process>,
    /// Processes that the caller may not look into.
    pub processes_not_seen: u64,
}

impl Users {
    /// Whether there are none, as far as the caller may see.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && !self.are_lasting()
    }

    /// Whether there are users other than open files.
    pub fn are_lasting(&self) -> bool {
        !(self.mounts.is_empty()
            && self.mounts_elsewhere.is_empty()
            && self.file_systems.is_empty()
            && self.holders.is_empty()
            && self.swaps.is_empty())
    }

    /// As text, one each.
    pub fn list(&self) -> Vec<String> {
        let mounts = self.mounts.iter().map(|at| format!("mounted on {at}"));
        let elsewhere = self.mounts_elsewhere.iter().map(|mount| {
            format!(
                "mounted on {} in the mount namespace of {}",
                mount.mount_point,
                mount.process.describe()
            )
        });
        let lingering = self.file_systems.iter().map(|fs| {
            format!(
                "in use by {} on {}, which is mounted nowhere that can be seen",
                fs.kind, fs.device
            )
        });
        let stacked = self.stacked.iter().map(|on_top| match &on_top.name {
            Some(name) => format!("held by {} ({name})", on_top.device),
            None => format!("held by {}", on_top.device),
        });
        let swaps = self.swaps.iter().map(|name| format!("swap on {name}"));
        let processes =
            self.processes.iter().map(|p| format!("open in {}", p.describe()));
        mounts
            .chain(elsewhere)
            .chain(lingering)
            .chain(stacked)
            .chain(swaps)
            .chain(processes)
            .collect()
    }

    /// As text.
    pub fn describe(&self) -> String {
        self.list().join(", ")
    }

    /// What the caller could not see.
    pub fn not_seen(&self) -> Option<String> {
        (self.processes_not_seen > 0).then(|| {
            let number = self.processes_not_seen;
            let noun = if number == 1 { "process" } else { "processes" };
            format!("the open files of {number} {noun}; run it as root (sudo)")
        })
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
    of_all(&[device]).pop().unwrap_or_default()
}

/// Finds the users of each device. It looks through /proc only once.
pub fn of_all(devices: &[Device]) -> Vec<Users> {
    let nodes: Vec<Nodes> = devices.iter().map(|d| Nodes::of(*d)).collect();
    let mut found: Vec<Users> = nodes
        .iter()
        .map(|nodes| Users {
            holders: holders(nodes),
            swaps: swaps(nodes),
            ..Users::default()
        })
        .collect();
    for users in &mut found {
        users.stacked = users.holders.iter().map(|n| stacked(n)).collect();
    }
    let index = Index::of(&nodes);
    let mounted = mounts(&index, &mut found);
    for (users, nodes) in found.iter_mut().zip(&nodes) {
        users.file_systems = lingering(nodes, &mounted);
    }
    processes(&index, &mut found);
    found
}

/// Which device a node belongs to.
struct Index<'a> {
    ids: HashMap<DevId, usize>,
    paths: HashMap<&'a Path, usize>,
}

impl<'a> Index<'a> {
    fn of(nodes: &'a [Nodes]) -> Self {
        let mut index = Self { ids: HashMap::new(), paths: HashMap::new() };
        for (at, nodes) in nodes.iter().enumerate() {
            index.ids.extend(nodes.ids.iter().map(|id| (*id, at)));
            index.paths.extend(nodes.paths.iter().map(|p| (p.as_path(), at)));
        }
        index
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

/// A mount of one of the nodes.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// Which device.
    device: usize,
    /// Its ID. No two mounts have the same, in whatever namespace.
    id: Vec<u8>,
    /// The file system's device number.
    number: DevId,
    /// The node, as the file system names it.
    source: PathBuf,
    /// The mount point.
    point: String,
}

/// The mounts of the nodes in a mountinfo file.
fn mounts_in(table: &[u8], index: &Index) -> Vec<Mount> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| mount_of(line, index))
        .collect()
}

/// The mount in a line of mountinfo, if it is one of a node.
fn mount_of(line: &[u8], index: &Index) -> Option<Mount> {
    let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let number = std::str::from_utf8(fields.get(2)?).ok()?.parse().ok()?;
    // Btrfs has a device number of its own: compare the source's name too.
    let source = fields
        .iter()
        .position(|field| *field == b"-")
        .and_then(|at| fields.get(at + 2))
        .map(|source| PathBuf::from(unescape(source)))
        .unwrap_or_default();
    let by_name = || index.paths.get(source.as_path());
    let device = *index.ids.get(&number).or_else(by_name)?;
    Some(Mount {
        device,
        number,
        id: fields.first()?.to_vec(),
        point: shown(&unescape(fields.get(4)?)),
        source,
    })
}

/// A mount namespace, as seen from a process's root.
type View = (u64, PathBuf);

fn view(process: &str) -> Option<View> {
    let link = fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?;
    let number = link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?;
    let root = fs::read_link(format!("/proc/{process}/root")).ok()?;
    Some((number.parse().ok()?, root))
}

/// The nodes that are mounted.
#[derive(Default)]
struct Mounted {
    ids: HashSet<DevId>,
    paths: HashSet<PathBuf>,
}

/// Finds the mounts in every mount namespace that has a process.
fn mounts(index: &Index, found: &mut [Users]) -> Mounted {
    let mut mounted = Mounted::default();
    let mut seen = HashSet::new();
    let own = fs::read("/proc/self/mountinfo").unwrap_or_default();
    for mount in mounts_in(&own, index) {
        found[mount.device].mounts.push(mount.point);
        seen.insert(mount.id);
        mounted.ids.insert(mount.number);
        mounted.paths.insert(mount.source);
    }
    let mut views: HashSet<View> = view("self").into_iter().collect();
    let mut pids = other_processes();
    pids.sort_unstable();
    for pid in pids {
        // Others' processes don't show their namespace, but their mounts.
        let view = view(&pid.to_string());
        if view.as_ref().is_some_and(|view| !views.insert(view.clone())) {
            continue;
        }
        let table = fs::read(format!("/proc/{pid}/mountinfo"));
        for mount in mounts_in(&table.unwrap_or_default(), index) {
            mounted.ids.insert(mount.number);
            mounted.paths.insert(mount.source);
            if seen.insert(mount.id) {
                found[mount.device].mounts_elsewhere.push(Elsewhere {
                    mount_point: mount.point,
                    namespace: view.as_ref().map(|view| view.0),
                    process: Process::of(pid),
                });
            }
        }
    }
    mounted
}

/// The file systems that sysfs shows on a node that is mounted nowhere: they
/// were unmounted lazily, or their mount namespace has no process.
fn lingering(nodes: &Nodes, mounted: &Mounted) -> Vec<Lingering> {
    let mut found = Vec::new();
    let names = nodes.paths.iter().zip(&nodes.folders);
    for ((path, folder), id) in names.zip(&nodes.ids) {
        if mounted.ids.contains(id) || mounted.paths.contains(path) {
            continue;
        }
        let Some(name) = folder.file_name() else { continue };
        // /sys/fs/ext4/loop0, /sys/fs/btrfs/UUID/devices/loop0
        let of_btrfs = || {
            fs::read_dir("/sys/fs/btrfs")
                .into_iter()
                .flatten()
                .flatten()
                .any(|entry| entry.path().join("devices").join(name).exists())
        };
        let kinds = fs::read_dir("/sys/fs").into_iter().flatten().flatten();
        for kind in kinds {
            if kind.path().join(name).is_dir()
                || (kind.file_name() == "btrfs" && of_btrfs())
            {
                found.push(Lingering {
                    device: path.display().to_string(),
                    kind: printable(&kind.file_name()),
                });
            }
        }
    }
    found
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

/// What a block device on top is.
fn stacked(device: &str) -> Stacked {
    let read = |name: &str| {
        let text = fs::read(format!("/sys/block/{device}/{name}")).ok()?;
        let text = text.strip_suffix(b"\n").unwrap_or(&text).to_vec();
        Some(printable(&OsString::from_vec(text))).filter(|t| !t.is_empty())
    };
    let (kind, name) = if let Some(name) = read("dm/name") {
        // The UUID begins with the subsystem: LVM-..., CRYPT-LUKS2-...
        let uuid = read("dm/uuid").unwrap_or_default();
        let kind = uuid.split_once('-').map(|(kind, _)| format!("{kind} "));
        (Some("dm"), Some(format!("{}{name}", kind.unwrap_or_default())))
    } else if let Some(level) = read("md/level") {
        (Some("md"), Some(level))
    } else {
        let device = device.parse::<Device>().ok();
        (device.map(|device| device.family.name()), None)
    };
    Stacked { device: device.to_owned(), kind, name }
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
        .map(|name| shown(&name))
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

/// Whether a process's descriptor is of a file with a name. Sockets, pipes and
/// the like have none.
fn leads_to_a_file(descriptor: &Path) -> bool {
    fs::read_link(descriptor)
        .is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/"))
}

/// The number of the block device that a process's descriptor has open.
fn block_device(descriptor: &Path) -> Option<DevId> {
    if !leads_to_a_file(descriptor) {
        return None;
    }
    // Don't ask the server of a network file system: it may not answer.
    let stat =
        statx(CWD, descriptor, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)
            .ok()?;
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    (kind == FileType::BlockDevice).then_some(DevId {
        major: stat.stx_rdev_major,
        minor: stat.stx_rdev_minor,
    })
}

/// Whether a process's open file is one of these block devices.
pub fn is_open(descriptor: &Path, ids: &[DevId]) -> bool {
    block_device(descriptor).is_some_and(|id| ids.contains(&id))
}

/// Finds the other processes that have one of the nodes open, as far as the
/// caller may see.
fn processes(index: &Index, found: &mut [Users]) {
    let mut pids = other_processes();
    pids.sort_unstable();
    let mut not_seen = 0;
    for pid in pids {
        let open = match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(entries) => entries,
            Err(error) => {
                not_seen +=
                    u64::from(error.kind() == ErrorKind::PermissionDenied);
                continue;
            }
        };
        let devices: HashSet<usize> = open
            .filter_map(|entry| {
                let id = block_device(&entry.ok()?.path())?;
                index.ids.get(&id).copied()
            })
            .collect();
        for device in devices {
            found[device].processes.push(Process::of(pid));
        }
    }
    for users in found {
        users.processes_not_seen = not_seen;
    }
}

/// The other processes that have an image open, as far as the caller may see.
pub fn of_image(image: Identity) -> Vec<Process> {
    let has_it = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        open.into_iter().flatten().flatten().any(|entry| {
            leads_to_a_file(&entry.path())
                && fs::metadata(entry.path())
                    .is_ok_and(|metadata| Identity::of(&metadata) == image)
        })
    };
    let mut pids = other_processes();
    pids.sort_unstable();
    pids.into_iter().filter(has_it).map(Process::of).collect()
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
        let nodes = [Nodes {
            paths: vec!["/dev/loop0".into()],
            ids: vec![DevId { major: 7, minor: 0 }],
            folders: vec![],
        }];
        let index = Index::of(&nodes);
        let of = |line: &str| {
            let mount = mount_of(line.as_bytes(), &index)?;
            assert_eq!((mount.device, mount.id), (0, b"36".to_vec()));
            assert_eq!(mount.source, Path::new("/dev/loop0"));
            Some(mount.point)
        };
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
        let mut fio = Process {
            pid: 7,
            command: "fio".to_owned(),
            place: Place::default(),
        };
        users.processes.push(fio.clone());
        assert!(users.are_lasting());
        assert_eq!(
            users.describe(),
            "mounted on /mnt, open in fio (process 7)"
        );
        fio.place.unit = Some("a.service".to_owned());
        let elsewhere = Elsewhere {
            mount_point: "/x".to_owned(),
            namespace: Some(1),
            process: fio,
        };
        let users =
            Users { mounts_elsewhere: vec![elsewhere], ..Users::default() };
        assert!(users.are_lasting());
        assert_eq!(
            users.describe(),
            "mounted on /x in the mount namespace of fio (process 7, \
             a.service)"
        );
    }

    #[test]
    fn what_was_not_seen() {
        let mut users = Users::default();
        assert_eq!(users.not_seen(), None);
        users.processes_not_seen = 2;
        assert!(users.is_empty());
        let said = users.not_seen().unwrap_or_default();
        assert!(said.starts_with("the open files of 2 processes;"), "{said}");
    }
}
