// SPDX-License-Identifier: GPL-2.0-only
//! `floop-generator`: tells systemd of the devices in `/etc/flooptab`.
//!
//! systemd runs it early at boot and at each `daemon-reload`. It writes only
//! below the folder that it is given, opens no image, and never fails.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::flooptab::{self, Entry};
use crate::named;
use crate::output::complain;

/// The name by which the command is this.
pub const NAME: &str = "floop-generator";

/// Where the service is installed.
const SERVICE: &str = "/usr/lib/systemd/system/floop@.service";

/// Writes the units. The arguments are those of systemd.generator(7).
pub fn run(folders: &[PathBuf]) {
    let Some(folder) = folders.first() else {
        complain(&format!("{NAME}: give the folder to write to"));
        return;
    };
    let table = flooptab::path();
    let lines = match flooptab::read(&table) {
        Ok(lines) => lines,
        Err(error) => return report(&format!("{}: {error}", table.display())),
    };
    let fstab = fstab();
    for line in lines {
        let place = |line: usize| format!("{}:{line}", table.display());
        match line {
            Ok(entry) => {
                if let Some(problem) = &entry.problem {
                    report(&format!("{}: {problem}", place(entry.line)));
                }
                if let Err(error) = write(folder, &table, &entry, &fstab) {
                    report(&format!("{}: {error}", place(entry.line)));
                }
            }
            Err(bad) => {
                report(&format!("{}: {}", place(bad.line), bad.problem));
            }
        }
    }
}

/// Reports an error to the kernel's log, where the journal takes it from, and
/// to standard error.
fn report(text: &str) {
    complain(text);
    // Not from a shell: systemd sets this.
    if env::var_os("SYSTEMD_SCOPE").is_some_and(|scope| scope == "system") {
        if let Ok(mut log) = OpenOptions::new().write(true).open("/dev/kmsg") {
            // Each write is a message of its own.
            let _ = log.write_all(format!("<3>{NAME}: {text}\n").as_bytes());
        }
    }
}

/// Writes the dependencies of a device. An entry with wrong options has them as
/// well: its service fails, and says why.
fn write(
    folder: &Path,
    table: &Path,
    entry: &Entry,
    fstab: &[(String, String)],
) -> io::Result<()> {
    let unit = unit(&entry.name);
    let settings = folder.join(format!("{unit}.d"));
    fs::create_dir_all(&settings)?;
    let path = named::link(&entry.name);
    let mounts: Vec<&(String, String)> =
        fstab.iter().filter(|(device, _)| belongs(device, &path)).collect();
    let text = dependencies(table, entry, &mounts);
    fs::write(settings.join("50-flooptab.conf"), text)?;
    let devices = mounts.iter().map(|(device, _)| device);
    let devices: BTreeSet<&String> = devices.chain([&path]).collect();
    for path in devices {
        let device = device_unit(path);
        link(folder, &format!("{device}.requires"), &unit)?;
    }
    let options = &entry.options;
    if !options.noauto {
        let how = if options.nofail { "wants" } else { "requires" };
        link(folder, &format!("{}.{how}", target(entry)), &unit)?;
    }
    Ok(())
}

/// What fstab mounts, as pairs of a device and a folder.
fn fstab() -> Vec<(String, String)> {
    // systemd's own generators respect the variable, too.
    let path = env::var_os("SYSTEMD_FSTAB");
    let path = path.map_or_else(|| "/etc/fstab".into(), PathBuf::from);
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mount = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let device = flooptab::unescape(fields.next()?).ok()?;
        Some((device, flooptab::unescape(fields.next()?).ok()?))
    };
    text.lines().filter_map(mount).collect()
}

/// Whether a path is that of a device or of one of its partitions.
fn belongs(path: &str, device: &str) -> bool {
    path.strip_prefix(device).is_some_and(|rest| {
        let number = rest.strip_prefix("-part").unwrap_or_default();
        rest.is_empty() || number.parse::<u32>().is_ok()
    })
}

/// The service of a device.
fn unit(name: &str) -> String {
    format!("floop@{name}.service")
}

/// The target that waits for a device.
fn target(entry: &Entry) -> &'static str {
    if entry.options.network { "remote-fs.target" } else { "local-fs.target" }
}

/// Has one unit pull in another.
fn link(folder: &Path, whose: &str, unit: &str) -> io::Result<()> {
    let folder = folder.join(whose);
    fs::create_dir_all(&folder)?;
    symlink(SERVICE, folder.join(unit))
}

/// What the service of a device waits for, and what waits for it.
fn dependencies(
    table: &Path,
    entry: &Entry,
    mounts: &[&(String, String)],
) -> String {
    let mut text = format!(
        "# Made by {NAME} from line {} of {}.\n[Unit]\nSourcePath={}\n",
        entry.line,
        table.display(),
        table.display()
    );
    let mut add = |key: &str, value: &str| {
        let _ = writeln!(text, "{key}={value}");
    };
    if entry.image.starts_with("/dev/") {
        let device = device_unit(&entry.image);
        add("BindsTo", &device);
        add("After", &device);
    } else {
        add("RequiresMountsFor", &quote(&entry.image));
    }
    let options = &entry.options;
    if !options.noauto && !options.nofail {
        add("Before", target(entry));
    }
    if options.network {
        add("After", "network-online.target");
        add("Wants", "network-online.target");
    }
    // Mount units are ordered after the target of their device.
    let ready =
        format!("blockdev@{}.target", escape(&named::link(&entry.name)));
    add("Before", &ready);
    add("Wants", &ready);
    // A mount from a partition isn't ordered after that target.
    for (_, folder) in mounts {
        if folder.starts_with('/') && folder != "/" {
            add("Before", &format!("{}.mount", escape(folder)));
        }
    }
    text
}

/// A path as an argument in a unit file. `flooptab` refuses what this can't
/// quote.
fn quote(path: &str) -> String {
    let mark = if path.contains('"') { '\'' } else { '"' };
    format!("{mark}{}{mark}", path.replace('%', "%%"))
}

/// The unit of a device node.
fn device_unit(path: &str) -> String {
    format!("{}.device", escape(path))
}

/// A path as a part of a unit's name, as `systemd-escape --path` has it.
fn escape(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty()).collect();
    let mut text = String::new();
    for (index, byte) in parts.join("/").bytes().enumerate() {
        match byte {
            b'/' => text.push('-'),
            b'.' if index == 0 => text.push_str("\\x2e"),
            b':' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                text.push(byte.into());
            }
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_as_systemd_escape_has_them() {
        assert_eq!(
            device_unit("/dev/floop/my-image"),
            concat!("dev-floop-my", "\\x2d", "image.device")
        );
        assert_eq!(escape("//a.b//c_d/"), "a.b-c_d");
        assert_eq!(escape("/.a b"), "\\x2ea\\x20b");
        assert_eq!(escape("/é"), "\\xc3\\xa9");
    }

    #[test]
    fn partitions_belong_to_their_device() {
        for (path, yes) in [
            ("/dev/floop/a", true),
            ("/dev/floop/a-part12", true),
            ("/dev/floop/a-part", false),
            ("/dev/floop/a-partition", false),
            ("/dev/floop/ab", false),
        ] {
            assert_eq!(belongs(path, "/dev/floop/a"), yes, "{path}");
        }
    }

    #[test]
    fn arguments_in_unit_files() {
        assert_eq!(quote("/a b/100%\\x"), "\"/a b/100%%\\x\"");
        assert_eq!(quote("/a\"b"), "'/a\"b'");
    }
}
