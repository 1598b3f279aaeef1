// SPDX-License-Identifier: GPL-2.0-only
//! Targets: the devices that a name on the command line stands for.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, absolute};
use std::str::FromStr;

use rustix::io::Errno;

use crate::device::{self, Attachment, DevId, Device};
use crate::error::{Error, Exit, Result};
use crate::image::Identity;
use crate::ioctl;

/// What a name on the command line stands for.
enum Target {
    /// A device of the two drivers.
    Device(Device),
    /// Any other file that exists.
    Other(Metadata),
    /// Nothing: there is no such file.
    Missing,
}

const LIST: &str = "floop list shows what is attached";

/// Finds out what a name on the command line stands for.
///
/// `loop0` is short for `/dev/loop0` unless there is a file of that name.
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
            // The kernel may have it though its node is missing: then the node is what is missed.
            let text = name.strip_prefix("/dev").unwrap_or(name).to_str();
            match text.and_then(|name| Device::from_str(name).ok()) {
                Some(device) if device.exists() => Ok(Target::Device(device)),
                _ => Ok(Target::Missing),
            }
        }
        Err(error) => Err(Error::os(name, "cannot look at it", error)),
    }
}

/// The device of the two drivers that a block device is, if it is one.
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

/// The device of that name.
pub fn device(name: &Path) -> Result<Device> {
    match target(name)? {
        Target::Device(device) => Ok(device),
        Target::Other(metadata) => Err(not_a_device(name, &metadata)),
        Target::Missing => {
            Err(Error::new(Exit::NotFound, name, "no such device").hint(LIST))
        }
    }
}

/// What is attached to the device of that name, or has the image of that name: one at least.
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
            // A deleted image is known by the name that it had.
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

/// What has this very file as its image, by whatever name.
fn of_image(identity: Identity) -> Result<Vec<Attachment>> {
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
        // What went away meanwhile is not attached.
        if status.is_ok_and(|status| Identity::of_attached(&status) == identity)
        {
            found.push(attachment);
        }
    }
    Ok(found)
}

/// That nothing is attached to a device.
pub fn not_attached(name: &Path) -> Error {
    Error::new(Exit::NotFound, name, "nothing is attached to it").hint(LIST)
}

fn not_a_device(name: &Path, metadata: &Metadata) -> Error {
    let error =
        Error::new(Exit::Unsuitable, name, "is not a floop or loop device");
    // Perhaps it is the image of one.
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
