//! Variables about restoring a Python environment. Parsing can fail.
//!
//! | variable | for | meaning |
//! |---|---|---|
//! | `LEASEHOLD_BRING` | install | `uv` copies uv beside the agent |
//! | `LEASEHOLD_REQUIREMENTS` | prepare | requirements files in order, one name a line |
//! | `LEASEHOLD_FILE_0`, `_1`, … | prepare | files that the job brings along: a name, a line feed, the content |
//! | `LEASEHOLD_FILES_DIR` | prepare | directory of the files; the container's working directory when missing |
//! | `LEASEHOLD_CONFIG_MAP` | prepare | the `ConfigMap` whose keys are there, if it is one |
//! | `LEASEHOLD_HELD_SECONDS` | prepare | as in `run` |
//! | `LEASEHOLD_INDEX` | prepare | the installation's index, when it has one; says only whose fault a failure is |
//! | `LEASEHOLD_EXTRA_INDEXES` | prepare | its others, separated by blanks; likewise |
//! | `UV_…` | prepare | uv's own: indexes and their credentials, passed on |
//! | those of [`leasehold_core::restore::variables`] | prepare | the job's or the image's; say only whose fault a failure is |
//!
//! Files that the job brings along are written into a directory of their own, which then counts as
//! `LEASEHOLD_FILES_DIR`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use leasehold_core::restore::{
    Servers, Variables,
    mask::{Mask, secrets_of},
};

use super::{
    BadEnvironment, CA_BUNDLE, ENVIRONMENT_DIR, HELD_SECONDS, LEASE_DIR, Read, TrustSettings,
    optional, read, required, trust_settings,
};

const BRING: &str = "LEASEHOLD_BRING";
const REQUIREMENTS: &str = "LEASEHOLD_REQUIREMENTS";
const FILES_DIR: &str = "LEASEHOLD_FILES_DIR";
const CONFIG_MAP: &str = "LEASEHOLD_CONFIG_MAP";
const FILE: &str = "LEASEHOLD_FILE_";

const INDEX: &str = "LEASEHOLD_INDEX";
const EXTRA_INDEXES: &str = "LEASEHOLD_EXTRA_INDEXES";

/// Variables with addresses that uv reads: of indexes, and of files that can lie on a server. What
/// the installation does not name is the image's or the job's.
const USED_ADDRESSES: [&str; 9] = [
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_CONSTRAINT",
    "UV_BUILD_CONSTRAINT",
    "UV_OVERRIDE",
    "UV_EXCLUDE",
];

/// The variable that leads uv to [`TORCH`].
const TORCH_BACKEND: &str = "UV_TORCH_BACKEND";

/// The server that uv knows for builds of PyTorch.
const TORCH: &str = "https://download.pytorch.org";

/// Settings of `install`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallSettings {
    /// What is brought beside the agent.
    pub bring: Option<Bring>,
    /// Certificates of this installation, PEM.
    pub certificates: Option<String>,
}

/// What can be brought beside the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bring {
    /// The static uv.
    Uv,
}

/// Settings of `prepare`.
#[derive(Clone, Debug)]
pub struct PrepareSettings {
    /// Where the environment is restored.
    pub directory: PathBuf,
    /// Requirements files in order.
    pub requirements: Vec<String>,
    /// Files that the job brings along.
    pub inline: Vec<InlineFile>,
    /// Where the files are; the working directory when missing.
    pub files_directory: Option<PathBuf>,
    /// The `ConfigMap` whose keys are the files of that directory.
    pub config_map: Option<String>,
    /// Which servers uv trusts.
    pub trust: TrustSettings,
    /// Longest time from taking the card to the end.
    pub held: Option<Duration>,
    /// Where the operator's orders appear.
    pub lease_directory: Option<PathBuf>,
    /// Where Python is looked for.
    pub path: OsString,
    /// Knows the credentials of the indexes.
    pub mask: Mask,
    /// Knows whose the indexes are.
    pub servers: Servers,
    /// Variables of the job or its image that can keep uv from an index.
    pub variables: Variables,
}

