// SPDX-License-Identifier: GPL-2.0-only
//! The modules that are installed, as modinfo and the files say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use rustix::system::uname;

/// The running kernel's release.
pub fn kernel() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// A module that modprobe would load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its file; `None` if it is built into the kernel.
    pub file: Option<PathBuf>,
    /// Its version.
    pub version: Option<String>,
    /// Who signed it.
    pub signer: Option<String>,
}

impl Installed {
    /// When its file was written.
    pub fn written(&self) -> Option<SystemTime> {
        modified(self.file.as_ref()?)
    }
}

/// When a file was written.
pub fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// The floop module for the running kernel; `None` if there is none, or without
/// modinfo.
pub fn installed() -> Option<Installed> {
    let output = Command::new("modinfo")
        .args(["-k", &kernel(), "floop"])
        .env("PATH", search_path())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| parse(&String::from_utf8_lossy(&output.stdout)))
}

/// What modprobe is told about floop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// To load it in the loop driver's place.
    pub drop_in: bool,
    /// Not to load it for others: by a file, or by the kernel's command line.
    pub blacklisted: bool,
}

/// What modprobe is told about floop; nothing, without modprobe.
pub fn told() -> Told {
    Command::new("modprobe")
        .arg("--showconfig")
        .env("PATH", search_path())
        .stderr(Stdio::null())
        .output()
        .map(|output| told_by(&String::from_utf8_lossy(&output.stdout)))
        .unwrap_or_default()
}

/// Whether the kernel's own loop driver is built in; it may have been kept from
/// starting.
pub fn loop_is_built_in() -> bool {
    // Only a module has a state.
    let folder = Path::new("/sys/module/loop");
    folder.exists() && !folder.join("initstate").exists()
}

fn told_by(configuration: &str) -> Told {
    let names = configuration
        .lines()
        .filter_map(|line| line.strip_prefix("options floop "))
        .flat_map(str::split_whitespace)
        .filter_map(|option| option.strip_prefix("names="))
        .next_back();
    Told {
        drop_in: names == Some("loop"),
        blacklisted: configuration.lines().any(|l| l == "blacklist floop"),
    }
}

/// Users' PATH may lack the folders of such programs.
pub fn search_path() -> String {
    let own = std::env::var("PATH").unwrap_or_default();
    format!("{own}:/usr/sbin:/sbin")
}

/// What modinfo prints: `name:   value` a line.
fn parse(text: &str) -> Installed {
    let field = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    Installed {
        file: field("filename")
            .filter(|name| name != "(builtin)")
            .map(PathBuf::from),
        version: field("version"),
        signer: field("signer"),
    }
}

/// The initramfs of the running kernel.
pub fn initramfs() -> Option<PathBuf> {
    let kernel = kernel();
    ["initrd.img-", "initramfs-"]
        .into_iter()
        .flat_map(|start| {
            [
                format!("/boot/{start}{kernel}"),
                format!("/boot/{start}{kernel}.img"),
            ]
        })
        .map(PathBuf::from)
        .find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_modinfo_says() {
        let ours = parse(
            "filename:       /lib/modules/6.12/updates/dkms/floop.ko\n\
             version:        floop 0.1\nlicense:        GPL\n\
             signer:         DKMS module signing key\n",
        );
        assert_eq!(ours.version.as_deref(), Some("floop 0.1"));
        assert_eq!(ours.signer.as_deref(), Some("DKMS module signing key"));
        let file = ours.file.unwrap_or_default();
        assert!(file.ends_with("updates/dkms/floop.ko"));
        // The kernel can't tell who, and doesn't take the module.
        assert_eq!(parse("signer:         \n").signer, None);
        let built_in =
            parse("name:           floop\nfilename:       (builtin)\n");
        assert_eq!(built_in.file, None);
    }

    #[test]
    fn what_modprobe_is_told() {
        let side_by_side = "blacklist floop\noptions floop mapping=0\n";
        let told = told_by(side_by_side);
        assert_eq!((told.drop_in, told.blacklisted), (false, true));
        let drop_in = "blacklist floop2\noptions loop max_loop=8\n\
                       options floop names=loop\n";
        let told = told_by(drop_in);
        assert_eq!((told.drop_in, told.blacklisted), (true, false));
        let both = "options floop names=loop names=floop\n";
        assert!(!told_by(both).drop_in);
    }
}
