//! Writes the definitions and the API reference to `crds/generated`.

use std::{error::Error, fs, path::Path};

use leasehold_crds::definitions::files;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    fs::create_dir_all(&folder)?;
    for (name, content) in files()? {
        fs::write(folder.join(name), content)?;
    }
    Ok(())
}
