// SPDX-License-Identifier: GPL-2.0-only
//! Targets: from a name on the command line to its devices.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, absolute};
use std::str::FromStr;

use rustix::io::Errno;

use crate::device::{self, Attachment, DevId, Device};
use crate::error::{Error, Exit, Result};
use crate::image::Identity;
use crate::ioctl;

/// What a name refers to.
enum Target {
    /// A device of one of the drivers.
    Device(Device),
    /// Any other file that exists.
    Other(Metadata),
    /// No file of that name.
    Missing,
}

const LIST: &str = "floop list shows what is attached";

/// Looks a name up. `loop0` is short for `/dev/loop0` unless there is a file of
/// that name.
fn target(name: &Path) -> Result<Target> {
    match fs::metadata(name) {
        Ok(metadata) if metadata.file_type().is_block_device() => {
            match of_block_device(name, DevId::from_stat(metadata.rdev()))? {
                Some(device) => Ok(Target::Device(device)),
                None => Ok(Target::Other(metadata)),
            }
        }
        Ok(metadata) => Ok(Target::Other(metadata)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // The device may exist without its node.
            let text = name.strip_prefix("/dev").unwrap_or(name).to_str();
            match text.and_then(|name| Device::from_str(name).ok()) {
                Some(device) if device.exists() => Ok(Target::Device(device)),
                _ => Ok(Target::Missing),
            }
        }
        Err(error) => Err(Error::os(name, "cannot get its status", error)),
    }
}

/// The device of a block device's number, if it belongs to one of the drivers.
fn of_block_device(name: &Path, id: DevId) -> Result<Option<Device>> {
    let Some(folder) = id.sysfs() else { return Ok(None) };
    let device_of = |folder: &Path| -> Option<Device> {
        folder.file_name()?.to_str()?.parse().ok()
    };
    if folder.join("partition").exists() {
        if let Some(whole) = folder.parent().and_then(device_of) {
            let node = whole.node();
            let cause = format!("is a partition of {}", node.display());
            return Err(Error::new(Exit::Unsuitable, name, cause)
                .hint(format_args!("give {} itself", node.display())));
        }
        return Ok(None);
    }
    Ok(device_of(&folder))
}

/// The device of a name.
pub fn device(name: &Path) -> Result<Device> {
    match target(name)? {
        Target::Device(device) => Ok(device),
        Target::Other(metadata) => Err(not_a_device(name, &metadata)),
        Target::Missing => {
            Err(Error::new(Exit::NotFound, name, "no such device").hint(LIST))
        }
    }
}

/// The attachment of a device, or all attachments of an image; at least one.
pub fn attachments(name: &Path) -> Result<Vec<Attachment>> {
    let found = match target(name)? {
        Target::Device(device) => {
            return device
                .attachment()
                .map(|a| vec![a])
                .ok_or_else(|| not_attached(name));
        }
        Target::Other(metadata) => of_image(Identity::of(&metadata))?,
        Target::Missing => {
            // A deleted image is found by its former name.
            let path = absolute(name).unwrap_or_else(|_| name.to_owned());
            let found: Vec<_> = device::attached()
                .into_iter()
                .filter(|attachment| attachment.image() == (&path, true))
                .collect();
            if found.is_empty() {
                return Err(Error::new(
                    Exit::NotFound,
                    name,
                    "no such device or image",
                )
                .hint(LIST));
            }
            found
        }
    };
    if found.is_empty() {
        return Err(Error::new(
            Exit::NotFound,
            name,
            "is not attached to any device",
        )
        .hint(LIST));
    }
    Ok(found)
}

/// The device of a name; `None` for the name of an image.
pub fn device_or_image(name: &Path) -> Result<Option<Device>> {
    match target(name)? {
        Target::Device(device) => Ok(Some(device)),
        Target::Other(_) => Ok(None),
        Target::Missing => {
            let cause = "no such device or image";
            Err(Error::new(Exit::NotFound, name, cause).hint(LIST))
        }
    }
}

/// The attachments of an image, whatever its names.
pub fn of_image(identity: Identity) -> Result<Vec<Attachment>> {
    let mut found = Vec::new();
    for attachment in device::attached() {
        let node = attachment.device.node();
        let status = match File::open(&node) {
            Ok(file) if attachment.is_current() => ioctl::status(&file),
            Ok(_) => Err(Errno::NXIO),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::ACCESS | Errno::PERM) => {
                    return Err(Error::os(&node, "cannot open", error));
                }
                _ => Err(Errno::NXIO),
            },
        };
        // It may have been detached meanwhile.
        if status.is_ok_and(|status| Identity::of_attached(&status) == identity)
        {
            found.push(attachment);
        }
    }
    Ok(found)
}

/// The error for a device without an image.
pub fn not_attached(name: &Path) -> Error {
    Error::new(Exit::NotFound, name, "nothing is attached to it").hint(LIST)
}

/// Writes a setting of an attached device. The attribute goes away with the
/// image, so this can't change another one's. `lacking` is the error for a
/// driver without that setting.
pub fn write_setting(
    device: Device,
    attribute: &str,
    value: &str,
    doing: &str,
    lacking: impl FnOnce() -> Error,
) -> Result<()> {
    let done = OpenOptions::new()
        .write(true)
        .open(device.sysfs().join(attribute))
        .and_then(|mut file| file.write_all(value.as_bytes()));
    done.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT) if device.is_attached() => lacking(),
        Some(Errno::NOENT | Errno::NODEV) => not_attached(&device.node()),
        _ => Error::os(&device.node(), doing, error),
    })
}

fn not_a_device(name: &Path, metadata: &Metadata) -> Error {
    let error =
        Error::new(Exit::Unsuitable, name, "is not a floop or loop device");
    // It may be the image of one.
    let nodes: Vec<String> = of_image(Identity::of(metadata))
        .unwrap_or_default()
        .iter()
        .map(|attachment| attachment.device.node().display().to_string())
        .collect();
    if nodes.is_empty() {
        error.hint(LIST)
    } else {
        error.hint(format_args!("it is attached to {}", nodes.join(", ")))
    }
}
