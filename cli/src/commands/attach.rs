// SPDX-License-Identifier: GPL-2.0-only
//! `floop attach`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, absolute};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::system::uname;

use crate::cli::{self, Direct, Mapping};
use crate::content::{Finding, smallest};
use crate::device::{self, Attachment, DevId, Device};
use crate::driver::{self, Control};
use crate::error::{Error, Exit, Result};
use crate::image::{Identity, Image};
use crate::ioctl::{self, Config};
use crate::output::{self, warn};
use crate::report::Details;
use crate::text::{count, printable};
use crate::{dio, holder, mapping, wait};

/// How long to go on while others take every device that is free from under us.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a free device may be busy before another one is made.
const STUBBORN: u32 = 8;

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
        return Err(mapping::no_driver(&image.path)
            .hint("load floop as root (modprobe floop), and don't ask for --driver loop"));
    }
    let found = image.content(args.offset);
    let config = config(args, &image, &control, visible, &found)?;
    warn_of_sharing(&image, args, visible);

    let (device, open) =
        configure(&control, &image, &config, args.sector_size)?;
    if control.is_floop() {
        set(args, device, &open).inspect_err(|_| {
            let _ = ioctl::clear(&open);
        })?;
    }
    // Whoever has it open keeps it from being mapped. The driver has it open itself.
    drop(image.file);
    let reader = for_reading(device, &open)?;
    drop(open);
    let open = reader;
    let finish = || {
        let mut attachment = verify(args, device, &open)?;
        if args.mapping == Mapping::On {
            let otherwise = "--mapping auto attaches it all the same";
            attachment =
                mapping::wait_for(device, &args.file, Some(otherwise))?;
        }
        if args.partscan {
            wait::for_partitions(device);
        }
        warn_of_loss(&image.path, &attachment, visible);
        warn_of_no_partitions(&image.path, &attachment, &found);
        if args.autoclear {
            holder::start(device, &open).map_err(|error| {
                Error::os(
                    &device.node(),
                    "cannot leave a process that keeps it open",
                    error,
                )
            })?;
        }
        if args.json {
            output::print_json(&Details::of(&attachment, Some(&open)))
        } else {
            output::print(&format!("{}\n", device.node().display()))
        }
    };
    finish().inspect_err(|_| {
        // Nothing half-done: nobody would know of the device.
        if args.autoclear {
            holder::end(device);
        }
        let _ = ioctl::clear(&open);
    })
}

/// Sets what the driver is not told by `LOOP_CONFIGURE`.
fn set(args: &cli::Attach, device: Device, open: &File) -> Result<()> {
    if args.direct == Direct::Off {
        ioctl::set_direct(open, false).map_err(|error| {
            Error::os(&device.node(), "cannot turn direct I/O off", error)
        })?;
    }
    // A module that does not map says nothing, and has nothing to turn off.
    let is_on = device.number_attribute("loop/mapping").map(|value| value != 0);
    match args.mapping {
        Mapping::Off if is_on == Some(true) => mapping::switch(device, false),
        Mapping::On if is_on != Some(true) => mapping::switch(device, true),
        _ => Ok(()),
    }
}

/// Goes over from a descriptor for writing to one for reading.
///
/// When one for writing is closed, udev has the kernel read the partition table anew, by which
/// partitions go away and come back. Better it does that now than when we have ended.
fn for_reading(device: Device, open: &File) -> Result<File> {
    let node = device.node();
    match File::open(&node) {
        Ok(file) => Ok(file),
        Err(error) => {
            let _ = ioctl::clear(open);
            Err(Error::os(&node, "cannot open again", error))
        }
    }
}

/// What to ask the driver for.
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
        // The module makes I/O direct where it can, and chooses the sector size for it.
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
    name(&mut config, image);
    Ok(config)
}

/// Leaves the image's name with the driver, as much of it as fits, for who reads it there.
fn name(config: &mut Config, image: &Image) {
    let path = fs::canonicalize(&image.path).or_else(|_| absolute(&image.path));
    let path = path.unwrap_or_else(|_| image.path.clone());
    let room = config.info.lo_file_name.len() - 1;
    for (to, from) in config.info.lo_file_name[..room]
        .iter_mut()
        .zip(path.as_os_str().as_bytes())
    {
        *to = *from;
    }
}

