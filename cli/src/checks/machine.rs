// SPDX-License-Identifier: GPL-2.0-only
//! The machine: which driver serves, and what keeps the module from it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::modules::{self, Installed, Told};
use crate::device::{self, DevId, Device, Family};
use crate::finding::{Finding, Findings, Severity};

/// Which drivers there are.
#[derive(Debug, Serialize)]
pub struct Drivers {
    /// The kernel's release.
    pub kernel: String,
    /// floop beside the loop driver: its version, if it is loaded.
    pub floop: Option<String>,
    /// The driver of loop devices, if it is loaded: `floop-drop-in`, `loop`.
    pub loop_driver: Option<&'static str>,
    /// The drop-in's version.
    pub loop_version: Option<String>,
    /// Whether the kernel's own loop driver is no module.
    #[serde(skip)]
    pub loop_built_in: bool,
    /// What modprobe is told about floop.
    #[serde(skip)]
    pub told: Told,
    /// Whether modules must be signed.
    pub signed_only: Option<&'static str>,
}

impl Drivers {
    /// Those of this machine.
    pub fn find() -> Self {
        // A loop driver that is built in and was kept from starting has a
        // folder in /sys/module.
        let loaded = Path::new("/sys/class/misc/loop-control").exists()
            || device::all().iter().any(|d| d.family == Family::Loop);
        let drop_in = device::floop_version(Family::Loop);
        Self {
            kernel: modules::kernel(),
            floop: device::floop_version(Family::Floop),
            loop_driver: loaded.then_some(if drop_in.is_some() {
                "floop-drop-in"
            } else {
                "loop"
            }),
            loop_version: drop_in,
            loop_built_in: modules::loop_is_built_in(),
            told: modules::told(),
            signed_only: signed_only(),
        }
    }

    /// Whether floop serves any devices.
    fn has_ours(&self) -> bool {
        self.floop.is_some() || self.loop_version.is_some()
    }

    /// Whether the kernel's own loop driver serves and can't be unloaded.
    fn kept_out(&self) -> bool {
        self.loop_built_in
            && self.loop_driver.is_some()
            && self.loop_version.is_none()
    }

    /// As text, one line.
    pub fn describe(&self) -> String {
        let floop = self
            .floop
            .as_ref()
            .map(|version| format!("{version}, side by side"));
        let other = self.loop_driver.map(|_| match &self.loop_version {
            Some(version) => format!("{version}, as the loop driver"),
            None => "loop (in-tree)".to_owned(),
        });
        let all: Vec<String> = floop.into_iter().chain(other).collect();
        if all.is_empty() {
            "none is loaded".to_owned()
        } else {
            all.join("; ")
        }
    }
}

/// What makes the kernel refuse modules without a signature.
fn signed_only() -> Option<&'static str> {
    let read = |path: &str| fs::read(path).unwrap_or_default();
    // Four bytes of attributes, then the value.
    let secure_boot = read(
        "/sys/firmware/efi/efivars/\
         SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
    );
    let lockdown = read("/sys/kernel/security/lockdown");
    let lockdown = String::from_utf8_lossy(&lockdown);
    if secure_boot.get(4) == Some(&1) {
        Some("Secure Boot")
    } else if lockdown.contains("[integrity]")
        || lockdown.contains("[confidentiality]")
    {
        Some("lockdown")
    } else if read("/sys/module/module/parameters/sig_enforce")
        .starts_with(b"Y")
    {
        Some("module.sig_enforce")
    } else {
        None
    }
}

/// Runs all checks of the machine.
pub fn check(drivers: &Drivers, to: &mut Findings) {
    control_nodes(drivers, to);
    leases(drivers, to);
    lvm(drivers, to);
    dkms(to);
    let module = modules::installed();
    if module.is_none() && !drivers.has_ours() {
        to.skip("the installed module: modinfo finds none");
    }
    let refused =
        module.as_ref().is_some_and(|module| signature(drivers, module, to));
    let blacklisted = blacklist(drivers, module.as_ref(), to);
    // What may not be loaded is not loaded by a reload, nor by a reboot.
    if !refused && !blacklisted {
        versions(drivers, module.as_ref(), to);
    }
    if let Some(module) = module.as_ref() {
        initramfs(drivers, module, to);
    }
}

