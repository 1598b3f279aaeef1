// SPDX-License-Identifier: GPL-2.0-only
//! `floop set`.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::allocate::Allocate;
use crate::cli::{self, Discard, Switch};
use crate::device::{Attachment, Driver};
use crate::error::{Error, Exit, Result};
use crate::image::Identity;
use crate::output::warn;
use crate::report::Details;
use crate::text::shown;
use crate::users::Users;
use crate::{
    allocate, dio, discard, interrupt, ioctl, mapping, output, target, users,
    wait,
};

/// Changes a device in use. A failure leaves the device as it was.
pub fn run(args: &cli::Set) -> Result<()> {
    let before = attachment(&args.device)?;
    let device = before.device;
    check(args, &before)?;
    let open = open(args, &before)?;
    check_direct(args, &open, &before)?;
    let kept = discard::of(device);
    let ahead = allocate::of(device);
    interrupt::defer()
        .map_err(|error| Error::os(&args.device, "cannot wait", error))?;
    let change = || {
        if let Some(size) = args.sector_size {
            set_sector_size(args, &open, &before, size)?;
        }
        if let Some(direct) = args.direct {
            set_direct(args, &open, &before, direct == Switch::On)?;
        }
        if let Some(read_only) = args.read_only {
            set_read_only(args, &open, read_only == Switch::On)?;
        }
        if let Some(what) = args.discard {
            discard::switch(device, what, &args.device)?;
        }
        if let Some(what) = args.allocate {
            allocate::switch(device, what, &args.device)?;
        }
        interrupt::check(&args.device)?;
        let attachment = device
            .attachment()
            .ok_or_else(|| target::not_attached(&args.device))?;
        match args.mapping {
            Some(_) => set_mapping(args, &attachment),
            None => Ok(attachment),
        }
    };
    let attachment =
        change().inspect_err(|_| restore(&open, &before, kept, ahead))?;
    if before.direct && !attachment.direct && args.direct.is_none() {
        let why = dio::reason(&attachment, None).unwrap_or_default();
        let name = shown(args.device.as_os_str());
        warn(&format!("{name}: I/O is buffered from now on: {why}"));
    }
    if args.json {
        output::print_json(&Details::of(&attachment, None))
    } else {
        Ok(())
    }
}

/// The one attachment of a device or an image.
fn attachment(name: &Path) -> Result<Attachment> {
    let mut found = target::attachments(name)?;
    let nodes: Vec<String> = found
        .iter()
        .map(|found| found.device.node().display().to_string())
        .collect();
    match found.pop() {
        Some(only) if found.is_empty() => Ok(only),
        _ => {
            let cause = format!("is attached to {}", nodes.join(", "));
            Err(Error::new(Exit::Unsuitable, name, cause)
                .hint("name one of them"))
        }
    }
}

/// Checks all that can be checked before anything changes.
fn check(args: &cli::Set, before: &Attachment) -> Result<()> {
    if args.mapping == Some(Switch::On) && before.driver == Driver::InTree {
        let cause = "can't be mapped: the in-tree loop driver serves it, and \
                     only floop maps";
        return Err(Error::new(Exit::Unsuitable, &args.device, cause)
            .hint("detach it, and attach its image with --driver floop"));
    }
    if args.discard == Some(Discard::Keep) && before.driver == Driver::InTree {
        return Err(discard::unable(before.driver, &args.device));
    }
    if args.allocate.is_some_and(|what| what != Allocate::Off)
        && before.driver == Driver::InTree
    {
        return Err(allocate::unable(before.driver, &args.device));
    }
    if let Some(size) = args.sector_size.map(u64::from) {
        if before.size % size != 0 {
            let cause = format!(
                "its size, {}, is not a multiple of {size}",
                before.size
            );
            return Err(Error::new(Exit::Unsuitable, &args.device, cause)
                .hint("give a smaller sector size, or resize it first"));
        }
    }
    if needs_it_alone(args) {
        let mut users = Users::default();
        wait::until(wait::PROBES, || {
            users = users::of(before.device);
            users.is_empty() || users.are_lasting()
        });
        if !users.is_empty() {
            return Err(in_use(args, &format!(": {}", users.describe())));
        }
    }
    Ok(())
}

/// Checks whether the in-tree driver's I/O can be direct.
fn check_direct(
    args: &cli::Set,
    open: &File,
    before: &Attachment,
) -> Result<()> {
    if args.direct != Some(Switch::On) || before.driver != Driver::InTree {
        return Ok(());
    }
    let Ok(status) = ioctl::status(open) else { return Ok(()) };
    let mut wanted = before.clone();
    if let Some(size) = args.sector_size {
        wanted.sector_size = size.into();
    }
    match dio::obstacle(&wanted, Identity::of_attached(&status)) {
        Some(why) => Err(not_direct(args, &why)),
        None => Ok(()),
    }
}

