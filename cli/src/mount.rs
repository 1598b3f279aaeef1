// SPDX-License-Identifier: GPL-2.0-only
//! `mount -t floop IMAGE DIR`: `/sbin/mount.floop`, which mount(8) runs.
//!
//! It attaches the image, has mount(8) mount the device, and leaves the device
//! to the mount: the last user detaches it.

use std::env::current_exe;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::str;

use crate::device::{DevId, Device};
use crate::flooptab;
use crate::holder;
use crate::text::{shown, unescape};

/// The name by which the command is this.
pub const NAME: &str = "mount.floop";

/// mount(8)'s exit codes.
const USAGE: u8 = 1;
const SYSTEM: u8 = 2;
const FAILED: u8 = 32;

/// The arguments that mount(8) gives a helper.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    image: OsString,
    folder: OsString,
    /// -o
    options: Vec<String>,
    /// The type that the image has, of `-t floop.TYPE`.
    kind: Option<String>,
    /// -s, -n, -v, for the second mount(8)
    flags: Vec<OsString>,
    /// -f
    fake: bool,
}

/// What the options say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Arguments of `floop attach`
    attach: Vec<String>,
    /// Options of the file system
    mount: Vec<String>,
    /// Change a mount that is there
    remount: bool,
}

type Failure = (u8, String);

/// Mounts.
pub fn run(arguments: &[OsString]) -> ExitCode {
    match parse(arguments).and_then(|arguments| mount(&arguments)) {
        Ok(code) => code.into(),
        Err((code, text)) => {
            eprintln!("{NAME}: {text}");
            code.into()
        }
    }
}

/// Parses the arguments: IMAGE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS]
/// [-t TYPE].
fn parse(words: &[OsString]) -> Result<Arguments, Failure> {
    let usage = |problem: &str| {
        let text = format!(
            "{problem}; usage: {NAME} IMAGE DIR [-sfnv] [-N NAMESPACE] \
             [-o OPTIONS] [-t floop[.TYPE]]"
        );
        (USAGE, text)
    };
    let mut found = Arguments::default();
    let mut names = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let letters = match word.as_bytes() {
            [b'-', letters @ ..] if !letters.is_empty() => letters,
            _ => {
                names.push(word.clone());
                continue;
            }
        };
        for (index, letter) in letters.iter().enumerate() {
            match letter {
                b'f' => found.fake = true,
                b's' | b'n' | b'v' => {
                    let flag = format!("-{}", char::from(*letter));
                    found.flags.push(flag.into());
                }
                b'o' | b't' | b'N' => {
                    let rest = &letters[index + 1..];
                    let value = if rest.is_empty() {
                        words.next().map(OsString::as_os_str)
                    } else {
                        Some(OsStr::from_bytes(rest))
                    };
                    let value = value
                        .and_then(OsStr::to_str)
                        .ok_or_else(|| usage("an option lacks its value"))?;
                    match letter {
                        b'o' => found.options.extend(split(value)),
                        b't' => {
                            found.kind = value
                                .strip_prefix("floop.")
                                .map(ToOwned::to_owned);
                        }
                        _ => {
                            found.flags.push("-N".into());
                            found.flags.push(value.into());
                        }
                    }
                    break;
                }
                _ => return Err(usage("unknown option")),
            }
        }
    }
    let [image, folder] = names.as_slice() else {
        return Err(usage("give an image and a folder"));
    };
    found.image.clone_from(image);
    found.folder.clone_from(folder);
    Ok(found)
}

/// Splits options at commas that are not in quotes, as in
/// `context="a:b:c0,c1"`.
fn split(options: &str) -> Vec<String> {
    let mut quoted = false;
    options
        .split(|c: char| {
            quoted ^= c == '"';
            c == ',' && !quoted
        })
        .filter(|word| !word.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

/// Sorts the options.
fn plan(options: &[String]) -> Result<Plan, Failure> {
    let mut plan = Plan::default();
    for word in options {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        // util-linux means to have the first one for mount -o loop.
        let direct = matches!(key, "X-loopdev.direct-io" | "direct-io");
        match (key, value) {
            (_, "" | "on") if direct => {
                plan.attach.push("--direct=on".to_owned());
            }
            (_, "off") if direct => plan.attach.push("--direct=off".to_owned()),
            _ if direct => {
                let text = format!("{key}: '{value}' is neither on nor off");
                return Err((USAGE, text));
            }
            ("loop", "") => {}
            ("remount", "") => {
                plan.remount = true;
                plan.mount.push(word.clone());
            }
            ("ro", "") => {
                plan.attach.push("--read-only".to_owned());
                plan.mount.push(word.clone());
            }
            _ => match flooptab::setting(key, value) {
                Some(Ok(argument)) => plan.attach.push(argument),
                Some(Err(error)) => {
                    return Err((USAGE, format!("{key}: {error}")));
                }
                None => plan.mount.push(word.clone()),
            },
        }
    }
    Ok(plan)
}

/// Attaches and mounts; returns mount(8)'s exit code.
fn mount(arguments: &Arguments) -> Result<u8, Failure> {
    let plan = plan(&arguments.options)?;
    if arguments.fake {
        return Ok(0);
    }
    let mounted = device_at(Path::new(&arguments.folder));
    if plan.remount {
        let device = mounted.ok_or_else(|| {
            let folder = shown(&arguments.folder);
            (FAILED, format!("{folder}: no floop or loop device is mounted"))
        })?;
        return second_mount(arguments, &plan, device);
    }
    if let Some(device) = mounted.filter(|device| has(*device, arguments)) {
        return Err((
            FAILED,
            format!(
                "{}: is mounted on {} already ({})",
                shown(&arguments.image),
                shown(&arguments.folder),
                device.node().display()
            ),
        ));
    }
    let floop = current_exe().map_err(|error| {
        (SYSTEM, format!("cannot find the command floop: {error}"))
    })?;
    // It prints its errors itself.
    let output = Command::new(floop)
        .args(["attach", "--autoclear"])
        .args(&plan.attach)
        .arg("--")
        .arg(&arguments.image)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| (SYSTEM, format!("cannot run floop: {error}")))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let name = printed.trim().strip_prefix("/dev/");
    let device: Option<Device> = name.and_then(|name| name.parse().ok());
    let (Some(device), true) = (device, output.status.success()) else {
        let image = shown(&arguments.image);
        return Err((FAILED, format!("{image}: could not be attached")));
    };
    // This keeps the device until mount(8) is done. Closing it detaches the
    // device if it isn't mounted.
    let open = File::open(device.node()).map_err(|error| {
        (SYSTEM, format!("{}: cannot open: {error}", device.node().display()))
    })?;
    holder::end(device);
    let code = second_mount(arguments, &plan, device);
    drop(open);
    code
}

/// Has mount(8) mount the device.
fn second_mount(
    arguments: &Arguments,
    plan: &Plan,
    device: Device,
) -> Result<u8, Failure> {
    let mut command = Command::new("mount");
    command.args(&arguments.flags);
    if let Some(kind) = &arguments.kind {
        command.args(["-t", kind]);
    }
    if !plan.mount.is_empty() {
        command.args(["-o", &plan.mount.join(",")]);
    }
    let status = command
        .arg(device.node())
        .arg(&arguments.folder)
        .status()
        .map_err(|error| (SYSTEM, format!("cannot run mount: {error}")))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(FAILED))
}