/// A container sees the kernel's driver, and not its nodes.
fn control_nodes(drivers: &Drivers, to: &mut Findings) {
    let loaded = [
        (Family::Floop, drivers.floop.is_some()),
        (Family::Loop, drivers.loop_driver.is_some()),
    ];
    for (family, _) in loaded.into_iter().filter(|(_, loaded)| *loaded) {
        let node = format!("/dev/{}-control", family.name());
        if Path::new(&node).exists() {
            continue;
        }
        let what = "the driver is loaded, but its control node is missing";
        let first = Device { family, number: 0 }.node();
        let finding = Finding::new(Severity::Warning, "node", &node, what)
            .advice(format!(
                "a container has to be started with it and the devices: \
                 --device {node} --device {} ...",
                first.display()
            ));
        to.add(match control_number(family) {
            Some(DevId { major, minor }) => {
                finding.mend(format!("mknod -m 660 {node} c {major} {minor}"))
            }
            None => finding,
        });
    }
    if drivers.floop.is_none() && drivers.loop_driver.is_none() {
        let what = "no driver is loaded";
        to.add(Finding::new(Severity::Note, "driver", "floop", what).mend(
            if modules::installed().is_some() {
                "modprobe floop"
            } else {
                "modprobe loop"
            },
        ));
    }
}