fn not_direct(image: &Path, why: &str) -> Error {
    Error::new(Exit::Unsuitable, image, format_args!("no direct I/O: {why}"))
        .hint("--direct auto attaches it buffered")
}

/// What came of one try to take a free device.
enum Try {
    Done(Device, File),
    /// Somebody else was faster, or the device went away.
    Again,
    /// The device stays free and yet is busy: somebody has claimed it.
    Claimed,
}

/// Finds a free device and attaches the image to it, however many others do the same.
fn configure(
    control: &Control,
    image: &Image,
    config: &Config,
    sector_size: Option<u32>,
) -> Result<(Device, File)> {
    let start = Instant::now();
    let mut claimed = 0;
    let mut pause = Duration::from_millis(1);
    while start.elapsed() < PATIENCE {
        let number = if claimed < STUBBORN {
            ioctl::get_free(&control.file)
        } else {
            claimed = 0;
            ioctl::add_any(&control.file)
        };
        let number = match number {
            Ok(number) => number,
            Err(Errno::INTR | Errno::EXIST | Errno::AGAIN) => continue,
            Err(error) => {
                return Err(Error::os(
                    &control.path,
                    "cannot get a free device",
                    error,
                ));
            }
        };
        match take(
            Device { family: control.family, number },
            image,
            config,
            sector_size,
        )? {
            Try::Done(device, file) => return Ok((device, file)),
            Try::Again => claimed = 0,
            Try::Claimed => claimed += 1,
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    let cause = format!(
        "no device could be had for it in {} seconds: others took every free one",
        PATIENCE.as_secs()
    );
    Err(Error::new(Exit::Busy, &image.path, cause).hint("try again"))
}

/// Opens a free device; `None` if it is not there any more.
fn open_node(device: Device, read_only: bool) -> Result<Option<File>> {
    let node = device.node();
    let mut opened = Ok(None);
    // The kernel has the device, but its node comes from udev, and that may take a while; until
    // then the name may be another device's.
    let settled = wait::until(wait::NODES, || {
        opened =
            match OpenOptions::new().read(true).write(!read_only).open(&node) {
                Ok(file) => {
                    let rdev = file
                        .metadata()
                        .map(|metadata| DevId::from_stat(metadata.rdev()));
                    if rdev.ok() == device.id() {
                        Ok(Some(file))
                    } else if device.exists() {
                        return false;
                    } else {
                        Ok(None)
                    }
                }
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && device.exists() =>
                {
                    return false;
                }
                Err(error) => Err(error),
            };
        true
    });
    if !settled {
        let id = device
            .id()
            .map(|id| format!("{} {}", id.major, id.minor))
            .unwrap_or_default();
        let node = node.display();
        let cause = format!(
            "the kernel has this device, but its node has not appeared in {} seconds",
            wait::NODES.as_secs()
        );
        return Err(Error::new(Exit::Failed, &device.node(), cause)
            .hint(format_args!("make it: rm -f {node}; mknod {node} b {id}")));
    }
    match opened {
        Ok(file) => Ok(file),
        Err(error) => match Errno::from_io_error(&error) {
            Some(
                Errno::NOENT
                | Errno::NXIO
                | Errno::NODEV
                | Errno::BUSY
                | Errno::INTR,
            ) => Ok(None),
            _ => Err(Error::os(&node, "cannot open", error)),
        },
    }
}

/// Tries to attach the image to one device that was free a moment ago.
fn take(
    device: Device,
    image: &Image,
    config: &Config,
    sector_size: Option<u32>,
) -> Result<Try> {
    let Some(file) = open_node(device, image.read_only)? else {
        return Ok(Try::Again);
    };
    match ioctl::configure(&file, config) {
        Ok(()) => Ok(Try::Done(device, file)),
        Err(Errno::BUSY) if device.is_attached() => Ok(Try::Again),
        Err(Errno::BUSY) => Ok(Try::Claimed),
        Err(Errno::NXIO | Errno::NODEV | Errno::INTR) => Ok(Try::Again),
        Err(error) => Err(refused(device, image, sector_size, error)),
    }
}

/// Why the driver would not have it.
fn refused(
    device: Device,
    image: &Image,
    sector_size: Option<u32>,
    error: Errno,
) -> Error {
    let unsuitable =
        |cause: &str| Error::new(Exit::Unsuitable, &image.path, cause);
    match error {
        Errno::INVAL | Errno::NOTTY => {
            let kernel = uname().release().to_string_lossy().into_owned();
            if !has_configure(&kernel) {
                let cause = format!(
                    "this kernel ({kernel}) is too old: it has no LOOP_CONFIGURE"
                );
                return Error::general(Exit::NoDriver, cause)
                    .hint("Linux 5.8 has it, and later");
            }
            match (sector_size, image.identity) {
                (Some(size), _) if size > 512 => {
                    let cause = format!(
                        "this kernel can't give {} a sector size of {size}",
                        device.node().display()
                    );
                    unsuitable(&cause)
                        .hint("4096 is the largest that every kernel can")
                }
                (_, Identity::Block(_)) => unsuitable(
                    "the driver refuses it as an image",
                )
                .hint("is it a loop device that nothing is attached to?"),
                _ => unsuitable("the driver refuses it as an image")
                    .hint("its file system may not be able to serve one"),
            }
        }
        Errno::BADF | Errno::LOOP => {
            let cause = format!(
                "rests on {}, which would rest on it",
                device.node().display()
            );
            unsuitable(&cause).hint("attach the file beneath instead")
        }
        Errno::FBIG | Errno::OVERFLOW => {
            unsuitable("is too large for a block device")
        }
        error => Error::os(
            &image.path,
            &format!("cannot attach it to {device}"),
            error,
        ),
    }
}

/// Whether a kernel of this release has `LOOP_CONFIGURE`, which came with 5.8.
fn has_configure(release: &str) -> bool {
    let mut parts =
        release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 8),
        _ => true,
    }
}

