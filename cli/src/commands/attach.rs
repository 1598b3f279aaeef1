// SPDX-License-Identifier: GPL-2.0-only
//! `floop attach`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf, absolute};

use crate::allocate::Allocate;
use crate::cli::{self, Direct, Discard, IfAttached, Mapping};
use crate::content::{Finding, smallest};
use crate::device::{Attachment, Device, Driver};
use crate::driver::{self, Control};
use crate::error::{Error, Exit, Result};
use crate::image::{Identity, Image};
use crate::ioctl::{self, Config};
use crate::output::{self, warn};
use crate::report::Details;
use crate::sharing::{self, Other};
use crate::text::{count, shown};
use crate::{allocate, dio, discard, free, holder, interrupt, mapping, wait};

/// Attaches an image.
pub fn run(args: &cli::Attach) -> Result<()> {
    let image = Image::open(&args.file, args.read_only)?;
    let visible = image.visible(
        args.offset,
        args.size_limit,
        args.sector_size.unwrap_or(512),
    )?;
    let control = driver::choose(args.driver)?;
    if args.mapping == Mapping::On && !control.is_floop() {
        return Err(mapping::no_driver(&image.path).hint(
            "load floop as root (modprobe floop), and don't ask for \
             --driver loop",
        ));
    }
    if args.discard == Some(Discard::Keep) && !control.is_floop() {
        return Err(discard::unable(Driver::InTree, &image.path));
    }
    if args.allocate.is_some_and(|what| what != Allocate::Off)
        && !control.is_floop()
    {
        return Err(allocate::unable(Driver::InTree, &image.path));
    }
    let found = image.content(args.offset);
    let config = config(args, &image, &control, visible, &found)?;
    sharing::lock(&image);
    let others = sharing::others(&image);
    if args.if_attached == IfAttached::Reuse {
        if let Some(attachment) = sharing::fitting(&others, args, &image) {
            drop(image.file);
            return reuse(args, attachment);
        }
    }
    check_sharing(&others, args, &image, visible)?;

    // Who interrupts it isn't told of the device, so it is detached then.
    interrupt::defer()
        .map_err(|error| Error::os(&image.path, "cannot wait", error))?;
    let (device, open, made) = match args.number {
        None => free::attach(&control, &image, &config, args.sector_size)
            .map(|(device, open)| (device, open, false)),
        Some(number) => {
            free::attach_at(&control, number, &image, &config, args.sector_size)
        }
    }?;
    sharing::unlock(&image);
    let attached = device.attachment();
    let result = complete(args, &control, device, open, image, visible, &found);
    if result.is_err() {
        if let Some(attached) = attached {
            // It stays while others look at it, as udev does.
            wait::despite_signals(wait::PROBES, || !attached.is_current());
        }
        if made {
            free::remove_again(&control, device.number);
        }
    }
    result
}

/// Does what is left to do once the image is attached, and prints the device.
/// If that fails, the device is detached.
fn complete(
    args: &cli::Attach,
    control: &Control,
    device: Device,
    open: File,
    image: Image,
    visible: u64,
    found: &[Finding],
) -> Result<()> {
    if control.is_floop() {
        apply_settings(args, device, &open).inspect_err(|_| {
            let _ = ioctl::clear(&open);
        })?;
    }
    // An image that anyone else has open is not mapped. The driver has its own
    // reference.
    drop(image.file);
    let reader = reopen_read_only(device, &open)?;
    drop(open);
    let open = reader;
    let finish = || {
        let mut attachment = verify(args, device, &open)?;
        if args.mapping == Mapping::On {
            let otherwise = "--mapping auto attaches it anyway";
            attachment =
                mapping::wait_for(device, &args.file, Some(otherwise))?;
        }
        if args.partscan {
            wait::for_partitions(device);
        }
        warn_of_tail(&image.path, &attachment, visible);
        warn_of_no_partitions(&image.path, &attachment, found);
        interrupt::check(&args.file)?;
        if args.autoclear {
            holder::start(device, &open).map_err(|error| {
                Error::os(
                    &device.node(),
                    "cannot leave a process that keeps it open",
                    error,
                )
            })?;
        }
        report(args, &attachment, &open)
    };
    finish().inspect_err(|_| {
        // Leave nothing attached that the caller was not told about.
        if args.autoclear {
            holder::end(device);
        }
        let _ = ioctl::clear(&open);
    })
}

