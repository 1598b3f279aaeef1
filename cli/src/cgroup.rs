// SPDX-License-Identifier: GPL-2.0-only
//! What a process belongs to, by the path of its control group: a unit of
//! systemd, a container, a Kubernetes pod.

use std::fmt;
use std::fs;

use serde::Serialize;

/// What a process belongs to, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The systemd service or scope.
    pub unit: Option<String>,
    /// The container's ID or name.
    pub container: Option<String>,
    /// The pod's UID.
    pub pod: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.pod.as_ref().map(|uid| format!("pod {uid}")),
            self.container.as_ref().map(|id| {
                // 12 digits are what the tools of containers show.
                let id = if is_id(id) { &id[..12] } else { id };
                format!("container {id}")
            }),
            self.unit.clone(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

/// The place of a process.
pub fn of(pid: u32) -> Place {
    let cgroups = fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    place(&String::from_utf8_lossy(&cgroups))
}

/// The path of systemd's control group in a line of /proc/PID/cgroup.
pub fn path_of(line: &str) -> Option<&str> {
    let path =
        line.split_once("::").or_else(|| line.split_once(":name=systemd:"));
    path.map(|(_, path)| path)
}

/// From the content of /proc/PID/cgroup.
fn place(cgroups: &str) -> Place {
    // Without systemd, containers are in the hierarchies of the controllers.
    let any = |line| str::splitn(line, 3, ':').nth(2);
    cgroups
        .lines()
        .filter_map(path_of)
        .chain(cgroups.lines().filter_map(any))
        .map(of_path)
        .find(|place| *place != Place::default())
        .unwrap_or_default()
}

fn of_path(path: &str) -> Place {
    let mut place = Place::default();
    let mut before = "";
    for name in path.split('/') {
        if let Some(uid) = pod(name) {
            place.pod = Some(uid);
        } else if let Some(id) = container(name, before) {
            place.container = Some(id.to_owned());
            // What is below is the container's own.
            break;
        } else if [".service", ".scope"].iter().any(|k| name.ends_with(k)) {
            place.unit = Some(name.to_owned());
        }
        before = name;
    }
    place
}

/// The UID of a pod: `kubepods-burstable-podUID.slice` or `podUID`.
fn pod(name: &str) -> Option<String> {
    let uid = match name.strip_suffix(".slice") {
        Some(slice) if slice.starts_with("kubepods") => {
            slice.rsplit_once("-pod")?.1.replace('_', "-")
        }
        Some(_) => return None,
        None => name.strip_prefix("pod")?.to_owned(),
    };
    let is_uid = uid.len() >= 32
        && uid.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    is_uid.then_some(uid)
}

/// A container: `RUNTIME-ID.scope`, `ID`, `libpod-ID` (Podman without systemd),
/// `machine-NAME.scope`, `lxc.payload.NAME` or `lxc/NAME`.
fn container<'a>(name: &'a str, before: &str) -> Option<&'a str> {
    if let Some(scope) = name.strip_suffix(".scope") {
        if let Some(machine) = scope.strip_prefix("machine-") {
            return Some(machine);
        }
        return scope.rsplit_once('-').map(|(_, id)| id).filter(|id| is_id(id));
    }
    if before == "lxc" && !name.is_empty() {
        return Some(name);
    }
    name.strip_prefix("lxc.payload.")
        .or_else(|| name.strip_prefix("libpod-payload-"))
        .or_else(|| {
            let id = name.strip_prefix("libpod-").unwrap_or(name);
            is_id(id).then_some(id)
        })
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn named(cgroups: &str) -> String {
        place(cgroups).to_string()
    }

    #[test]
    fn units() {
        assert_eq!(named("0::/system.slice/a.service\n"), "a.service");
        assert_eq!(
            named("0::/user.slice/user-0.slice/session-3.scope\n"),
            "session-3.scope"
        );
        assert_eq!(
            named("4:memory:/\n1:name=systemd:/system.slice/b.service\n0::/\n"),
            "b.service"
        );
        assert_eq!(named("0::/\n"), "");
        assert_eq!(named(""), "");
    }

    #[test]
    fn containers() {
        let short = "container 0123456789ab";
        for path in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/libpod_parent/libpod-{ID}"),
            format!("/machine.slice/libpod-{ID}.scope/container/a.service"),
        ] {
            assert_eq!(named(&format!("0::{path}\n")), short, "{path}");
            let old = format!("4:memory:{path}\n0::/\n");
            assert_eq!(named(&old), short, "{old}");
        }
        assert_eq!(
            named(&format!("0::/system.slice/q.service/libpod-{ID}.scope\n")),
            format!("{short}, q.service")
        );
        assert_eq!(named("0::/lxc.payload.web/init.scope\n"), "container web");
        assert_eq!(named("3:cpu:/lxc/old\n"), "container old");
        assert_eq!(
            named("0::/machine.slice/machine-vm1.scope\n"),
            "container vm1"
        );
    }

    #[test]
    fn pods() {
        let uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let slice = uid.replace('-', "_");
        let text = format!("pod {uid}, container 0123456789ab");
        assert_eq!(
            named(&format!(
                "0::/kubepods.slice/kubepods-burstable.slice/\
                 kubepods-burstable-pod{slice}.slice/cri-containerd-{ID}.scope\
                 \n"
            )),
            text
        );
        assert_eq!(
            named(&format!("0::/kubepods/besteffort/pod{uid}/{ID}\n")),
            text
        );
        assert_eq!(named("0::/podium.slice/podman\n"), "");
    }
}
