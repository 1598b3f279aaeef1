// SPDX-License-Identifier: GPL-2.0-only
//! `floop doctor`.

use std::fmt::Write as _;

use serde::Serialize;

use crate::checks::machine::Drivers;
use crate::checks::{self, Subject, images, machine, partitions};
use crate::device::{self, Device};
use crate::error::{Exit, Result};
use crate::finding::{Findings, Severity};
use crate::text::count;
use crate::{cli, output, target, users};

/// `doctor --json`.
#[derive(Serialize)]
struct Report {
    drivers: Drivers,
    #[serde(flatten)]
    found: Findings,
}

/// Looks for what is wrong. Returns the exit code: notes don't count.
pub fn run(args: &cli::Doctor) -> Result<Option<Exit>> {
    let mut wanted: Vec<Device> = Vec::new();
    for name in &args.devices {
        let device = target::device(name)?;
        if !device.is_attached() && device.partitions().is_empty() {
            return Err(target::not_attached(name));
        }
        wanted.push(device);
    }
    let drivers = Drivers::find();
    let mut found = Findings::default();
    devices(&wanted, &mut found);
    if wanted.is_empty() {
        machine::check(&drivers, &mut found);
    }
    found.sort();
    let exit = match found.worst() {
        Some(Severity::Error) => Some(Exit::Errors),
        Some(Severity::Warning) => Some(Exit::Warnings),
        Some(Severity::Note) | None => None,
    };
    if args.json {
        output::print_json(&Report { drivers, found })?;
    } else {
        output::print(&lines(&drivers, &found))?;
    }
    Ok(exit)
}

/// Checks these devices, or all.
fn devices(wanted: &[Device], found: &mut Findings) {
    let is_wanted =
        |device: Device| wanted.is_empty() || wanted.contains(&device);
    let attached = device::attached();
    let all: Vec<Device> = attached.iter().map(|a| a.device).collect();
    let subjects: Vec<Subject> = attached
        .into_iter()
        .zip(users::of_all(&all))
        .map(|(attachment, users)| Subject::new(attachment, users))
        .collect();
    images::check(
        &subjects,
        |subject| is_wanted(subject.attachment.device),
        found,
    );
    for subject in &subjects {
        if !is_wanted(subject.attachment.device) {
            continue;
        }
        if subject.status.is_none() {
            found.skip("which file an image is; run it as root (sudo)");
        }
        if let Some(what) = subject.users.not_seen() {
            found.skip(what);
        }
        checks::device::check(subject, found);
        partitions::check(subject, found);
    }
    for device in device::all().into_iter().filter(|d| is_wanted(*d)) {
        partitions::leftover(device, found);
    }
}

fn lines(drivers: &Drivers, found: &Findings) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "driver: {}", drivers.describe());
    for finding in &found.findings {
        let (severity, subject) = (finding.severity, &finding.subject);
        let advice = finding.advice.as_ref().map(|words| format!("; {words}"));
        let advice = advice.unwrap_or_default();
        let what = &finding.what;
        let _ = writeln!(text, "{severity}: {subject}: {what}{advice}");
        if let Some(mend) = &finding.mend {
            let _ = writeln!(text, "    {mend}");
        }
    }
    for what in &found.not_checked {
        let _ = writeln!(text, "not checked: {what}");
    }
    let number = |severity| {
        let all = found.findings.iter();
        all.filter(|finding| finding.severity == severity).count() as u64
    };
    let counts: Vec<String> =
        [Severity::Error, Severity::Warning, Severity::Note]
            .into_iter()
            .map(|severity| (number(severity), severity.to_string()))
            .filter(|(number, _)| *number > 0)
            .map(|(number, name)| count(number, &name))
            .collect();
    let sum = if counts.is_empty() {
        "nothing found".to_owned()
    } else {
        counts.join(", ")
    };
    let _ = writeln!(text, "{sum}");
    text
}
