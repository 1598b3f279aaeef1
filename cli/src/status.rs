//! `floop status`.

use std::fs::Metadata;
use std::path::Path;

use crate::cli;
use crate::detach::devices_of;
use crate::device::{self, Device, Named};
use crate::error::{Error, Exit, Result};
use crate::image::Identity;
use crate::output;
use crate::report::Details;

/// Shows one device.
pub fn run(args: &cli::Status) -> Result<()> {
    let device = device(&args.device)?;
    let details = details(device, &args.device)?;
    if args.json { output::print_json(&details) } else { output::print(&details.lines()) }
}

/// The device of that name.
pub fn device(name: &Path) -> Result<Device> {
    match device::named(name)? {
        Named::Device(device) => Ok(device),
        Named::Other(metadata) => Err(not_a_device(name, &metadata)),
        Named::Missing => Err(Error::new(Exit::NotFound, name, "no such device")
            .hint("floop list shows what is attached")),
    }
}

fn details(device: Device, name: &Path) -> Result<Details> {
    let attachment = device.attachment().ok_or_else(|| not_attached(name))?;
    Ok(Details::of(&attachment, None))
}

/// That nothing is attached to a device.
pub fn not_attached(name: &Path) -> Error {
    Error::new(Exit::NotFound, name, "nothing is attached to it")
        .hint("floop list shows what is attached")
}

fn not_a_device(name: &Path, metadata: &Metadata) -> Error {
    let error = Error::new(Exit::Unsuitable, name, "is not a floop or loop device");
    // Perhaps it is the image of one.
    let nodes: Vec<String> = devices_of(Identity::of(metadata))
        .unwrap_or_default()
        .iter()
        .map(|attachment| attachment.device.node().display().to_string())
        .collect();
    if nodes.is_empty() {
        error.hint("floop list shows what is attached")
    } else {
        error.hint(format_args!("it is attached to {}", nodes.join(", ")))
    }
}
