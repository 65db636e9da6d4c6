//! How far uv is, from the lines that it prints. Pure; a line that says nothing changes nothing.

/// How far a restore is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, for people: `resolving`, `downloading 12 packages`.
    pub doing: String,
    /// How many packages uv has put into the environment; `None` until it said so.
    pub installed: Option<u32>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { doing: "resolving".to_owned(), installed: None }
    }
}

impl Progress {
    /// Takes in a line of uv.
    pub fn hear(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Resolved"), Some(count)) => {
                self.doing = format!("downloading {}", packages(count));
            }
            (Some("Building"), Some(package)) => self.doing = format!("building {package}"),
            (Some("Prepared"), Some(count)) => {
                self.doing = format!("installing {}", packages(count));
            }
            (Some("Installed"), Some(count)) => {
                self.doing = format!("installed {}", packages(count));
                self.installed = count.parse().ok().or(self.installed);
            }
            // Nothing was missing.
            (Some("Checked" | "Audited"), Some(_)) => self.installed = self.installed.or(Some(0)),
            _ => {}
        }
    }
}

fn packages(count: &str) -> String {
    if count == "1" { "1 package".to_owned() } else { format!("{count} packages") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uvs_lines_are_steps() {
        let mut progress = Progress::default();
        for (line, doing, installed) in [
            ("Using Python 3.11.2 environment at: venv", "resolving", None),
            ("Resolved 5 packages in 897ms", "downloading 5 packages", None),
            ("Downloading numpy (17.4MiB)", "downloading 5 packages", None),
            ("   Building psycopg2==2.9.9", "building psycopg2==2.9.9", None),
            ("Prepared 1 package in 7.98s", "installing 1 package", None),
            ("Installed 5 packages in 0.96ms", "installed 5 packages", Some(5)),
            (" + psycopg2==2.9.9", "installed 5 packages", Some(5)),
        ] {
            progress.hear(line);
            assert_eq!((progress.doing.as_str(), progress.installed), (doing, installed), "{line}");
        }
        let mut nothing = Progress::default();
        nothing.hear("Checked 1 package in 24ms");
        assert_eq!(nothing.installed, Some(0));
    }
}