/// Refuses an image that would be written through two devices, or warns of it.
fn check_sharing(
    others: &[Other],
    args: &cli::Attach,
    image: &Image,
    visible: u64,
) -> Result<()> {
    for other in others {
        if !other.collides(image, args.offset, visible) {
            continue;
        }
        if args.if_attached != IfAttached::Allow {
            return Err(sharing::refusal(other, args, image));
        }
        warn(&sharing::warning(other, &args.file));
    }
    Ok(())
}

/// Prints a device that has the image already.
fn reuse(args: &cli::Attach, attachment: &Attachment) -> Result<()> {
    let device = attachment.device;
    let node = device.node();
    let open = File::open(&node)
        .map_err(|error| Error::os(&node, "cannot open", error))?;
    if !attachment.is_current() {
        let cause = "another process detached it meanwhile";
        return Err(Error::new(Exit::Busy, &node, cause).hint("try again"));
    }
    if args.mapping == Mapping::On {
        mapping::wait_for(device, &args.file, None)?;
    }
    if args.partscan {
        wait::for_partitions(device);
    }
    report(args, attachment, &open)
}

/// Prints the device.
fn report(
    args: &cli::Attach,
    attachment: &Attachment,
    open: &File,
) -> Result<()> {
    if args.json {
        output::print_json(&Details::of(attachment, Some(open)))
    } else {
        let node = attachment.device.node();
        output::print(&format!("{}\n", node.display()))
    }
}

/// Applies the settings that `LOOP_CONFIGURE` doesn't carry.
fn apply_settings(
    args: &cli::Attach,
    device: Device,
    open: &File,
) -> Result<()> {
    if args.direct == Direct::Off {
        ioctl::set_direct(open, false).map_err(|error| {
            Error::os(&device.node(), "cannot turn direct I/O off", error)
        })?;
    }
    if let Some(what) = args.discard {
        discard::switch(device, what, &args.file)?;
    }
    if let Some(what) = args.allocate {
        allocate::switch(device, what, &args.file)?;
    }
    // A module without mapping has no such attribute, and nothing to turn off.
    let is_on = device.number_attribute("loop/mapping").map(|value| value != 0);
    match args.mapping {
        Mapping::Off if is_on == Some(true) => mapping::switch(device, false),
        Mapping::On if is_on != Some(true) => mapping::switch(device, true),
        _ => Ok(()),
    }
}

/// Opens the device read-only, so that the writable descriptor can be closed.
///
/// When a writable descriptor is closed, udev makes the kernel reread the
/// partition table, and partitions go away and come back. That should happen
/// now rather than after the command has ended.
fn reopen_read_only(device: Device, open: &File) -> Result<File> {
    let node = device.node();
    match File::open(&node) {
        Ok(file) => Ok(file),
        Err(error) => {
            let _ = ioctl::clear(open);
            Err(Error::os(&node, "cannot open again", error))
        }
    }
}

