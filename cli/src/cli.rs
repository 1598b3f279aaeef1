// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::size;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the operation failed
  2  wrong usage
  3  no driver that could do it is loaded
  4  the image or the device is in use
  5  no permission
  6  no such image or device, or nothing is attached to it
  7  the image or the device can't be used like that";

const EXAMPLES: &str = "\
Examples:
  floop attach disk.img                   prints /dev/floop0 (or /dev/loop0)
  floop attach --partscan disk.img        and its partitions: /dev/floop0p1, ...
  floop status /dev/floop0                which driver, direct I/O or not and why
  floop list                              every attached device
  floop set /dev/floop0 --mapping off     I/O through the image's file system from now on
  floop detach /dev/floop0                or: floop detach disk.img";

const ATTACH_EXAMPLES: &str = "\
Examples:
  dev=$(floop attach disk.img) && mkfs.ext4 \"$dev\"
  floop attach --partscan --read-only debian.iso
  floop attach --offset 1M --size-limit 512M disk.img    one partition of an image
  floop attach --direct on --sector-size 4096 disk.img   direct I/O or an error
  floop attach --mapping on disk.img                     I/O past the file system or an error
  floop attach --mapping off disk.img                    every I/O through the file system
  floop attach --driver loop disk.img                    the loop driver, though floop is there";

const DETACH_EXAMPLES: &str = "\
Examples:
  floop detach /dev/floop0        this device
  floop detach disk.img           every device that this image is attached to
  floop detach --all --dry-run    what --all would detach
  floop detach --all --driver floop";

const STATUS_EXAMPLES: &str = "\
Examples:
  floop status /dev/floop0
  floop status --json loop3 | jq -r .direct_reason
  floop status --json /dev/floop0 | jq -r '.mapped, .mapped_reason'";

const SET_EXAMPLES: &str = "\
Examples:
  floop set /dev/floop0 --mapping off         every I/O through the image's file system
  floop set floop0 --mapping on               past it again, or an error that says why not
  floop set floop0 --mapping on --json | jq .mapped";

const LIST_EXAMPLES: &str = "\
Examples:
  floop list
  floop list --json | jq -r '.devices[] | select(.direct | not) | .device'";

/// Makes files block devices: floop's where the module is loaded, else the loop driver's.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a file a block device; prints the device
    #[command(after_help = format!("{ATTACH_EXAMPLES}\n\n{EXIT_CODES}"))]
    Attach(Attach),
    /// Take devices apart, by device or by image
    #[command(after_help = format!("{DETACH_EXAMPLES}\n\n{EXIT_CODES}"))]
    Detach(Detach),
    /// List the attached devices of both drivers
    #[command(after_help = format!("{LIST_EXAMPLES}\n\n{EXIT_CODES}"))]
    List(List),
    /// Say all there is to know about one device
    #[command(after_help = format!("{STATUS_EXAMPLES}\n\n{EXIT_CODES}"))]
    Status(Status),
    /// Change a device while it is in use
    #[command(after_help = format!("{SET_EXAMPLES}\n\n{EXIT_CODES}"))]
    Set(Set),
    /// Keep the device on standard input open until it has a user; `attach --autoclear` starts it
    #[command(hide = true)]
    Hold,
}

/// Which driver to attach with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverChoice {
    /// floop where it is loaded or can be, else the loop driver
    Auto,
    /// floop side by side: /dev/floopN
    Floop,
    /// The loop driver, in-tree or floop's drop-in: /dev/loopN
    Loop,
}

/// A driver's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverFilter {
    /// Only /dev/floopN
    Floop,
    /// Only /dev/loopN
    Loop,
}

/// Direct I/O to the image, or through the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direct {
    /// Direct wherever the image allows it
    Auto,
    /// Direct, or an error
    On,
    /// Buffered
    Off,
}

/// I/O to the disk past the image's file system, or through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mapping {
    /// As the module's parameter "mapping" has it: past it wherever that is safe
    Auto,
    /// Past it wherever that is safe, or an error if it never is
    On,
    /// Through it
    Off,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// `floop attach`.
#[derive(Args, Debug)]
pub struct Attach {
    /// The image: a regular file or a block device
    pub file: PathBuf,
    /// Attach it read-only
    #[arg(short, long)]
    pub read_only: bool,
    /// Where in the image the device begins (bytes; K, M, G, KiB, KB, ...)
    #[arg(short, long, default_value = "0", value_name = "SIZE", value_parser = size::parse)]
    pub offset: u64,
    /// How much of the image the device shows [default: all]
    #[arg(long, alias = "sizelimit", value_name = "SIZE", value_parser = size::parse)]
    pub size_limit: Option<u64>,
    /// Have the kernel look for partitions
    #[arg(short = 'P', long)]
    pub partscan: bool,
    /// Sector size of the device [default: 512, or what direct I/O needs if the content allows]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = size::parse_sector)]
    pub sector_size: Option<u32>,
    /// Direct I/O to the image
    #[arg(long, value_enum, default_value_t = Direct::Auto, value_name = "WHEN")]
    pub direct: Direct,
    /// I/O to the disk past the image's file system; only floop does that
    #[arg(long, value_enum, default_value_t = Mapping::Auto, value_name = "WHEN")]
    pub mapping: Mapping,
    /// Detach by itself when the last user closes it; stays for its first user for a minute
    #[arg(long)]
    pub autoclear: bool,
    /// The driver to attach with
    #[arg(long, value_enum, default_value_t = DriverChoice::Auto)]
    pub driver: DriverChoice,
    /// Print the new device as JSON
    #[arg(long)]
    pub json: bool,
}

/// `floop detach`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(false))]
pub struct Detach {
    /// Devices (/dev/loop0, loop0), or images, whose every device is meant
    #[arg(group = "what", value_name = "DEVICE|FILE")]
    pub targets: Vec<PathBuf>,
    /// Every attached device, of both drivers
    #[arg(long, group = "what")]
    pub all: bool,
    /// With --all, only this driver's devices
    #[arg(long, value_enum, conflicts_with = "targets")]
    pub driver: Option<DriverFilter>,
    /// Only say what would be detached
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print what was detached as JSON
    #[arg(long)]
    pub json: bool,
}

/// `floop list`.
#[derive(Args, Debug)]
pub struct List {
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

/// `floop status`.
#[derive(Args, Debug)]
pub struct Status {
    /// The device: /dev/loop0, or just loop0
    pub device: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// `floop set`.
#[derive(Args, Debug)]
pub struct Set {
    /// The device: /dev/floop0, or just floop0
    pub device: PathBuf,
    /// I/O to the disk past the image's file system where that is safe, or through it
    #[arg(
        long,
        value_enum,
        value_name = "on|off",
        hide_possible_values = true
    )]
    pub mapping: Switch,
    /// Print the device as JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::error::Exit;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_usage_has_its_exit_code() {
        for line in [
            &["floop", "attach"][..],
            &["floop", "attach", "--offset", "x", "a"],
            &["floop", "attach", "--sector-size", "1000", "a"],
            &["floop", "detach"],
            &["floop", "detach", "--all", "a"],
            &["floop", "detach", "--driver", "loop", "a"],
            &["floop", "set", "a"],
            &["floop", "set", "--mapping", "auto", "a"],
            &["floop", "frobnicate"],
        ] {
            let error =
                Cli::try_parse_from(line).map(drop).map_err(|e| e.exit_code());
            assert_eq!(error, Err(Exit::Usage as i32), "{line:?}");
        }
    }
}
