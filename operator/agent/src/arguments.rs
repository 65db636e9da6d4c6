//! The command line of the agent. Pure; clap parses it.

use std::{ffi::OsString, path::PathBuf};

/// Where container toolkits put the driver's tools: the device plugin of GKE, WSL, NVIDIA's own. The
/// last one is the place where an image can have one too, over which NVIDIA's own is mounted.
const TOOLKIT_PLACES: [&str; 3] = ["/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/usr/bin"];

/// In-pod agent of leasehold: checks the cards, runs the program, ends it on time.
#[derive(Debug, clap::Parser)]
#[command(name = "leasehold-agent", version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub subcommand: Subcommand,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Copy the agent into a directory and note there since when the card is held.
    ///
    /// `LEASEHOLD_BRING=uv` copies uv beside it, `LEASEHOLD_CA_BUNDLE` adds the installation's
    /// certificates.
    Install {
        /// A directory that the pod's containers share.
        directory: PathBuf,
    },
    /// Check that the container's cards are the cards of the lease.
    Preflight {
        /// Where device files are.
        #[arg(long, value_name = "DIR", default_value = "/dev", hide = true)]
        devices: PathBuf,
        /// Where container toolkits put nvidia-smi; looked at before PATH.
        #[arg(long, value_name = "DIR", default_values = TOOLKIT_PLACES, hide = true)]
        toolkit: Vec<PathBuf>,
        /// How long nvidia-smi may take; a driver that wakes many sleeping cards needs ten seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 20)]
        patience: u64,
    },
    /// Restore the Python environment of a job from its requirements files, with the image's Python.
    ///
    /// What to restore and where is in `LEASEHOLD_REQUIREMENTS`, `LEASEHOLD_FILE_0` and following or
    /// `LEASEHOLD_FILES_DIR`, and `LEASEHOLD_ENVIRONMENT_DIR`; indexes are in uv's own `UV_` variables.
    /// `run` finds the environment through `LEASEHOLD_ENVIRONMENT_DIR`.
    Prepare,
    /// Run a program, and end it when its time or money is used up or a stop is ordered.
    Run(Wish),
    /// Print the version.
    Version,
}

/// The program to run.
#[derive(Debug, clap::Args)]
pub struct Wish {
    /// A script: run by the interpreter in its #! line, else by /bin/sh -e.
    #[arg(long, value_name = "TEXT")]
    pub script: Option<String>,
    /// Where the program starts; the container's working directory when missing.
    #[arg(long, value_name = "DIR")]
    pub working_dir: Option<PathBuf>,
    /// The command and its arguments; with --script, the script's arguments.
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required_unless_present = "script")]
    pub command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn preflight_looks_where_toolkits_put_the_drivers_tools() {
        let arguments = Arguments::try_parse_from(["leasehold-agent", "preflight"]).unwrap();
        let Subcommand::Preflight { toolkit, .. } = arguments.subcommand else {
            unreachable!("{arguments:?}")
        };
        assert_eq!(toolkit, TOOLKIT_PLACES.map(PathBuf::from));
    }
}
