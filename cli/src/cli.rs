// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::allocate::Allocate;
use crate::column::Column;
use crate::{size, wait};

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the operation failed
  2  usage error
  3  no suitable driver is loaded
  4  the image or the device is in use
  5  permission denied
  6  no such image or device, or nothing is attached to it
  7  the image or the device can't be used this way";

const EXAMPLES: &str = "\
Examples:
  floop create disk.img 10G             an image of 10 GiB
  floop attach disk.img                 prints /dev/floop0 (or /dev/loop0)
  floop attach --partscan disk.img      with partitions: /dev/floop0p1, ...
  floop status /dev/floop0              driver, direct I/O, mapping, users
  floop list                            all attached devices
  floop set /dev/floop0 --mapping off   from now on through the file system
  floop detach /dev/floop0              or: floop detach disk.img";

const ATTACH_EXAMPLES: &str = "\
Examples:
  dev=$(floop attach disk.img) && mkfs.ext4 \"$dev\"
  floop attach --partscan --read-only debian.iso
  floop attach --offset 1M --size-limit 512M disk.img    one partition
  floop attach --direct on --sector-size 4096 disk.img   direct I/O or an error
  floop attach --mapping on disk.img                     mapped or an error
  floop attach --mapping off disk.img                    never mapped
  floop attach --driver loop disk.img                    a loop device
  floop attach --number 7 disk.img                       /dev/floop7
  floop attach --if-attached reuse disk.img              the device that it has,
                                                         or a new one";

const DETACH_EXAMPLES: &str = "\
Examples:
  floop detach /dev/floop0        this device
  floop detach disk.img           every device that has this image
  floop detach --all --dry-run    show what --all would detach
  floop detach --all --driver floop
  floop detach --deleted          give the room of deleted images back";

const CREATE_EXAMPLES: &str = "\
Examples:
  floop create disk.img 10G              10 GiB of written zeroes
  floop create --thin disk.img 1T        takes no room until it is written
  floop create disk.img 10G && floop attach disk.img";

const RESIZE_EXAMPLES: &str = "\
Examples:
  floop resize disk.img +10G           the image, and the devices that show it
  floop resize /dev/floop0 20G && resize2fs /dev/floop0
  floop resize --shrink disk.img 5G    if nothing ends behind 5 GiB";

const STATUS_EXAMPLES: &str = "\
Examples:
  floop status /dev/floop0
  floop status --json loop3 | jq -r .direct_reason
  floop status --json /dev/floop0 | jq -r '.mapped, .mapped_reason'";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  floop doctor
  sudo floop doctor /dev/loop0
  floop doctor --json | jq -r '.findings[] | .what, .mend // .advice'

Exit codes besides those below, for what it has found (notes don't count):
  10  warnings
  11  errors";

const TOP_EXAMPLES: &str = "\
Keys: q quit, < > choose the column to sort by, r reverse, / filter (Enter
accepts, Esc clears), space pause, arrows scroll. A narrow terminal shows the
most important columns.

Examples:
  floop top
  floop top --sort latency --interval 5
  floop top --once                      one table, of one second
  floop top --once --json | jq '.devices[] | .file_ios'";

const WATCH_EXAMPLES: &str = "\
Examples:
  floop watch
  floop watch --json | jq -r 'select(.event == \"attach\") | .device'";

const SET_EXAMPLES: &str = "\
Examples:
  floop set /dev/floop0 --mapping off   all I/O through the file system
  floop set floop0 --mapping on         mapped again while that is safe
  floop set floop0 --mapping on --json | jq .mapped
  floop set disk.img --discard keep     fstrim frees no block of it
  floop set disk.img --sector-size 4096 --direct on";

const LIST_EXAMPLES: &str = "\
Examples:
  floop list
  floop list disk.img                   the devices of this image
  floop list --columns NAME,BACK-FILE,BACK-INO
  floop list --raw --no-headings --bytes --columns NAME,SIZE
  floop list --json | jq -r '.devices[] | select(.direct | not) | .device'";