/// A file that the job brings along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineFile {
    /// A plain name.
    pub name: String,
    /// Everything in it.
    pub content: String,
}

/// The settings of `install`.
pub fn for_install() -> Result<InstallSettings, BadEnvironment> {
    install_settings(&read)
}

/// The settings of `prepare`.
pub fn for_prepare() -> Result<PrepareSettings, BadEnvironment> {
    prepare_settings(&read, credentials())
}

/// Knows the credentials of the indexes, also where the settings cannot be used.
#[must_use]
pub fn mask() -> Mask {
    mask_of(&read, credentials())
}

fn install_settings(read: Read<'_>) -> Result<InstallSettings, BadEnvironment> {
    let bring = match read(BRING) {
        None => None,
        Some(value) if value == "uv" => Some(Bring::Uv),
        Some(value) => return Err(BadEnvironment::Unusable { name: BRING, value, wanted: "uv" }),
    };
    Ok(InstallSettings {
        bring,
        certificates: optional(read, CA_BUNDLE, "certificates in PEM form")?,
    })
}

fn prepare_settings(
    read: Read<'_>,
    credentials: Vec<String>,
) -> Result<PrepareSettings, BadEnvironment> {
    let requirements: String = required(read, REQUIREMENTS, "names of files, one a line")?;
    Ok(PrepareSettings {
        directory: PathBuf::from(required::<String>(read, ENVIRONMENT_DIR, "a directory")?),
        requirements: requirements
            .lines()
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        inline: inline_files(read)?,
        files_directory: read(FILES_DIR).map(PathBuf::from),
        config_map: text(read, CONFIG_MAP),
        trust: trust_settings(read)?,
        held: optional(read, HELD_SECONDS, "a number of seconds")?.map(Duration::from_secs),
        lease_directory: read(LEASE_DIR).map(PathBuf::from),
        path: read("PATH").unwrap_or_default(),
        mask: mask_of(read, credentials),
        servers: Servers::of(
            text(read, INDEX).as_deref(),
            text(read, EXTRA_INDEXES).as_deref(),
            &used_addresses(read),
        ),
        variables: Variables::of(|name| Some(read(name)?.to_string_lossy().into_owned())),
    })
}

fn used_addresses(read: Read<'_>) -> Vec<String> {
    let torch = read(TORCH_BACKEND).map(|_| TORCH.to_owned());
    USED_ADDRESSES.into_iter().filter_map(|name| text(read, name)).chain(torch).collect()
}

fn mask_of(read: Read<'_>, credentials: Vec<String>) -> Mask {
    let names = USED_ADDRESSES.into_iter().chain(Variables::of_proxies());
    let addresses = names.filter_map(|name| text(read, name));
    let secrets = addresses
        .flat_map(|value| value.split_whitespace().flat_map(secrets_of).collect::<Vec<_>>())
        .chain(credentials);
    Mask::knowing(secrets)
}

fn text(read: Read<'_>, name: &str) -> Option<String> {
    read(name)?.into_string().ok()
}

fn inline_files(read: Read<'_>) -> Result<Vec<InlineFile>, BadEnvironment> {
    const WANTED: &str = "a plain file name, a line feed and the file's content";
    let values = (0_u32..).map_while(|number| read(&format!("{FILE}{number}")));
    values
        .map(|value| {
            let unusable =
                |value: OsString| BadEnvironment::Unusable { name: FILE, value, wanted: WANTED };
            let text = value.into_string().map_err(unusable)?;
            let (name, content) = text.split_once('\n').unwrap_or((&text, ""));
            let is_plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
            if is_plain {
                Ok(InlineFile { name: name.to_owned(), content: content.to_owned() })
            } else {
                Err(unusable(name.into()))
            }
        })
        .collect()
}