fn not_direct(args: &cli::Set, why: &str) -> Error {
    let cause = format!("no direct I/O: {why}");
    Error::new(Exit::Unsuitable, &args.device, cause)
        .hint("--sector-size may help")
}

fn in_use(args: &cli::Set, who: &str) -> Error {
    let cause = format!("is in use{who}");
    let what = if args.sector_size.is_some() {
        "its sector size can't change"
    } else {
        "whether it is read-only can't change"
    };
    Error::new(Exit::Busy, &args.device, cause)
        .hint(format_args!("{what} until that has ended"))
}

/// Whether something is to change that no user of the device would notice.
fn needs_it_alone(args: &cli::Set) -> bool {
    args.sector_size.is_some() || args.read_only.is_some()
}

/// Opens the device; if it is needed alone, so that nobody can mount it.
fn open(args: &cli::Set, before: &Attachment) -> Result<File> {
    let node = before.device.node();
    let mut options = OpenOptions::new();
    options.read(true);
    if needs_it_alone(args) {
        let flags = OFlags::EXCL.bits();
        options.custom_flags(i32::try_from(flags).unwrap_or_default());
    }
    let file =
        options.open(&node).map_err(|error| {
            match Errno::from_io_error(&error) {
                Some(Errno::BUSY) => in_use(args, ""),
                _ => Error::os(&node, "cannot open", error),
            }
        })?;
    if before.is_current() {
        Ok(file)
    } else {
        Err(target::not_attached(&args.device))
    }
}

/// Sets all but mapping back. The caller gets the first error.
fn restore(
    open: &File,
    before: &Attachment,
    discard: Discard,
    ahead: Allocate,
) {
    let Some(now) = before.device.attachment() else { return };
    if now.sector_size != before.sector_size {
        let size = u32::try_from(before.sector_size).unwrap_or(512);
        let _ = ioctl::set_block_size(open, size);
    }
    if now.direct != before.direct {
        let _ = ioctl::set_direct(open, before.direct);
    }
    if now.read_only != before.read_only {
        let _ = ioctl::set_read_only(open, before.read_only);
    }
    let _ = discard::switch(before.device, discard, &before.device.node());
    let _ = allocate::switch(before.device, ahead, &before.device.node());
}

fn set_sector_size(
    args: &cli::Set,
    open: &File,
    before: &Attachment,
    size: u32,
) -> Result<()> {
    if u64::from(size) == before.sector_size {
        return Ok(());
    }
    match ioctl::set_block_size(open, size) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(in_use(args, "")),
        Err(Errno::INVAL) => {
            let cause = format!("the driver has no sector size of {size}");
            Err(Error::new(Exit::Unsuitable, &args.device, cause)
                .hint("4096 is the largest that every kernel supports"))
        }
        Err(error) => {
            let doing = "cannot change its sector size";
            Err(Error::os(&args.device, doing, error))
        }
    }
}

fn set_read_only(args: &cli::Set, open: &File, on: bool) -> Result<()> {
    let doing = "cannot change whether it is read-only";
    let failed = |error| Error::os(&args.device, doing, error);
    let status = ioctl::status(open).map_err(failed)?;
    if !on && status.lo_flags & ioctl::READ_ONLY != 0 {
        let cause = "stays read-only: its image is open for reading only";
        return Err(Error::new(Exit::Unsuitable, &args.device, cause)
            .hint("detach it, and attach the image without --read-only"));
    }
    ioctl::set_read_only(open, on).map_err(failed)
}

fn set_direct(
    args: &cli::Set,
    open: &File,
    before: &Attachment,
    on: bool,
) -> Result<()> {
    let result = ioctl::set_direct(open, on);
    let now = before.device.attachment().unwrap_or_else(|| before.clone());
    match result {
        Ok(()) if now.direct == on => Ok(()),
        Ok(()) | Err(Errno::INVAL) => {
            let why = dio::reason(&now, None).unwrap_or_default();
            Err(not_direct(args, &why))
        }
        Err(error) => {
            let doing = "cannot change direct I/O";
            Err(Error::os(&args.device, doing, error))
        }
    }
}

/// Turns mapping on or off. Returns the attachment with it.
fn set_mapping(args: &cli::Set, before: &Attachment) -> Result<Attachment> {
    let device = before.device;
    // A module without mapping has nothing to turn off.
    let was_on = before.mapping.as_ref().is_some_and(|mapping| mapping.wanted);
    if args.mapping == Some(Switch::Off) {
        if was_on {
            mapping::switch(device, false)?;
        }
        return device
            .attachment()
            .ok_or_else(|| target::not_attached(&args.device));
    }
    if !was_on {
        mapping::switch(device, true)?;
    }
    mapping::wait_for(device, &args.device, None).inspect_err(|_| {
        if !was_on {
            // The caller gets the first error.
            let _ = mapping::switch(device, false);
        }
    })
}