/// Attach files as block devices, with the floop module or the loop driver.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 80)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Attach a file to a free device and print the device
    #[command(after_help = format!("{ATTACH_EXAMPLES}\n\n{EXIT_CODES}"))]
    Attach(Attach),
    /// Make an image, full of zeroes
    #[command(after_help = format!("{CREATE_EXAMPLES}\n\n{EXIT_CODES}"))]
    Create(Create),
    /// Detach devices, given by device or by image
    #[command(after_help = format!("{DETACH_EXAMPLES}\n\n{EXIT_CODES}"))]
    Detach(Detach),
    /// Resize an image and the devices that show it
    #[command(after_help = format!("{RESIZE_EXAMPLES}\n\n{EXIT_CODES}"))]
    Resize(Resize),
    /// List attached devices: all of both drivers, or those of some images
    #[command(after_help = format!("{LIST_EXAMPLES}\n\n{EXIT_CODES}"))]
    List(List),
    /// Show everything about one device
    #[command(after_help = format!("{STATUS_EXAMPLES}\n\n{EXIT_CODES}"))]
    Status(Status),
    /// Look for what is wrong with devices, images and the module
    #[command(after_help = format!("{DOCTOR_EXAMPLES}\n\n{EXIT_CODES}"))]
    Doctor(Doctor),
    /// Show the I/O of all devices, live
    #[command(after_help = format!("{TOP_EXAMPLES}\n\n{EXIT_CODES}"))]
    Top(Top),
    /// Print events: attach, detach, resize, epochs, errors
    #[command(after_help = format!("{WATCH_EXAMPLES}\n\n{EXIT_CODES}"))]
    Watch(Watch),
    /// Change a device while it is in use
    #[command(after_help = format!("{SET_EXAMPLES}\n\n{EXIT_CODES}"))]
    Set(Set),
    /// Keep the device on standard input open until it has a user
    ///
    /// `attach --autoclear` starts it.
    #[command(hide = true)]
    Hold,
    /// Attach or detach a device of /etc/flooptab, as its service does
    #[command(hide = true)]
    Table(Table),
}

/// The driver to attach with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverChoice {
    /// floop if it is loaded or can be, else the loop driver
    Auto,
    /// floop side by side: /dev/floopN
    Floop,
    /// The loop driver, in-tree or floop's drop-in: /dev/loopN
    Loop,
}

/// The devices of one driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverFilter {
    /// Only /dev/floopN
    Floop,
    /// Only /dev/loopN
    Loop,
}

/// Direct or buffered I/O to the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direct {
    /// Direct if the image supports it
    Auto,
    /// Direct, or an error
    On,
    /// Buffered
    Off,
}

/// Mapped I/O, which goes to the disk without the image's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mapping {
    /// As the module parameter "mapping" says (default: on)
    Auto,
    /// Mapped while that is safe; an error if it never is
    On,
    /// All I/O through the file system
    Off,
}

/// What becomes of discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Discard {
    /// They free blocks of the image
    Pass,
    /// They succeed and free nothing
    Keep,
}

/// What to do with an image that is attached for writing already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IfAttached {
    /// Refuse it
    Fail,
    /// Print the device that it has, if that fits the options
    Reuse,
    /// Attach it all the same, with a warning
    Allow,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// Parses a name that the driver keeps.
fn loop_ref() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|name| match name.len() {
        0 => Err("is empty: leave it out for the image's name"),
        1..=63 => Ok(name),
        _ => Err("is too long: the driver keeps 63 bytes"),
    })
}

