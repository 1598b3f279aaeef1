// SPDX-License-Identifier: GPL-2.0-only
//! The devices of both drivers, as sysfs shows them.
//!
//! Nothing here opens a device: opening and closing another process's device
//! can detach it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{major, minor};

use crate::mapping::Mapping;

const SYSFS: &str = "/sys/block";

/// Which names a device has: floop's own or the loop driver's (the in-tree
/// driver or the drop-in).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// /dev/floopN, made by /dev/floop-control.
    Floop,
    /// /dev/loopN, made by /dev/loop-control.
    Loop,
}

impl Family {
    /// The prefix of its device names, and what modprobe loads for them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floop => "floop",
            Self::Loop => "loop",
        }
    }
}

/// The driver of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The floop module, side by side with the loop driver.
    Floop,
    /// The floop module in place of the loop driver.
    DropIn,
    /// The in-tree loop driver.
    InTree,
}

impl Driver {
    /// Its name in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Self::Floop => "floop",
            Self::DropIn => "floop-drop-in",
            Self::InTree => "loop",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Floop => "floop",
            Self::DropIn => "floop (drop-in for loop)",
            Self::InTree => "loop (in-tree)",
        })
    }
}

/// A device, attached or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Which names it has.
    pub family: Family,
    /// Its number.
    pub number: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.family.name(), self.number)
    }
}

impl FromStr for Device {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        for family in [Family::Floop, Family::Loop] {
            if let Some(digits) = name.strip_prefix(family.name()) {
                // No device is called "loop+1" or "loop01".
                let number = digits.parse().map_err(|_| ())?;
                let device = Self { family, number };
                return if device.to_string() == name {
                    Ok(device)
                } else {
                    Err(())
                };
            }
        }
        Err(())
    }
}

impl Device {
    /// Its node in /dev.
    pub fn node(self) -> PathBuf {
        Path::new("/dev").join(self.to_string())
    }

    /// Its directory in sysfs.
    pub fn sysfs(self) -> PathBuf {
        Path::new(SYSFS).join(self.to_string())
    }

    /// An attribute in sysfs, without the newline at its end.
    pub fn attribute(self, name: &str) -> Option<OsString> {
        read_attribute(&self.sysfs().join(name))
    }

    /// An attribute that is a number.
    pub fn number_attribute(self, name: &str) -> Option<u64> {
        self.attribute(name)?.to_str()?.trim().parse().ok()
    }

    fn flag_attribute(self, name: &str) -> Option<bool> {
        self.number_attribute(name).map(|value| value != 0)
    }

    /// Whether nobody can write to it, by its image or by `BLKROSET`.
    pub fn is_read_only(self) -> bool {
        self.flag_attribute("ro").unwrap_or_default()
    }

    /// Whether the kernel has the device.
    pub fn exists(self) -> bool {
        self.sysfs().exists()
    }

    /// Whether an image is attached to it.
    pub fn is_attached(self) -> bool {
        self.sysfs().join("loop/backing_file").exists()
    }

    /// The disk sequence number, which changes with each attach and detach.
    pub fn sequence(self) -> Option<u64> {
        self.number_attribute("diskseq")
    }

    /// Its device number.
    pub fn id(self) -> Option<DevId> {
        self.attribute("dev")?.to_str()?.parse().ok()
    }

    /// Its driver.
    pub fn driver(self) -> Driver {
        if self.family == Family::Floop {
            return Driver::Floop;
        }
        let own =
            self.attribute("loop/driver").is_some_and(|name| name == "floop");
        if own || is_drop_in() { Driver::DropIn } else { Driver::InTree }
    }

    /// What is attached to it, or `None` if nothing is.
    pub fn attachment(self) -> Option<Attachment> {
        loop {
            let sequence = self.sequence();
            let attachment = self.attachment_if(sequence);
            // Otherwise the attributes may be of two different attachments.
            if self.sequence() == sequence {
                return attachment;
            }
        }
    }

    fn attachment_if(self, sequence: Option<u64>) -> Option<Attachment> {
        let backing_file = self.attribute("loop/backing_file")?;
        let driver = self.driver();
        Some(Attachment {
            device: self,
            sequence,
            driver,
            backing_file: backing_file.into(),
            offset: self.number_attribute("loop/offset")?,
            size_limit: self.number_attribute("loop/sizelimit")?,
            size: self.number_attribute("size")?.saturating_mul(512),
            sector_size: self.number_attribute("queue/logical_block_size")?,
            read_only: self.flag_attribute("ro")?,
            autoclear: self.flag_attribute("loop/autoclear")?,
            partscan: self.flag_attribute("loop/partscan")?,
            direct: self.flag_attribute("loop/dio")?,
            mapping: if driver == Driver::InTree {
                None
            } else {
                Mapping::of(self)
            },
        })
    }

    /// The partitions that the kernel has found, in order.
    pub fn partitions(self) -> Vec<Partition> {
        let mut found: Vec<_> = folders(&self.sysfs())
            .filter_map(|folder| {
                let number = |name: &str| -> Option<u64> {
                    read_attribute(&folder.join(name))?
                        .to_str()?
                        .trim()
                        .parse()
                        .ok()
                };
                Some(Partition {
                    number: number("partition")?,
                    node: Path::new("/dev").join(folder.file_name()?),
                    id: read_attribute(&folder.join("dev"))?
                        .to_str()?
                        .parse()
                        .ok()?,
                    start: number("start")?.saturating_mul(512),
                    size: number("size")?.saturating_mul(512),
                    sysfs: folder,
                })
            })
            .collect();
        found.sort_by_key(|partition| partition.number);
        found
    }
}

