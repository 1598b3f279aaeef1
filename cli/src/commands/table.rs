// SPDX-License-Identifier: GPL-2.0-only
//! `floop table`: attaches and detaches devices of `/etc/flooptab`. Their
//! services run it.

use std::env::current_exe;
use std::process::{Command, Stdio};

use crate::cli::{Table, TableAction};
use crate::error::{Error, Exit, Result};
use crate::flooptab::{self, Entry};
use crate::named;
use crate::output;

/// Attaches or detaches a device.
pub fn run(args: &Table) -> Result<()> {
    match args.action {
        TableAction::Attach => attach(&args.name),
        TableAction::Detach => detach(&args.name),
    }
}

/// The entry of a name.
fn entry(name: &str) -> Result<Entry> {
    let table = flooptab::path();
    let lines = flooptab::read(&table)
        .map_err(|error| Error::os(&table, "cannot read", error))?;
    let mut bad_lines = Vec::new();
    for line in lines {
        match line {
            Ok(entry) if entry.name == name => return Ok(entry),
            Ok(_) => {}
            Err(bad) => bad_lines
                .push(format!("line {} is wrong: {}", bad.line, bad.problem)),
        }
    }
    let cause = format!("has no device with the name {name}");
    let error = Error::new(Exit::NotFound, &table, cause);
    if bad_lines.is_empty() {
        return Err(error);
    }
    Err(error.hint(bad_lines.join("; ")))
}

/// Attaches a device, and waits for its link.
fn attach(name: &str) -> Result<()> {
    let entry = entry(name)?;
    let table = flooptab::path();
    let fail = |exit, cause: String| {
        let line = entry.line;
        Err(Error::new(exit, &table, format!("line {line}, {name}: {cause}")))
    };
    if let Some(problem) = &entry.problem {
        return fail(Exit::Usage, problem.clone());
    }
    if let Some(attachment) = named::find(name) {
        let node = attachment.device.node();
        return fail(Exit::Busy, format!("is {} already", node.display()));
    }
    // As a program of its own: it prints its errors, and the device.
    let output = current_exe()
        .and_then(|floop| {
            Command::new(floop)
                .arg("attach")
                .args(&entry.options.attach)
                .args(["--", &entry.image])
                .stdin(Stdio::null())
                .stderr(Stdio::inherit())
                .output()
        })
        .map_err(|error| {
            Error::os(&table, &format!("{name}: cannot run floop"), error)
        })?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let node = printed.trim();
    let device = node.strip_prefix("/dev/").and_then(|name| name.parse().ok());
    let (Some(device), true) = (device, output.status.success()) else {
        return fail(
            Exit::Failed,
            format!("{} could not be attached", entry.image),
        );
    };
    if let Err(error) = named::set(device, name) {
        take_back(node);
        return fail(Exit::Failed, format!("cannot be named: {error}"));
    }
    if !named::announce(device, name) {
        named::remove(name);
        take_back(node);
        let link = named::link(name);
        return fail(Exit::Failed, format!("udev has not made {link}"));
    }
    output::print(&format!("{node}\n"))
}

/// Detaches a device that can't get its name.
fn take_back(node: &str) {
    if let Ok(floop) = current_exe() {
        let _ = Command::new(floop).args(["detach", node]).status();
    }
}

/// Detaches a device. If it is in use, its last user does. One that somebody
/// else has detached is no error.
fn detach(name: &str) -> Result<()> {
    flooptab::check_name(name)
        .map_err(|problem| Error::general(Exit::Usage, problem))?;
    let found = named::find(name);
    let result = match found {
        None => Ok(()),
        Some(attachment) => current_exe()
            .and_then(|floop| {
                Command::new(floop)
                    .arg("detach")
                    .arg(attachment.device.node())
                    .status()
            })
            .map_err(|error| {
                let node = attachment.device.node();
                Error::os(&node, "cannot run floop", error)
            })
            .and_then(|status| {
                let gone = !attachment.is_current();
                if status.success() || gone {
                    return Ok(());
                }
                let node = attachment.device.node();
                Err(Error::new(Exit::Failed, &node, "is still attached"))
            }),
    };
    // A device in use keeps its name to the end.
    if named::find(name).is_none() {
        named::remove(name);
    }
    result
}
