// SPDX-License-Identifier: GPL-2.0-only
//! `attach --autoclear`: the process that keeps the device for its first user.
//!
//! The kernel detaches such a device when its last user closes it, and that
//! would be `floop attach` itself. So a process, `floop hold`, stays behind and
//! has the device open until another process uses it, for a minute at most.
//!
//! When a service ends, systemd ends the processes left in it. In a service
//! `floop hold` is therefore a service of its own.

use std::env::current_exe;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal,
};

use crate::cgroup::path_of;
use crate::device::{DevId, Device};
use crate::output::warn;
use crate::process::run_quietly;
use crate::{users, wait};

/// The subcommand, by which the process is found.
const SUBCOMMAND: &str = "hold";
/// How long the process may take to have its command line.
const NAMED: Duration = Duration::from_secs(1);

/// Starts the process.
pub fn start(device: Device, open: &File) -> io::Result<()> {
    if let Some(service) =
        service(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
    {
        if start_service(device).is_ok_and(|started| started) {
            return Ok(());
        }
        warn(&format!(
            "{}: is detached when {service} ends, unless it is in use by then: \
             systemd-run could not start a process that keeps it open",
            device.node().display()
        ));
    }
    let process = Command::new("/proc/self/exe")
        .arg0("floop")
        .arg(SUBCOMMAND)
        .current_dir("/")
        .stdin(open.try_clone()?)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // It has no command line yet just after execve(), and end() finds it by
    // that.
    if let Some(id) = device.id() {
        wait::until(NAMED, || is_ours(process.id(), id));
    }
    Ok(())
}

/// Starts the process as a service; returns whether it has the device open.
fn start_service(device: Device) -> io::Result<bool> {
    let node = device.node();
    let node = node.display();
    let mut command = Command::new("systemd-run");
    if !geteuid().is_root() {
        command.arg("--user");
    }
    command
        .args([
            "--quiet",
            "--collect",
            "--no-ask-password",
            "--service-type=exec",
        ])
        // The default dependencies wait for the boot, which may need this
        // device.
        .arg("--property=DefaultDependencies=no")
        .arg(format!("--property=StandardInput=file:{node}"))
        .arg(format!("--description=Keep {node} for its first user"))
        .arg(current_exe()?)
        .arg(SUBCOMMAND);
    run_quietly(&mut command).map(|status| status.success())
}

/// The systemd service of a process, from its /proc/PID/cgroup.
fn service(cgroups: &str) -> Option<&str> {
    let is_unit = |name: &&str| {
        [".service", ".scope", ".slice"]
            .into_iter()
            .any(|kind| name.ends_with(kind))
    };
    let unit = cgroups.lines().find_map(path_of)?.rsplit('/').find(is_unit)?;
    unit.ends_with(".service").then_some(unit)
}

/// Ends the processes that hold a device.
pub fn end(device: Device) {
    let Some(id) = device.id() else { return };
    for number in users::other_processes() {
        let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw)
        else {
            continue;
        };
        // The PID may be reused at any time: check again after pidfd_open().
        if is_ours(number, id) {
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
                continue;
            };
            if is_ours(number, id) {
                // It may just have ended.
                let _ = pidfd_send_signal(process, Signal::TERM);
            }
        }
    }
}

fn is_ours(pid: u32, id: DevId) -> bool {
    let arguments =
        fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.ends_with(format!("\0{SUBCOMMAND}\0").as_bytes())
        && users::is_open(Path::new(&format!("/proc/{pid}/fd/0")), &[id])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_systemd() {
        assert_eq!(
            service("0::/system.slice/attach.service\n"),
            Some("attach.service")
        );
        assert_eq!(
            service("0::/system.slice/a.service/payload\n"),
            Some("a.service")
        );
        let terminal = "0::/user.slice/user-1.slice/user@1.service/app.slice/\
                        terminal-1.scope\n";
        assert_eq!(service(terminal), None);
        assert_eq!(
            service("0::/user.slice/user-0.slice/session-3.scope\n"),
            None
        );
        assert_eq!(service("0::/\n"), None);
        assert_eq!(service(""), None);
        let both =
            "4:memory:/\n1:name=systemd:/system.slice/cron.service\n0::/\n";
        assert_eq!(service(both), Some("cron.service"));
    }
}