/// Looks at what came of it: the driver says nothing of a wish for direct I/O that it drops.
fn verify(
    args: &cli::Attach,
    device: Device,
    open: &File,
) -> Result<Attachment> {
    let node = device.node();
    let status = ioctl::status(open)
        .map_err(|error| Error::os(&node, "cannot look at it", error))?;
    let attachment = device.attachment().ok_or_else(|| {
        Error::new(Exit::Failed, &node, "it is not in /sys as it should be")
    })?;
    if args.direct == Direct::On && status.lo_flags & ioctl::DIRECT_IO == 0 {
        let why =
            dio::reason(&attachment, Some(Identity::of_attached(&status)));
        return Err(not_direct(&args.file, &why.unwrap_or_default()));
    }
    Ok(attachment)
}

/// Says what of the image does not fill a sector at its end, and so can't be seen.
fn warn_of_loss(image: &Path, attachment: &Attachment, visible: u64) {
    let shown =
        attachment.size - attachment.size % attachment.sector_size.max(1);
    let lost = visible.saturating_sub(shown);
    if lost > 0 {
        warn(&format!(
            "{}: the last {} can't be seen: {visible} is not a multiple of the sector size, {}",
            printable(image.as_os_str()),
            count(lost, "byte"),
            attachment.sector_size
        ));
    }
}

/// Says so if partitions were asked for and are on the image, and yet the kernel found none.
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
        "the kernel found no partitions: are there any, and can it read that kind of table?"
            .to_owned()
    } else {
        format!(
            "the device has sectors of {}, so there are no partitions",
            attachment.sector_size
        )
    };
    let name = printable(image.as_os_str());
    warn(&format!("{name}: holds {}, but {why}", table.describe()));
}

/// Warns if what is to be attached for writing is attached for writing already.
fn warn_of_sharing(image: &Image, args: &cli::Attach, visible: u64) {
    if image.read_only {
        return;
    }
    let wanted = args.offset..args.offset.saturating_add(visible);
    for other in device::attached() {
        let same = || -> io::Result<bool> {
            Ok(Identity::of(&fs::metadata(other.image().0)?) == image.identity)
        };
        let taken = other.offset..other.offset.saturating_add(other.size);
        let overlap = wanted.start < taken.end && taken.start < wanted.end;
        if !other.read_only && overlap && same().unwrap_or(false) {
            warn(&format!(
                "{}: is attached to {} for writing already; writing through both destroys it \
                 (--read-only is safe)",
                printable(image.path.as_os_str()),
                other.device.node().display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_too_old() {
        assert!(has_configure("5.8.0-rc1"));
        assert!(has_configure("10.0"));
        assert!(has_configure("strange"));
        assert!(!has_configure("5.7.19-generic"));
        assert!(!has_configure("4.19.0"));
    }
}