/// The device that is mounted on a folder.
fn device_at(folder: &Path) -> Option<Device> {
    let folder = fs::canonicalize(folder).ok()?;
    let table = fs::read("/proc/self/mountinfo").ok()?;
    let fields = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            let here =
                unescape(fields.get(4)?) == folder.as_os_str().as_bytes();
            let end = fields.iter().position(|field| *field == b"-")?;
            let source = unescape(fields.get(end + 2)?);
            here.then(|| (fields[2].to_vec(), source))
        })
        // The last one hides the others.
        .next_back()?;
    let (number, source) = fields;
    let device = |id: DevId| -> Option<Device> {
        id.sysfs()?.file_name()?.to_str()?.parse().ok()
    };
    let id: DevId = str::from_utf8(&number).ok()?.parse().ok()?;
    // btrfs has a number that is no device's.
    device(id).or_else(|| {
        let node = fs::metadata(OsStr::from_bytes(&source)).ok()?;
        device(DevId::from_stat(node.rdev()))
    })
}

/// Whether a device has the image.
fn has(device: Device, arguments: &Arguments) -> bool {
    let image = fs::canonicalize(&arguments.image).ok();
    device.attachment().is_some_and(|attachment| {
        image.as_deref() == Some(attachment.image().0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, Failure> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        parse(&words)
    }

    fn planned(options: &str) -> Result<(String, String), u8> {
        plan(&split(options))
            .map(|plan| (plan.attach.join(" "), plan.mount.join(",")))
            .map_err(|(code, _)| code)
    }

    #[test]
    fn arguments_of_mount() {
        let found = parsed(&[
            "/a.img",
            "/mnt",
            "-sn",
            "-v",
            "-o",
            "rw,x=\"a,b\"",
            "-t",
            "floop.ext4",
            "-N/proc/1/ns/mnt",
        ]);
        assert_eq!(
            found,
            Ok(Arguments {
                image: "/a.img".into(),
                folder: "/mnt".into(),
                options: vec!["rw".to_owned(), "x=\"a,b\"".to_owned()],
                kind: Some("ext4".to_owned()),
                flags: ["-s", "-n", "-v", "-N", "/proc/1/ns/mnt"]
                    .map(OsString::from)
                    .to_vec(),
                fake: false,
            })
        );
        assert!(parsed(&["-f", "a", "b"]).is_ok_and(|found| found.fake));
        for words in
            [&["a"][..], &["a", "b", "c"], &["a", "b", "-x"], &["a", "b", "-o"]]
        {
            assert!(parsed(words).is_err_and(|(code, _)| code == USAGE));
        }
    }

    #[test]
    fn options_go_where_they_belong() {
        let of = |attach: &str, mount: &str| {
            Ok((attach.to_owned(), mount.to_owned()))
        };
        assert_eq!(planned("defaults,noatime"), of("", "defaults,noatime"));
        assert_eq!(planned("ro,nosuid"), of("--read-only", "ro,nosuid"));
        assert_eq!(
            planned("offset=1M,sizelimit=4M,sector-size=4096,mapping=off"),
            of(
                "--offset=1M --size-limit=4M --sector-size=4096 --mapping=off",
                ""
            )
        );
        for word in ["direct-io", "direct-io=on", "X-loopdev.direct-io=on"] {
            assert_eq!(planned(word), of("--direct=on", ""), "{word}");
        }
        let word = "X-loopdev.direct-io=off,loop";
        assert_eq!(planned(word), of("--direct=off", ""));
        for word in ["offset=x", "direct-io=1", "mapping=maybe"] {
            assert_eq!(planned(word), Err(USAGE), "{word}");
        }
    }
}
