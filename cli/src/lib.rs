// SPDX-License-Identifier: GPL-2.0-only
//! `floop`: attaches files as block devices and detaches them.
//!
//! It uses the floop module if that is loaded, otherwise the loop driver.
//! `docs/command.md` describes its output and exit codes. This is a library so
//! that `examples/pages.rs` can make the man pages from the command line.

mod allocate;
mod cgroup;
mod checks;
mod cli;
mod clock;
mod column;
mod commands;
mod content;
mod device;
mod dio;
mod discard;
mod driver;
mod error;
mod finding;
mod flooptab;
mod free;
mod generator;
mod helper;
mod holder;
mod image;
mod interrupt;
mod ioctl;
mod mapping;
mod mount;
mod named;
mod occupied;
mod output;
mod process;
mod report;
mod sample;
mod screen;
mod sharing;
mod signals;
mod size;
mod space;
mod table;
mod target;
mod text;
mod users;
mod wait;
mod zeroes;

use std::env::args_os;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::commands::{
    attach, create, detach, doctor, hold, list, resize, set, status, top, watch,
};

/// The command line.
#[must_use]
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the command, as its name and its arguments say.
#[must_use]
pub fn main() -> ExitCode {
    // systemd, mount(8) and the module run links to the command.
    let mut words = args_os();
    let name = words.next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    if name == mount::NAME {
        return mount::run(&words.collect::<Vec<_>>());
    }
    if name == generator::NAME {
        generator::run(&words.map(Into::into).collect::<Vec<_>>());
        return ExitCode::SUCCESS;
    }
    if name == helper::NAME {
        return helper::run(&words.collect::<Vec<_>>());
    }
    let result = match Cli::parse().command {
        Command::Attach(args) => attach::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Detach(args) => detach::run(&args),
        Command::Resize(args) => resize::run(&args),
        Command::List(args) => list::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Doctor(args) => match doctor::run(&args) {
            Ok(Some(exit)) => return exit.into(),
            result => result.map(drop),
        },
        Command::Top(args) => top::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Hold => hold::run(),
        Command::Table(args) => commands::table::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error.to_string());
            interrupt::end();
            error.exit.into()
        }
    }
}
