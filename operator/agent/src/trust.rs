//! Which servers are trusted in the user's image: what the image trusts, and the certificates of
//! this installation. Does I/O.
//!
//! `install` leaves the installation's certificates beside the agent. `prepare` and `run` put them
//! together with the image's own, because programs take one file and then trust nothing else. They
//! write elsewhere, because to them the agent's directory is read-only.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{environment::TrustSettings, failure::Failure, install::place, notice};

/// The installation's certificates, beside the agent.
pub const INSTALLATION: &str = "installation-ca.crt";

/// The image's and the installation's certificates.
const TOGETHER: &str = "leasehold-ca.crt";

/// Where distributions keep the certificates that they trust.
const USUAL_PLACES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Variables that programs and libraries read, each the name of a file: OpenSSL and rustls, Python's
/// requests, curl, pip, git, AWS, gRPC, Node.
pub const VARIABLES: [&str; 8] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NODE_EXTRA_CA_CERTS",
];

/// Writes the file with all certificates into the first of `places` that takes it; `None` when this
/// installation has none of its own.
pub fn bundle(
    settings: &TrustSettings,
    own_directory: &Path,
    places: &[&Path],
) -> Result<Option<PathBuf>, Failure> {
    let Some(installation) = installation(settings, own_directory)? else {
        return Ok(None);
    };
    let mut together = image(settings)?;
    if !together.is_empty() && !together.ends_with(b"\n") {
        together.push(b'\n');
    }
    together.extend(installation);
    let mut last = None;
    for directory in places {
        match place(directory, TOGETHER, &mut together.as_slice(), 0o644) {
            Ok(()) => return Ok(Some(directory.join(TOGETHER))),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(None), Err)
}

fn installation(
    settings: &TrustSettings,
    own_directory: &Path,
) -> Result<Option<Vec<u8>>, Failure> {
    let path = own_directory.join(INSTALLATION);
    match fs::read(&path) {
        Ok(certificates) => Ok(Some(certificates)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(settings.installation.clone().map(String::into_bytes))
        }
        Err(source) => Err(Failure::Read { path, source }),
    }
}

/// What the image trusts; nothing, said aloud, in an image without certificates.
fn image(settings: &TrustSettings) -> Result<Vec<u8>, Failure> {
    for path in settings.image.iter().cloned().chain(USUAL_PLACES.map(PathBuf::from)) {
        let mut certificates = Vec::new();
        match fs::File::open(&path).and_then(|mut file| file.read_to_end(&mut certificates)) {
            Ok(_) => return Ok(certificates),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Failure::Read { path, source }),
        }
    }
    notice::say("warning: the image has no certificates; only this installation's are trusted");
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_certificates_come_before_the_installations() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path();
        let image = own.join("image.crt");
        fs::write(&image, "IMAGE").unwrap();
        let nothing = TrustSettings { installation: None, image: Some(image.clone()) };
        assert_eq!(bundle(&nothing, own, &[own]).unwrap(), None);
        let both = TrustSettings { installation: Some("VARIABLE\n".to_owned()), ..nothing };
        let file = bundle(&both, own, &[Path::new("/proc/nowhere"), own]).unwrap().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "IMAGE\nVARIABLE\n");
        fs::write(own.join(INSTALLATION), "INSTALLED\n").unwrap();
        bundle(&both, own, &[own]).unwrap().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "IMAGE\nINSTALLED\n");
        assert!(bundle(&both, own, &[Path::new("/proc/nowhere")]).is_err());
    }
}
