//! The binary `leasehold-agent`; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_agent::main()
}