/// `floop attach`.
#[derive(Args, Debug)]
pub struct Attach {
    /// The image: a regular file or a block device
    pub file: PathBuf,
    /// Attach it read-only
    #[arg(short, long)]
    pub read_only: bool,
    /// Offset into the image (in bytes, or with K, M, G, KiB, KB, ...)
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    #[arg(default_value = "0")]
    pub offset: u64,
    /// Maximum size of the device [default: the rest of the image]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    #[arg(alias = "sizelimit")]
    pub size_limit: Option<u64>,
    /// Scan for partitions
    #[arg(short = 'P', long)]
    pub partscan: bool,
    /// Logical block size [default: 512, or what direct I/O needs if the
    /// content allows it]
    #[arg(short = 'b', long, value_name = "SIZE")]
    #[arg(value_parser = size::parse_sector)]
    pub sector_size: Option<u32>,
    /// Direct I/O to the image
    #[arg(long, value_enum, value_name = "WHEN")]
    #[arg(default_value_t = Direct::Auto)]
    pub direct: Direct,
    /// Mapped I/O, to the disk without the image's file system (floop only)
    #[arg(long, value_enum, value_name = "WHEN")]
    #[arg(default_value_t = Mapping::Auto)]
    pub mapping: Mapping,
    /// Discards, as of fstrim and mkfs [default: pass]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub discard: Option<Discard>,
    /// What a write to a hole allocates at least, as zeroes [default: as the
    /// module parameter "allocate" says (auto)]
    #[arg(long, value_name = "auto|off|SIZE")]
    pub allocate: Option<Allocate>,
    /// Detach when the last user closes the device; the first user has a
    /// minute to open it
    #[arg(long)]
    pub autoclear: bool,
    /// The driver to attach with
    #[arg(long, value_enum, default_value_t = DriverChoice::Auto)]
    pub driver: DriverChoice,
    /// If the image is attached for writing already
    #[arg(long, value_enum, value_name = "WHAT")]
    #[arg(default_value_t = IfAttached::Fail)]
    pub if_attached: IfAttached,
    /// Attach it to the device of this number [default: a free one]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(..1 << 20))]
    pub number: Option<u32>,
    /// The name in the driver's status, at most 63 bytes [default: the
    /// image's]
    #[arg(long, value_name = "NAME", value_parser = loop_ref())]
    pub loop_ref: Option<OsString>,
    /// Print the new device as JSON
    #[arg(long)]
    pub json: bool,
}

/// `floop create`.
#[derive(Args, Debug)]
pub struct Create {
    /// The image, which may not exist yet
    pub file: PathBuf,
    /// Its size (in bytes, or with K, M, G, KiB, KB, ...)
    #[arg(value_parser = size::parse)]
    pub size: u64,
    /// A sparse file: blocks are allocated when they are written
    #[arg(long)]
    pub thin: bool,
    /// Print what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// A size, or what to add to the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSize {
    /// SIZE
    To(u64),
    /// +SIZE
    By(u64),
}

fn new_size(text: &str) -> Result<NewSize, String> {
    match text.strip_prefix('+') {
        Some(more) => size::parse(more).map(NewSize::By),
        None => size::parse(text).map(NewSize::To),
    }
}

/// `floop resize`.
#[derive(Args, Debug)]
pub struct Resize {
    /// The device, or the image
    #[arg(value_name = "DEVICE|FILE")]
    pub target: PathBuf,
    /// Its new size, or +SIZE to add to it
    #[arg(value_name = "[+]SIZE", value_parser = new_size)]
    pub size: NewSize,
    /// Allow a smaller size, if nothing on it ends behind that
    #[arg(long)]
    pub shrink: bool,
    /// Print what was resized as JSON
    #[arg(long)]
    pub json: bool,
}

/// `floop detach`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(false))]
pub struct Detach {
    /// Devices (/dev/loop0, loop0), or images: every device that has them
    #[arg(group = "what", value_name = "DEVICE|FILE")]
    pub targets: Vec<PathBuf>,
    /// All attached devices of both drivers
    #[arg(long, group = "what")]
    pub all: bool,
    /// All devices that nobody uses
    #[arg(long, group = "what")]
    pub unused: bool,
    /// All devices that nobody uses and whose image was deleted
    #[arg(long, group = "what")]
    pub deleted: bool,
    /// Don't wait for processes that only probe the device; its last user
    /// detaches it
    #[arg(long)]
    pub lazy: bool,
    /// Without targets: only this driver's devices
    #[arg(long, value_enum, conflicts_with = "targets")]
    pub driver: Option<DriverFilter>,
    /// Only show what would be detached
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print what was detached as JSON
    #[arg(long)]
    pub json: bool,
}