/// Passwords of named indexes, for example `UV_INDEX_TEAM_PASSWORD`.
fn credentials() -> Vec<String> {
    let is_password = |name: &str| name.starts_with("UV_INDEX_") && name.ends_with("_PASSWORD");
    std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(is_password))
        .filter_map(|(_, value)| value.into_string().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use leasehold_core::restore::Requirements;

    use super::{super::tests::settings, *};

    const LEAST: [(&str, &str); 2] =
        [(REQUIREMENTS, "a.txt\n\nb.txt\n"), (ENVIRONMENT_DIR, "/env")];

    #[test]
    fn files_come_inline_or_from_a_directory() {
        let pairs =
            [&LEAST[..], &[("LEASEHOLD_FILE_0", "a.txt\nidna\n"), ("LEASEHOLD_FILE_1", "b.txt")]];
        let read = prepare_settings(&settings(&pairs.concat()), Vec::new()).unwrap();
        assert_eq!(read.requirements, ["a.txt", "b.txt"]);
        let file = |name: &str, content: &str| InlineFile {
            name: name.to_owned(),
            content: content.to_owned(),
        };
        assert_eq!(read.inline, [file("a.txt", "idna\n"), file("b.txt", "")]);
        for name in ["../a.txt\nidna", "/etc/passwd\nidna", "..\n", "\nidna"] {
            let pairs = [&LEAST[..], &[("LEASEHOLD_FILE_0", name)]].concat();
            let error = prepare_settings(&settings(&pairs), Vec::new()).unwrap_err().to_string();
            assert!(error.contains(FILE) && error.contains("plain file name"), "{error}");
        }
    }

    #[test]
    fn what_is_needed_is_named() {
        for (pairs, name) in [(&LEAST[1..], REQUIREMENTS), (&LEAST[..1], ENVIRONMENT_DIR)] {
            let error = prepare_settings(&settings(pairs), Vec::new()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        let error = install_settings(&settings(&[(BRING, "pip")])).unwrap_err().to_string();
        assert!(error.contains("pip") && error.contains("uv"), "{error}");
    }

    #[test]
    fn credentials_of_indexes_are_known_to_the_mask() {
        let indexes = ("UV_INDEX", "https://a:s3cret@host/simple team=https://t0ken@host/simple");
        let pairs = [&LEAST[..], &[indexes]].concat();
        let read = prepare_settings(&settings(&pairs), vec!["passw0rd".to_owned()]).unwrap();
        assert_eq!(read.mask.apply("s3cret t0ken passw0rd a"), "*** *** *** a");
        for name in Variables::of_proxies() {
            let pairs = [&LEAST[..], &[(name, "user:s3cret@proxy:3128")]].concat();
            let read = prepare_settings(&settings(&pairs), Vec::new()).unwrap();
            assert_eq!(read.mask.apply("s3cret"), "***", "{name}");
        }
    }

    #[test]
    fn the_server_of_pytorch_is_the_jobs_when_it_asks_for_a_backend() {
        let words = "Failed to fetch: https://download.pytorch.org/whl/cu126/torch/";
        let is_own = |pairs: &[(&str, &str)]| {
            let pairs = [&LEAST[..], pairs].concat();
            let servers = prepare_settings(&settings(&pairs), Vec::new()).unwrap().servers;
            servers.is_own(words, &Requirements::default())
        };
        let [asked, named] = [(TORCH_BACKEND, "cu126"), (EXTRA_INDEXES, TORCH)];
        assert_eq!((is_own(&[]), is_own(&[asked]), is_own(&[asked, named])), (false, true, false));
    }

    #[test]
    fn an_index_is_the_installations_where_the_operator_named_it() {
        let nothing = Requirements::default();
        let installation =
            [(INDEX, "https://mirror.example/simple"), (EXTRA_INDEXES, "https://extra.example/a")];
        for name in USED_ADDRESSES {
            for (host, own) in
                [("job.example", true), ("mirror.example", false), ("extra.example", false)]
            {
                let used = format!("https://{host}/simple");
                let pairs = [&LEAST[..], &installation, &[(name, &used)]].concat();
                let servers = prepare_settings(&settings(&pairs), Vec::new()).unwrap().servers;
                let words = format!("Failed to fetch: https://{host}/simple/six/");
                assert_eq!(servers.is_own(&words, &nothing), own, "{name} {host}");
            }
        }
    }
}