/// An image attached to a device.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The device.
    pub device: Device,
    /// The disk sequence number of this attachment.
    pub sequence: Option<u64>,
    /// Its driver.
    pub driver: Driver,
    /// The image, as the kernel names it.
    pub backing_file: PathBuf,
    /// The offset into the image.
    pub offset: u64,
    /// The maximum size of the device; 0 for no limit.
    pub size_limit: u64,
    /// The size of the device.
    pub size: u64,
    /// Its logical block size.
    pub sector_size: u64,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether the last close detaches it.
    pub autoclear: bool,
    /// Whether the kernel scans for partitions.
    pub partscan: bool,
    /// Whether I/O to the image is direct.
    pub direct: bool,
    /// The mapping; `None` if the driver doesn't map.
    pub mapping: Option<Mapping>,
}

impl Attachment {
    /// Whether this is still attached. While the device is open that doesn't
    /// change.
    pub fn is_current(&self) -> bool {
        self.device.is_attached() && self.device.sequence() == self.sequence
    }

    /// The image's name, and whether the image was deleted, which the kernel
    /// appends to the name.
    pub fn image(&self) -> (&Path, bool) {
        let name = self.backing_file.as_os_str().as_bytes();
        match name.strip_suffix(b" (deleted)") {
            Some(name) if !self.backing_file.exists() => {
                (Path::new(OsStr::from_bytes(name)), true)
            }
            _ => (&self.backing_file, false),
        }
    }
}

/// A partition of a device.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Its number in the partition table.
    pub number: u64,
    /// Its node in /dev.
    pub node: PathBuf,
    /// Its device number.
    pub id: DevId,
    /// Its offset on the device in bytes.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its directory in sysfs.
    pub sysfs: PathBuf,
}

/// A device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DevId {
    /// The major number.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
}

impl DevId {
    /// From a `st_dev` or `st_rdev`.
    pub fn from_stat(raw: u64) -> Self {
        Self { major: major(raw), minor: minor(raw) }
    }

    /// From the encoding that `LOOP_GET_STATUS64` returns.
    pub fn from_kernel(raw: u64) -> Self {
        let part =
            |value: u64| u32::try_from(value & 0xffff_ffff).unwrap_or_default();
        Self {
            major: part((raw >> 8) & 0xfff),
            minor: part((raw & 0xff) | ((raw >> 12) & 0xfff00)),
        }
    }

    /// The directory of this block device or partition in sysfs.
    pub fn sysfs(self) -> Option<PathBuf> {
        fs::canonicalize(format!("/sys/dev/block/{self}")).ok()
    }
}

impl fmt::Display for DevId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DevId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.trim().split_once(':').ok_or(())?;
        Ok(Self {
            major: major.parse().map_err(|_| ())?,
            minor: minor.parse().map_err(|_| ())?,
        })
    }
}

fn read_attribute(path: &Path) -> Option<OsString> {
    let mut bytes = fs::read(path).ok()?;
    // sysfs adds one newline; any other belongs to a file name.
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Some(OsString::from_vec(bytes))
}

fn folders(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(path).into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_type().ok()?.is_dir().then(|| entry.path())
    })
}

/// The version of the floop module, if it serves these devices.
pub fn floop_version(family: Family) -> Option<String> {
    let read = |name: &str| {
        read_attribute(&Path::new("/sys/module/floop").join(name))
            .map(|text| text.to_string_lossy().into_owned())
    };
    (read("parameters/names")? == family.name())
        .then(|| read("version"))
        .flatten()
}

/// Whether floop is loaded in the loop driver's place.
pub fn is_drop_in() -> bool {
    floop_version(Family::Loop).is_some()
}

/// All devices of both drivers, attached or not, in order.
pub fn all() -> Vec<Device> {
    let mut devices: Vec<Device> = fs::read_dir(SYSFS)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    devices.sort();
    devices
}

/// All attachments, in order of the devices.
pub fn attached() -> Vec<Attachment> {
    all().into_iter().filter_map(Device::attachment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        let device = |family, number| Ok(Device { family, number });
        assert_eq!("loop0".parse(), device(Family::Loop, 0));
        assert_eq!("floop12".parse(), device(Family::Floop, 12));
        for name in [
            "loop",
            "loop-control",
            "loop01",
            "loop+1",
            "loop0p1",
            "vda",
            "floop",
            "zloop1",
        ] {
            assert_eq!(name.parse::<Device>(), Err(()), "{name}");
        }
        assert_eq!(
            Device { family: Family::Floop, number: 3 }.node(),
            Path::new("/dev/floop3")
        );
    }

    #[test]
    fn device_numbers() {
        assert_eq!("7:300".parse(), Ok(DevId { major: 7, minor: 300 }));
        assert_eq!("7".parse::<DevId>(), Err(()));
        // Twelve bits of the minor number are above the major number.
        assert_eq!(
            DevId::from_kernel(0x0010_072c),
            DevId { major: 7, minor: 300 }
        );
    }
}
