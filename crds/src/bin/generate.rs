//! Writes the definitions, the API reference and the schema of the settings.

use std::{error::Error, fs, path::Path};

use leasehold_crds::definitions::files;

fn main() -> Result<(), Box<dyn Error>> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (path, content) in files()? {
        let file = project.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&project))?;
        fs::write(file, content)?;
    }
    Ok(())
}
