// SPDX-License-Identifier: GPL-2.0-only
//! What `doctor` finds.

use std::cmp::Reverse;
use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It may be meant so.
    Note,
    /// It wastes something, or will go wrong.
    Warning,
    /// It loses data or doesn't work.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Something to know or to mend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which check has found it.
    pub check: &'static str,
    /// What it is about: a device, an image, a module.
    pub subject: String,
    /// What is wrong.
    pub what: String,
    /// The command that mends it, for a shell.
    pub mend: Option<String>,
    /// What to do in place of a command, or beside it, in words.
    pub advice: Option<String>,
}

impl Finding {
    /// A finding, so far without a remedy. Each gets a command, words, or both.
    pub fn new(
        severity: Severity,
        check: &'static str,
        subject: impl fmt::Display,
        what: impl Into<String>,
    ) -> Self {
        let subject = subject.to_string();
        Self {
            severity,
            check,
            subject,
            what: what.into(),
            mend: None,
            advice: None,
        }
    }

    /// Adds the command.
    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// Adds words.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// The findings, and what could not be looked at.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// The worst first, once they are sorted.
    pub findings: Vec<Finding>,
    /// What could not be checked, and why.
    pub not_checked: Vec<String>,
}

impl Findings {
    /// Adds one.
    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Notes that something can't be checked.
    pub fn skip(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.not_checked.contains(&what) {
            self.not_checked.push(what);
        }
    }

    /// The worst severity.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// Puts the worst first, and otherwise keeps the order.
    pub fn sort(&mut self) {
        self.findings.sort_by_key(|finding| Reverse(finding.severity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_first() {
        let mut found = Findings::default();
        assert_eq!(found.worst(), None);
        for (severity, subject) in [
            (Severity::Note, "a"),
            (Severity::Error, "b"),
            (Severity::Warning, "c"),
            (Severity::Error, "d"),
        ] {
            found.add(Finding::new(severity, "check", subject, "is wrong"));
        }
        found.sort();
        let order: Vec<&str> =
            found.findings.iter().map(|f| f.subject.as_str()).collect();
        assert_eq!(order, ["b", "d", "c", "a"]);
        assert_eq!(found.worst(), Some(Severity::Error));
    }

    #[test]
    fn what_was_skipped_is_said_once() {
        let mut found = Findings::default();
        for what in ["tables", "users", "tables"] {
            found.skip(what);
        }
        assert_eq!(found.not_checked, ["tables", "users"]);
    }
}