/// `floop list`.
#[derive(Args, Debug)]
pub struct List {
    /// Only these devices, or the devices of these images
    #[arg(value_name = "DEVICE|FILE")]
    pub targets: Vec<PathBuf>,
    /// Sizes in bytes
    #[arg(short, long)]
    pub bytes: bool,
    /// The columns to show, in this order
    #[arg(short = 'O', long, alias = "output", value_name = "COLUMN,...")]
    #[arg(value_enum, value_delimiter = ',', ignore_case = true)]
    pub columns: Vec<Column>,
    /// One blank between columns; in names blanks are \x20, and what is no
    /// text is \xNN
    #[arg(long)]
    pub raw: bool,
    /// No line of headings
    #[arg(short, long, alias = "noheadings")]
    pub no_headings: bool,
    /// Print the list as JSON: all columns, sizes in bytes
    #[arg(long, conflicts_with_all = ["columns", "raw", "no_headings"])]
    pub json: bool,
}

/// `floop status`.
#[derive(Args, Debug)]
pub struct Status {
    /// The device: /dev/loop0 or loop0
    pub device: PathBuf,
    /// Print the device as JSON
    #[arg(long)]
    pub json: bool,
}

/// `floop doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Only these devices [default: all, and the machine]
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    /// Print what is found as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `top` sorts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// The device's name
    Name,
    /// I/Os a second
    Ios,
    /// Bytes a second
    Bytes,
    /// The mean time of an I/O
    Latency,
    /// The time with I/O in flight
    Busy,
    /// The share that is mapped
    Mapped,
    /// I/Os through the file system a second
    File,
    /// Broken epochs
    Broken,
}

/// `floop top`.
#[derive(Args, Debug)]
pub struct Top {
    /// Time between two looks, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "1")]
    #[arg(value_parser = wait::parse_interval)]
    pub interval: Duration,
    /// What to sort by; the largest is first
    #[arg(short, long, value_enum, value_name = "KEY")]
    #[arg(default_value_t = SortKey::Name)]
    pub sort: SortKey,
    /// Only devices with this text in their names, images or users
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    #[arg(hide_default_value = true)]
    pub filter: String,
    /// Print one table and end
    #[arg(long)]
    pub once: bool,
    /// With --once: print JSON
    #[arg(long, requires = "once")]
    pub json: bool,
}

/// `floop watch`.
#[derive(Args, Debug)]
pub struct Watch {
    /// How often to look for what the kernel doesn't report, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "1")]
    #[arg(value_parser = wait::parse_interval)]
    pub interval: Duration,
    /// Print each event as JSON, a line each
    #[arg(long)]
    pub json: bool,
}

/// `floop set`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("setting").required(true).multiple(true))]
pub struct Set {
    /// The device (/dev/floop0 or floop0), or an image that has one
    #[arg(value_name = "DEVICE|FILE")]
    pub device: PathBuf,
    /// Mapped I/O, to the disk without the image's file system
    #[arg(long, group = "setting", value_enum, value_name = "on|off")]
    #[arg(hide_possible_values = true)]
    pub mapping: Option<Switch>,
    /// Discards: free blocks of the image, or succeed and free nothing
    #[arg(long, group = "setting", value_enum, value_name = "pass|keep")]
    #[arg(hide_possible_values = true)]
    pub discard: Option<Discard>,
    /// What a write to a hole allocates at least, as zeroes
    #[arg(long, group = "setting", value_name = "auto|off|SIZE")]
    pub allocate: Option<Allocate>,
    /// Direct I/O to the image
    #[arg(long, group = "setting", value_enum, value_name = "on|off")]
    #[arg(hide_possible_values = true)]
    pub direct: Option<Switch>,
    /// A read-only device; nobody may use it
    #[arg(long, group = "setting", value_enum, value_name = "on|off")]
    #[arg(hide_possible_values = true)]
    pub read_only: Option<Switch>,
    /// Logical block size; nobody may use the device
    #[arg(short = 'b', long, group = "setting", value_name = "SIZE")]
    #[arg(value_parser = size::parse_sector)]
    pub sector_size: Option<u32>,
    /// Print the device as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `floop table` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableAction {
    /// Attach it
    Attach,
    /// Detach it
    Detach,
}

/// `floop table`.
#[derive(Args, Debug)]
pub struct Table {
    /// What to do
    #[arg(value_enum)]
    pub action: TableAction,
    /// The name of the device
    pub name: String,
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