/// The number of a driver's control node.
fn control_number(family: Family) -> Option<DevId> {
    let name = family.name();
    let path = format!("/sys/class/misc/{name}-control/dev");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn leases(drivers: &Drivers, to: &mut Findings) {
    let path = "/proc/sys/fs/leases-enable";
    let off = fs::read(path).is_ok_and(|text| text.starts_with(b"0"));
    if drivers.has_ours() && off {
        let what = "leases are off, so floop maps no image";
        to.add(
            Finding::new(Severity::Warning, "leases", path, what)
                .mend("sysctl fs.leases-enable=1"),
        );
    }
}

/// LVM skips disks whose driver it doesn't know.
fn lvm(drivers: &Drivers, to: &mut Findings) {
    let conf = "/etc/lvm/lvm.conf";
    if drivers.floop.is_none() || !Path::new(conf).exists() {
        return;
    }
    let local = "/etc/lvm/lvmlocal.conf";
    let lines = |of: fn(&str) -> bool| {
        [conf, local].into_iter().any(|path| {
            fs::read(path).is_ok_and(|text| of(&String::from_utf8_lossy(&text)))
        })
    };
    if lines(knows_floop) {
        return;
    }
    let what = "LVM skips floop's devices: it doesn't know their kind";
    let finding = Finding::new(Severity::Note, "lvm", conf, what);
    to.add(if lines(has_types) {
        // A second line would take the place of the first.
        finding.advice(
            "no command does it: add \"floop\", 16 to the list \"types\" that \
             LVM's configuration has",
        )
    } else {
        finding
            .mend(format!("echo 'devices/types = [ \"floop\", 16 ]' >>{local}"))
    });
}

/// Whether a line of lvm.conf that counts has `types`.
fn has_types(conf: &str) -> bool {
    conf.lines().any(is_types)
}

fn is_types(line: &str) -> bool {
    let line = line.trim_start();
    line.strip_prefix("devices/").unwrap_or(line).starts_with("types")
}

/// Whether a line of lvm.conf that counts has `types` with floop.
fn knows_floop(conf: &str) -> bool {
    conf.lines().map(str::trim_start).any(|line| {
        line.strip_prefix("devices/").unwrap_or(line).starts_with("types")
            && line.contains("\"floop\"")
    })
}

/// DKMS has floop, but not built for the running kernel.
fn dkms(to: &mut Findings) {
    let kernel = modules::kernel();
    let folder = Path::new("/var/lib/dkms/floop");
    let Ok(entries) = fs::read_dir(folder) else { return };
    let names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    // kernel-KERNEL-ARCHITECTURE is a link to what is installed.
    let start = format!("kernel-{kernel}-");
    if names.iter().any(|name| name.starts_with(&start)) {
        return;
    }
    let Some(version) = newest(&names) else { return };
    let mut what = format!("DKMS has it, but not for this kernel ({kernel})");
    // The package's script leaves the reason.
    let why = fs::read_to_string(format!("/var/lib/floop-dkms/{kernel}"));
    let log = folder.join(version).join("build/make.log");
    if let Ok(why) = &why {
        what = format!("{what}: {}", why.trim());
    }
    let finding = Finding::new(
        Severity::Warning,
        "dkms",
        format!("floop/{version}"),
        what,
    );
    let headers = format!("/lib/modules/{kernel}/build");
    to.add(if why.is_ok() {
        finding.advice(
            "install a version of floop that knows it, or boot another kernel",
        )
    } else if Path::new(&headers).exists() {
        let finding =
            finding.mend(format!("dkms install floop/{version} -k {kernel}"));
        if log.exists() {
            finding.advice(format!("{} may say why", log.display()))
        } else {
            finding
        }
    } else if Path::new("/usr/bin/apt").exists() {
        let install = format!("apt install linux-headers-{kernel}");
        finding.mend(install).advice("the kernel's headers are missing")
    } else {
        finding.advice("install the kernel's headers, which are missing")
    });
}

/// The newest version that DKMS has in its folder.
fn newest(names: &[String]) -> Option<&String> {
    let versions = names.iter().filter(|name| !name.starts_with("kernel-"));
    versions.max_by_key(|version| {
        let numbers = version.split('.').map(str::parse::<u32>);
        numbers.map(Result::unwrap_or_default).collect::<Vec<_>>()
    })
}

/// How to get another driver loaded.
enum Remedy {
    /// By this command.
    Reload(String),
    /// By a parameter of the kernel.
    Boot,
}

/// A module that waits to be loaded in place of the loaded one.
fn versions(drivers: &Drivers, module: Option<&Installed>, to: &mut Findings) {
    let mut add = |name: &str, what: String, remedy: Remedy| {
        let finding = Finding::new(Severity::Warning, "reload", name, what);
        to.add(match remedy {
            Remedy::Reload(modules) => finding.mend(modules).advice(
                "reload it while none of its devices is in use, or reboot",
            ),
            Remedy::Boot => finding.advice(
                "no command does it: add initcall_blacklist=loop_init to the \
                 kernel's command line, and reboot, as its loop driver is \
                 built in",
            ),
        });
    };
    let reload = |name: &str| {
        // modprobe loads nothing by the name of what is built in.
        let module = if drivers.loop_built_in { "floop" } else { name };
        Remedy::Reload(format!("modprobe -r {module} && modprobe {module}"))
    };
    let take_over = |name: &str| {
        if drivers.kept_out() {
            Remedy::Boot
        } else if name == "floop" && drivers.loop_driver.is_some() {
            // Two drivers can't have one name.
            let both = "modprobe -r floop && modprobe -r loop && modprobe loop";
            Remedy::Reload(both.to_owned())
        } else {
            reload(name)
        }
    };
    let new = module.and_then(|module| module.version.as_ref());
    let loaded = drivers.loop_version.as_ref().map(|version| ("loop", version));
    let loaded =
        loaded.or(drivers.floop.as_ref().map(|version| ("floop", version)));
    if let (Some((name, loaded)), Some(new)) = (loaded, new) {
        if loaded != new {
            let what = format!("{loaded} is loaded, and {new} is installed");
            add(name, what, reload(name));
            return;
        }
    }
    match (drivers.told.drop_in, new, loaded, drivers.loop_driver) {
        (true, Some(new), Some(("floop", _)), _) => {
            let what = format!(
                "the drop-in ({new}) is installed, and floop is still loaded \
                 side by side"
            );
            add("floop", what, take_over("floop"));
        }
        (true, Some(new), None, Some(_)) => {
            let what = format!(
                "the drop-in ({new}) is installed, and the in-tree driver is \
                 still loaded"
            );
            add("loop", what, take_over("loop"));
        }
        (false, _, Some(("loop", loaded)), _) => {
            let what = format!(
                "{loaded} is loaded as the drop-in, which is no longer \
                 installed"
            );
            add("floop", what, reload("floop"));
        }
        _ => {}
    }
}

/// An initramfs that was made before the drop-in was installed doesn't have it:
/// if it loads a loop driver, that is the in-tree one.
fn initramfs(drivers: &Drivers, module: &Installed, to: &mut Findings) {
    let may_load_the_other = drivers.told.drop_in && !drivers.loop_built_in;
    let Some(image) = modules::initramfs().filter(|_| may_load_the_other)
    else {
        return;
    };
    let (Some(made), Some(written)) =
        (modules::modified(&image), module.written())
    else {
        return;
    };
    if made >= written {
        return;
    }
    let kernel = modules::kernel();
    let what = "is older than the drop-in: if it uses loop devices, the next \
                boot loads the in-tree driver";
    let mend = if Path::new("/usr/sbin/update-initramfs").exists() {
        format!("update-initramfs -u -k {kernel}")
    } else {
        format!("dracut --force --add-drivers floop --kver {kernel}")
    };
    to.add(
        Finding::new(Severity::Warning, "initramfs", image.display(), what)
            .mend(mend),
    );
}

/// A drop-in that modprobe may not load; whether it is one. Beside the loop
/// driver, who blacklists floop means it: it is loaded by its own name.
fn blacklist(
    drivers: &Drivers,
    module: Option<&Installed>,
    to: &mut Findings,
) -> bool {
    let Told { drop_in, blacklisted } = drivers.told;
    if !drop_in || !blacklisted || module.is_none() {
        return false;
    }
    let what = "the drop-in is installed, and modprobe is told not to load it \
                (blacklist floop): who asks for loop gets the in-tree driver";
    to.add(Finding::new(Severity::Warning, "blacklist", "floop", what).advice(
        "no command does it: remove the line \"blacklist floop\" from the \
             files in /etc/modprobe.d or /usr/lib/modprobe.d, or \
             modprobe.blacklist=floop from the kernel's command line",
    ));
    true
}

/// The public half of the key that DKMS signs with.
const DKMS_KEY: &str = "/var/lib/dkms/mok.pub";

/// A module that the kernel refuses for want of a signature that it knows;
/// whether it does.
fn signature(drivers: &Drivers, module: &Installed, to: &mut Findings) -> bool {
    let (Some(why), Some(file)) = (drivers.signed_only, &module.file) else {
        return false;
    };
    let finding = |what: String| {
        Finding::new(Severity::Error, "signature", file.display(), what)
    };
    if module.signer.is_none() {
        let what = format!("is not signed, and {why} refuses to load it");
        to.add(finding(what).advice(
            "no one command does it: sign it, as DKMS 3 does, and enroll the \
             key by mokutil --import",
        ));
        return true;
    }
    if !Path::new(DKMS_KEY).exists() {
        return false;
    }
    let enrolled = enrolled();
    match enrolled {
        None => to.skip("whether DKMS's key is enrolled: mokutil is missing"),
        Some(true) => {}
        Some(false) => to.add(
            finding(format!("its key is not enrolled, and {why} is on"))
                .mend(format!("mokutil --import {DKMS_KEY}"))
                .advice("reboot then, and confirm it on the screen"),
        ),
    }
    enrolled == Some(false)
}

/// Whether DKMS's key is one that the firmware or shim knows.
fn enrolled() -> Option<bool> {
    let output = Command::new("mokutil")
        .args(["--test-key", DKMS_KEY])
        .env("PATH", modules::search_path())
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // Its exit code differs between versions.
    if said.contains("is not enrolled") {
        Some(false)
    } else if said.contains("is already enrolled") {
        Some(true)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        let names = ["0.9.0", "0.10.0", "kernel-6.12-x86_64", "0.2"];
        let names = names.map(str::to_owned);
        assert_eq!(newest(&names).map(String::as_str), Some("0.10.0"));
        assert_eq!(newest(&[]), None);
    }

    fn drivers(loop_version: Option<&str>) -> Drivers {
        Drivers {
            kernel: "6.12".to_owned(),
            floop: None,
            loop_driver: Some("loop"),
            loop_version: loop_version.map(str::to_owned),
            loop_built_in: false,
            told: Told { drop_in: true, blacklisted: false },
            signed_only: None,
        }
    }

    fn module(version: Option<&str>) -> Installed {
        Installed {
            file: Some("/lib/modules/6.12/updates/floop.ko".into()),
            version: version.map(str::to_owned),
            signer: None,
        }
    }

    fn said(drivers: &Drivers, version: Option<&str>) -> String {
        let mut found = Findings::default();
        let module = version.map(|version| module(Some(version)));
        versions(drivers, module.as_ref(), &mut found);
        found.findings.pop().map(|finding| finding.what).unwrap_or_default()
    }

    #[test]
    fn what_waits_for_a_reboot() {
        let (new, old) = (Some("floop 0.2"), Some("floop 0.1"));
        assert_eq!(said(&drivers(None), None), "");
        assert_eq!(said(&drivers(old), old), "");
        assert!(said(&drivers(None), new).contains("still loaded"));
        assert!(said(&drivers(old), new).contains("0.2 is installed"));
        let mut other = drivers(old);
        other.told.drop_in = false;
        assert!(said(&other, old).contains("no longer"));
        let mut other = drivers(None);
        other.floop = old.map(str::to_owned);
        assert!(said(&other, old).contains("side by side"));
        other.told.drop_in = false;
        assert_eq!(said(&other, old), "");
        let mut none = drivers(None);
        none.loop_driver = None;
        assert_eq!(said(&none, new), "");
    }

    #[test]
    fn what_mends_a_built_in_driver() {
        let found = |drivers: &Drivers| {
            let mut found = Findings::default();
            versions(drivers, Some(&module(Some("floop 0.2"))), &mut found);
            found.findings.pop()
        };
        let mend = |drivers: &Drivers| {
            found(drivers).and_then(|f| f.mend).unwrap_or_default()
        };
        let advice = |drivers: &Drivers| {
            found(drivers).and_then(|f| f.advice).unwrap_or_default()
        };
        let parameter = "initcall_blacklist=loop_init";
        let mut serves = drivers(None);
        assert_eq!(mend(&serves), "modprobe -r loop && modprobe loop");
        serves.loop_built_in = true;
        assert_eq!(mend(&serves), "");
        assert!(advice(&serves).contains(parameter));
        serves.floop = Some("floop 0.2".to_owned());
        assert!(advice(&serves).contains(parameter));
        serves.loop_built_in = false;
        assert_eq!(
            mend(&serves),
            "modprobe -r floop && modprobe -r loop && modprobe loop"
        );
        let mut ours = drivers(Some("floop 0.1"));
        assert!(mend(&ours).starts_with("modprobe -r loop"));
        ours.loop_built_in = true;
        assert!(mend(&ours).starts_with("modprobe -r floop"));
    }

    #[test]
    fn what_modprobe_may_not_load() {
        let mut found = Findings::default();
        let module = module(Some("floop 0.2"));
        let mut told = drivers(None);
        assert!(!blacklist(&told, Some(&module), &mut found));
        told.told.blacklisted = true;
        assert!(!blacklist(&told, None, &mut found));
        assert_eq!(found.worst(), None);
        assert!(blacklist(&told, Some(&module), &mut found));
        assert_eq!(found.worst(), Some(Severity::Warning));
        told.told.drop_in = false;
        assert!(!blacklist(&told, Some(&module), &mut found));
    }

    #[test]
    fn kinds_that_lvm_knows() {
        assert!(knows_floop("devices {\n\ttypes = [ \"floop\", 16 ]\n}"));
        assert!(knows_floop("devices/types = [ \"fd\", 1, \"floop\", 16 ]"));
        assert!(!knows_floop("\t# types = [ \"floop\", 16 ]\n"));
        assert!(!knows_floop("types = [ \"fd\", 16 ]\n"));
        assert!(has_types("a\n\ttypes = [ \"fd\", 16 ]\n"));
        assert!(has_types("devices/types = [ \"fd\", 16 ]\n"));
        assert!(!has_types("\t# types = [ \"fd\", 16 ]\n"));
    }

    #[test]
    fn modules_that_must_be_signed() {
        let mut found = Findings::default();
        let mut drivers = drivers(None);
        assert!(!signature(&drivers, &module(Some("floop 0.1")), &mut found));
        assert_eq!(found.worst(), None);
        drivers.signed_only = Some("Secure Boot");
        assert!(signature(&drivers, &module(Some("floop 0.1")), &mut found));
        assert_eq!(found.worst(), Some(Severity::Error));
    }
}