/// Puts the arguments into the form that the driver takes.
fn config(
    args: &cli::Attach,
    image: &Image,
    control: &Control,
    visible: u64,
    found: &[Finding],
) -> Result<Config> {
    let mut flags = 0;
    let mut flag = |on: bool, flag: u32| flags |= if on { flag } else { 0 };
    flag(image.read_only, ioctl::READ_ONLY);
    flag(args.autoclear, ioctl::AUTOCLEAR);
    flag(args.partscan, ioctl::PARTSCAN);
    let sector_size = if args.direct == Direct::Off {
        args.sector_size.unwrap_or(512)
    } else if args.direct == Direct::Auto && control.is_floop() {
        // The module chooses direct I/O and the sector size for it.
        args.sector_size.unwrap_or_default()
    } else {
        let facts = dio::Facts {
            alignment: dio::alignment(&image.file),
            offset: args.offset,
            visible,
            made_for: smallest(found),
            asked: args.direct == Direct::On,
        };
        let plan = dio::plan(&facts, args.sector_size);
        if let (Direct::On, Some(obstacle)) = (args.direct, &plan.obstacle) {
            return Err(not_direct(&image.path, obstacle));
        }
        flag(dio::asks(args.direct, &plan), ioctl::DIRECT_IO);
        plan.sector_size
    };
    let mut config = ioctl::empty_config();
    config.fd = u32::try_from(image.file.as_raw_fd()).unwrap_or(u32::MAX);
    config.block_size = sector_size;
    config.info.lo_offset = args.offset;
    config.info.lo_sizelimit = args.size_limit.unwrap_or_default();
    config.info.lo_flags = flags;
    match &args.loop_ref {
        Some(name) => set_file_name(&mut config, name),
        None => set_file_name(&mut config, image_name(image).as_os_str()),
    }
    Ok(config)
}

/// The image's name for the driver's status.
fn image_name(image: &Image) -> PathBuf {
    let path = fs::canonicalize(&image.path).or_else(|_| absolute(&image.path));
    path.unwrap_or_else(|_| image.path.clone())
}

/// Sets the name in the driver's status, truncated to what fits.
fn set_file_name(config: &mut Config, name: &OsStr) {
    let room = config.info.lo_file_name.len() - 1;
    for (to, from) in
        config.info.lo_file_name[..room].iter_mut().zip(name.as_bytes())
    {
        *to = *from;
    }
}

fn not_direct(image: &Path, why: &str) -> Error {
    Error::new(Exit::Unsuitable, image, format_args!("no direct I/O: {why}"))
        .hint("--direct auto attaches it buffered")
}

/// Checks the result: the loop driver silently ignores a request for direct I/O
/// that it can't fulfil.
fn verify(
    args: &cli::Attach,
    device: Device,
    open: &File,
) -> Result<Attachment> {
    let node = device.node();
    let status = ioctl::status(open)
        .map_err(|error| Error::os(&node, "cannot get its status", error))?;
    let attachment = device.attachment().ok_or_else(|| {
        Error::new(Exit::Failed, &node, "it is not in /sys as expected")
    })?;
    if args.direct == Direct::On && status.lo_flags & ioctl::DIRECT_IO == 0 {
        let why =
            dio::reason(&attachment, Some(Identity::of_attached(&status)));
        return Err(not_direct(&args.file, &why.unwrap_or_default()));
    }
    Ok(attachment)
}

/// Warns of bytes at the end of the image that don't fill a sector and so can't
/// be seen.
fn warn_of_tail(image: &Path, attachment: &Attachment, visible: u64) {
    let seen =
        attachment.size - attachment.size % attachment.sector_size.max(1);
    let lost = visible.saturating_sub(seen);
    if lost > 0 {
        warn(&format!(
            "{}: the last {} can't be seen: {visible} is not a multiple of the \
             sector size, {}",
            shown(image.as_os_str()),
            count(lost, "byte"),
            attachment.sector_size
        ));
    }
}

/// Warns if the image has a partition table, but the partition scan found
/// nothing.
fn warn_of_no_partitions(
    image: &Path,
    attachment: &Attachment,
    found: &[Finding],
) {
    let Some(table) = found.iter().find(|finding| finding.table) else {
        return;
    };
    if !attachment.partscan || !attachment.device.partitions().is_empty() {
        return;
    }
    let why = if u64::from(table.sector_size) == attachment.sector_size {
        "the kernel found no partitions: are there any, and does it support \
         that kind of table?"
            .to_owned()
    } else {
        format!(
            "the device has sectors of {}, so there are no partitions",
            attachment.sector_size
        )
    };
    let name = shown(image.as_os_str());
    warn(&format!("{name}: holds {}, but {why}", table.describe()));
}
