//! Real output of uv 0.13.9, one case for each way in which it ends; [`network`] has those that are
//! about a server.

mod network;

use super::*;
use crate::restore::check::{Files, Unreadable, gather};

struct Written<'a>(&'a [(&'a str, &'a str)]);

impl Files for Written<'_> {
    fn read(&mut self, file: &str) -> Result<String, Unreadable> {
        let found = self.0.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| (*text).to_owned()).ok_or(Unreadable::Missing)
    }

    fn exists(&self, _path: &str) -> bool {
        true
    }
}

fn explained(output: &str, files: &[(&str, &str)]) -> Finding {
    let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
    let requirements = gather(&names, &mut Written(files)).unwrap();
    explain(output, &requirements, &Servers::default(), &Variables::default())
}

/// Output, reason, and words that the evidence has.
type Case = (&'static str, Reason, &'static [&'static str]);

fn check(files: &[(&str, &str)], cases: &[Case]) {
    for (output, reason, words) in cases {
        let finding = explained(output, files);
        assert_eq!(finding.reason, *reason, "{finding:?}\n{output}");
        for word in *words {
            assert!(finding.evidence.contains(word), "{word} in {}", finding.evidence);
        }
        assert!(!finding.evidence.contains('\n'), "{}", finding.evidence);
    }
}

#[test]
fn a_resolution_that_fails_names_the_package_or_the_conflict() {
    check(
        &[("r.txt", "numpy\nno_such.package>1 # why\n")],
        &[
            (
                "Using Python 3.11.2 environment at: v1
error: No solution found when resolving dependencies
  cause: Because no-such-package was not found in the package registry and you require no-such-package>1, we can conclude that your requirements are unsatisfiable.",
                Reason::PackageNotFound,
                &["r.txt:2: `no_such.package>1`: no index has no-such-package"],
            ),
            (
                "error: No solution found when resolving dependencies
  cause: Because only a==1 is available and a==1 depends on boto, we can conclude that all versions of a depend on boto.
         And because boto was not found in the provided package locations and you require a, we can conclude that your requirements are unsatisfiable.",
                Reason::PackageNotFound,
                &["no index has boto: Because only a==1"],
            ),
            (
                "error: No solution found when resolving dependencies
  cause: Because there is no version of idna==99.0 and you require idna==99.0, we can conclude that your requirements are unsatisfiable.",
                Reason::RequirementsConflict,
                &["there is no version of idna==99.0"],
            ),
            (
                "error: No solution found when resolving dependencies
  cause: Because numba==0.58.1 depends on numpy>=1.22,<1.27 and you require numpy>=2.4.0, we can conclude that your requirements and numba==0.58.1 are incompatible.
         And because you require numba==0.58.1, we can conclude that your requirements are unsatisfiable.",
                Reason::RequirementsConflict,
                &["numpy>=1.22,<1.27", "incompatible. And because"],
            ),
            (
                "error: No solution found when resolving dependencies
  cause: Because tensorflow==1.15.0 has no wheels with a matching Python ABI tag (e.g., `cp311`) and you require tensorflow==1.15, we can conclude that your requirements are unsatisfiable.

hint: You require CPython 3.11 (`cp311`), but we only found wheels for `tensorflow` (v1.15.0) with the following Python ABI tags: `cp27m`, `cp27mu`, `cp35m`, `cp36m`, `cp37m`",
                Reason::RequirementsConflict,
                &["no wheels with a matching Python", "CPython 3.11"],
            ),
        ],
    );
}

#[test]
fn a_broken_file_is_told_with_line_and_text() {
    check(
        &[
            ("t.txt", "torch==2.6.0\nidna ==\n-i\nsix --frob\n-e git+https://host/x.git\n"),
            ("inc/sub/c.txt", "# c\nidna ==\n"),
        ],
        &[
            (
                "error: Couldn't parse requirement in `t.txt` at position 13
  cause: Unexpected end of version specifier, expected version
         idna ==
              ^^",
                Reason::RequirementsInvalid,
                &["t.txt:2: `idna ==`: Unexpected end of version specifier"],
            ),
            (
                "error: Error parsing included file in `inc/a.txt` at position 0
  cause: Error parsing included file in `inc/sub/b.txt` at position 0
  cause: Couldn't parse requirement in `inc/sub/c.txt` at position 4
  cause: Unexpected end of version specifier, expected version
         idna ==
              ^^",
                Reason::RequirementsInvalid,
                &["inc/sub/c.txt:2: `idna ==`: Unexpected end"],
            ),
            (
                "error: `--index-url` must be followed by an argument: /files/t.txt:3:1",
                Reason::RequirementsInvalid,
                &["t.txt:3: `-i`: `--index-url` must be followed by an argument"],
            ),
            (
                "error: Expected `--hash`, found `\"--frob\"`: t.txt:4:5",
                Reason::RequirementsInvalid,
                &["t.txt:4: `six --frob`"],
            ),
            (
                "error: Unsupported editable requirement in `t.txt` at line 5: `git+https://host/x.git`
  cause: Git sources cannot be editable

hint: Editable requirements must refer to a local directory",
                Reason::RequirementsInvalid,
                &["t.txt:5: `-e git+https://host/x.git`: Git sources cannot be editable"],
            ),
            (
                "error: Invalid URL in `t.txt` at position 21: http://a b
  cause: invalid international domain name",
                Reason::RequirementsInvalid,
                &["t.txt:3: `-i`: invalid international domain name"],
            ),
            (
                "error: In `--require-hashes` mode, all requirements must have a hash, but none were provided for: six==1.17.0",
                Reason::RequirementsInvalid,
                &["six==1.17.0"],
            ),
            (
                "Using Python 3.11.2 environment at: v1
error: `/work` does not appear to be a Python project, as neither `pyproject.toml` nor `setup.py` are present in the directory",
                Reason::RequirementsInvalid,
                &["does not appear to be a Python project"],
            ),
            (
                "error: Error parsing included file in `t.txt` at position 5
  cause: failed to read from file `/tmp/nothere.txt`: No such file or directory (os error 2)",
                Reason::EnvironmentFileMissing,
                &["/tmp/nothere.txt"],
            ),
            ("error: File not found: nofile.txt", Reason::EnvironmentFileMissing, &["nofile.txt"]),
            (
                "error: Distribution not found at: file:///croot/idna/work",
                Reason::RequirementsNotPortable,
                &["file:///croot/idna/work is not in the pod"],
            ),
        ],
    );
}

#[test]
fn builds_hashes_disks_and_the_unknown() {
    check(
        &[("r.txt", "six")],
        &[
            (
                "Resolved 1 package in 255ms
   Building pycocotools==2.0.0
error: Failed to build `pycocotools==2.0.0`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.get_requires_for_build_wheel` failed (exit status: 1)

         [stderr]
         Traceback (most recent call last):
           File \"<string>\", line 2, in <module>
         error: Connection refused
           exec(code, locals())  # noqa: S102
           ^^^^^^^^^^^^^~~~~^^^^
         ModuleNotFoundError: No module named 'Cython'

hint: This error likely indicates that `pycocotools@2.0.0` depends on `Cython`, but doesn't declare it as a build dependency. If `pycocotools` is a first-party package, consider adding `Cython` to its `build-system.requires`. Otherwise, either add it to your `pyproject.toml` under:

[tool.uv.extra-build-dependencies]
pycocotools = [\"Cython\"]

or `uv pip install Cython` into the environment and re-run with `--no-build-isolation`.",
                Reason::PackageBuildFailed,
                &[
                    "pycocotools==2.0.0 cannot be built: error: Connection refused | exec(code, locals())  # noqa: S102 | ModuleNotFoundError: No module named 'Cython'",
                ],
            ),
            (
                "error: Failed to download `idna==3.4`
  cause: Hash mismatch for `idna==3.4`

         Expected:
           sha256:0000

         Computed:
           sha256:90b7",
                Reason::PackageHashMismatch,
                &["idna==3.4: Expected: sha256:0000 Computed: sha256:90b7"],
            ),
            (
                "error: Failed to download `numpy==2.2.0`
  cause: Failed to extract archive: numpy-2.2.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
  cause: I/O operation failed during extraction
  cause: failed to write to file `/leasehold/environment/cache/.tmp2Sqajw/numpy/random/mtrand.so`: No space left on device (os error 28)",
                Reason::DiskFull,
                &["mtrand.so", "No space left"],
            ),
            (
                "error: Failed to initialize cache at `/leasehold/environment/cache`
  cause: failed to create directory `/leasehold/environment/cache`: Disk quota exceeded (os error 122)",
                Reason::DiskFull,
                &["Disk quota exceeded"],
            ),
            (
                "error: Failed to download and build `six @ git+https://host/x.git`
  cause: Git operation failed
  cause: process didn't exit successfully: `/usr/bin/git reset --hard` (exit status: 128)
         --- stderr
         remote: fatal: nothing
         fatal: cannot create directory at 'six': No space left on device",
                Reason::DiskFull,
                &["cannot create directory at 'six'"],
            ),
            ("one\n\ntwo\nthree\nfour\n", Reason::RestoreFailed, &["two | three | four"]),
            ("", Reason::RestoreFailed, &["without a word"]),
            (
                "warning: x\nerror: Failed to read `--find-links` directory: /nowhere
  cause: No such file or directory (os error 2)",
                Reason::RestoreFailed,
                &["/nowhere", "No such file"],
            ),
        ],
    );
}

#[test]
fn a_disk_is_not_full_because_a_package_says_so() {
    check(
        &[("r.txt", "six\n./No space left on device (os error 28)")],
        &[
            (
                "error: Failed to build `six==1.0`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)

         [stderr]
         error: No space left on device (os error 28)
         fatal: No space left on device",
                Reason::PackageBuildFailed,
                &["six==1.0 cannot be built", "No space left"],
            ),
            (
                "error: Distribution not found at: file:///x/No space left on device (os error 28)",
                Reason::RequirementsNotPortable,
                &["is not in the pod"],
            ),
            (
                "error: Failed to download and build `six @ git+https://host/x.git`
  cause: Git operation failed
  cause: process didn't exit successfully: `/usr/bin/git fetch` (exit status: 128)
         --- stderr
         remote: No space left on device
         fatal: repository 'https://host/x.git' not found",
                Reason::PackageBuildFailed,
                &["not found"],
            ),
        ],
    );
}
