//! Schema pieces that several kinds share, and the rules in CEL that an API server checks. Pure.
//!
//! Each rule has the same words here and in [`crate::desire()`]; they stand in [`says`]. The shapes
//! of lists are in [`shapes`]. Field comments come from the wire types.

pub(crate) mod shapes;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Highest value of `spec.rerun`: nine digits leave names of attempts short enough for labels.
pub const HIGHEST_RERUN: i64 = 999_999_999;
/// Most characters of `spec.script`.
pub const LONGEST_SCRIPT: usize = 65_536;
/// Most characters of one argument.
pub const LONGEST_ARGUMENT: usize = 65_536;
/// Most items of `spec.command`.
pub const MOST_COMMAND_ITEMS: usize = 64;
/// Most items of `spec.args`.
pub const MOST_ARGS: usize = 256;
/// Most characters of `spec.image`.
pub const LONGEST_IMAGE: usize = 512;
/// Most items of `spec.env`.
pub const MOST_VARIABLES: usize = 256;
/// Most characters of an environment variable's name.
pub const LONGEST_VARIABLE_NAME: usize = 256;
/// Most characters of an environment variable's value.
pub const LONGEST_VARIABLE_VALUE: usize = 32_768;
/// Most characters of `spec.workingDir`.
pub const LONGEST_PATH: usize = 1_024;
/// Most items of `spec.imagePullSecrets`.
pub const MOST_PULL_SECRETS: usize = 16;
/// Most files of `spec.environment`.
pub const MOST_FILES: usize = 8;
/// Most characters of all files of `spec.environment.inline` together.
pub const LONGEST_FILE: usize = 65_536;
/// Most items of `spec.gpu.cards`.
pub const MOST_CARD_NAMES: usize = 8;
/// Most characters of a card's name.
pub const LONGEST_CARD_NAME: usize = 64;
/// Most characters of a quantity, an amount or a duration.
pub const LONGEST_SCALAR: usize = 32;
/// Most characters of a duration.
pub const LONGEST_DURATION: usize = 16;
/// Most characters of a message or an evidence in a status.
pub const LONGEST_MESSAGE: usize = 4_096;

/// What a refusal says; the same words at `kubectl apply` and in `Accepted=False`.
pub mod says {
    /// `metadata.name`.
    pub const NAME: &str = "metadata.name has more than 40 characters: leases and pods are named after it; choose a shorter name";
    /// `spec.script` and `spec.command`.
    pub const ONE_PROGRAM: &str = "give exactly one of script (text for the image's shell) and command (a program and its arguments)";
    /// `spec.args`.
    pub const ARGS: &str =
        "args belong to command: add command, or write the arguments into script";
    /// `spec.gpu.cards[]`.
    pub const CARD_NAME: &str = "a card is named by letters, digits, blanks and - _ . and starts with a letter or digit, for example 4090, rtx4090, a100-80g";
    /// `spec.maxRuntime`.
    pub const MAX_RUNTIME: &str = "maxRuntime is hours, minutes and seconds in that order, above 0s and at most 720h, for example 4h, 1h30m or 90s";
    /// `spec.gracePeriod`.
    pub const GRACE_PERIOD: &str = "gracePeriod is hours, minutes and seconds in that order, from 0s to 1h, for example 30s or 2m";
    /// `spec.keepLogs`.
    pub const KEEP_LOGS: &str = "keepLogs is hours, minutes and seconds in that order, from 0s to 168h, for example 24h or 30m";
    /// `spec.budget.limit`.
    pub const LIMIT: &str = "limit is an amount above 0 and below 1000000000 with at most 6 decimals, without sign, exponent or grouping, for example \"25.00\" or 100; or the word Unlimited";
    /// Prices.
    pub const PRICE: &str = "perHour is an amount below 1000000000 with at most 6 decimals, without sign, exponent or grouping, for example \"2.10\" or 2";
    /// Currencies.
    pub const CURRENCY: &str =
        "currency is an ISO 4217 code of three capital letters, for example CNY or USD";
    /// `spec.env[].name`, its characters.
    pub const VARIABLE_NAME: &str = "an environment variable's name has letters, digits and - _ . and does not start with a digit";
    /// `spec.env[].name`, set by the device plugin.
    pub const VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES is set by the device plugin to the leased cards: remove it; cards in the pod are numbered from 0";
    /// `spec.env[].name`, set by leasehold.
    pub const RESERVED_VARIABLE: &str =
        "names that begin with LEASEHOLD_ are set by leasehold: choose another name";
    /// `spec.env[]`.
    pub const ONE_VALUE: &str = "give value or valueFrom, not both";
    /// `spec.workingDir`.
    pub const WORKING_DIR: &str = "workingDir is an absolute path, for example /workspace";
    /// `spec.environment`.
    pub const ONE_SOURCE: &str = "give inline or from, not both: files come from one place";
    /// `spec.environment.files[]`.
    pub const FILE_PATH: &str = "a file is named by letters, digits and . _ + / - and does not climb with ..; for example requirements.txt";
    /// `spec.environment.files[]`, its format.
    pub const FILE_FORMAT: &str = "only files in pip's requirements format can be restored, for example requirements.txt: write the packages into one";
    /// `spec.environment.inline`, its keys.
    pub const FILE_NAME: &str = "the key of a file is a plain name of letters, digits and . _ - that starts with a letter, a digit or _, for example requirements.txt";
    /// `spec.environment.inline`, its size.
    pub const INLINE_SIZE: &str = "all files of inline together have at most 65536 characters: put longer ones into a ConfigMap and name it in from";
    /// `spec.environment.files` and `inline`.
    pub const NOT_INLINE: &str =
        "files names a file that is not in inline (without files it is requirements.txt)";
    /// Identity fields of a run that has begun; the field's name stands before it.
    pub const IDENTITY: &str = "says what is run, and this run has begun: change spec.rerun together with it, so that it becomes a new run";
    /// `spec.image`.
    pub const IMAGE: &str = "image is a reference without blanks, for example python:3.11-slim";
    /// CPU.
    pub const CPU: &str =
        "cpu is a number of cores above 0 and at most 1024, for example 8, \"0.5\" or 500m";
    /// Memory.
    pub const MEMORY: &str = "memory is at least 64Mi and at most 64Ti, a number with one of the units Ki Mi Gi Ti k M G T and no blank, for example 32Gi, 1.5Gi or 16G";
    /// Memory with the unit m.
    pub const MILLIBYTES: &str =
        "the unit m means thousandths of a byte: write Mi for mebibytes, for example 512Mi";
    /// Memory of a card.
    pub const CARD_MEMORY: &str =
        "memory is the nominal memory in whole gibibytes, for example 24Gi";
    /// `GpuCard` names.
    pub const CARD_ID: &str =
        "metadata.name has more than 63 characters: it is the card's id; choose a shorter name";
    /// `GpuLease.spec`.
    pub const FIXED_TERMS: &str = "the terms of a lease never change";
    /// `GpuRequest.spec`.
    pub const FIXED_REQUEST: &str =
        "a request is acted on once and does not change: make another one";
    /// `GpuLease.status`.
    pub const FINAL: &str = "a closed or void lease never changes";
    /// `GpuLease.status.state`.
    pub const NO_WAY_BACK: &str = "a lease that held cards can only be closed";
}

const DURATION: &str = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$";
const MEMORY: &str = "^[0-9]{1,15}([.][0-9]{1,9})?(Ki|Mi|Gi|Ti|k|M|G|T)?$";
const CPU: &str = "^([0-9]{1,15}([.][0-9]{1,9})?|[0-9]{1,15}m)$";
const AMOUNT: &str = "^[0-9]{1,9}([.][0-9]{1,6})?$";

/// The pattern of a card's name as typed.
pub(crate) const CARD_NAME: &str = "^[A-Za-z0-9][A-Za-z0-9 ._-]*$";

/// A rule for `x-kubernetes-validations`.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A rule whose refusal points at a field below it.
pub(crate) fn rule_at(field: &str, rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message, "fieldPath": field})
}

fn duration(least: &str, most: &str, says: &str) -> Schema {
    let bounds = format!(
        "self.matches('{DURATION}') && duration(self) {least} && duration(self) <= duration('{most}')"
    );
    json_schema!({
        "type": "string",
        "minLength": 2,
        "maxLength": LONGEST_DURATION,
        "x-kubernetes-validations": [rule(&bounds, says)],
    })
}

pub(crate) fn max_runtime(_: &mut SchemaGenerator) -> Schema {
    duration("> duration('0s')", "720h", says::MAX_RUNTIME)
}

pub(crate) fn grace_period(_: &mut SchemaGenerator) -> Schema {
    duration(">= duration('0s')", "1h", says::GRACE_PERIOD)
}

pub(crate) fn keep_logs(_: &mut SchemaGenerator) -> Schema {
    duration(">= duration('0s')", "168h", says::KEEP_LOGS)
}

/// A whole number or a text with the given rules, which read both as text.
fn int_or_string(rules: &[Value]) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": LONGEST_SCALAR,
        "x-kubernetes-validations": rules,
    })
}

pub(crate) fn limit(_: &mut SchemaGenerator) -> Schema {
    let amount = format!(
        "string(self) == 'Unlimited' || (string(self).matches('{AMOUNT}') && string(self).matches('[1-9]'))"
    );
    int_or_string(&[rule(&amount, says::LIMIT)])
}

pub(crate) fn price(_: &mut SchemaGenerator) -> Schema {
    let amount = format!("string(self).matches('{AMOUNT}')");
    int_or_string(&[rule(&amount, says::PRICE)])
}

pub(crate) fn cpu(_: &mut SchemaGenerator) -> Schema {
    let cores = format!(
        "string(self).matches('{CPU}') \
         && quantity(string(self)).isGreaterThan(quantity('0')) \
         && !quantity(string(self)).isGreaterThan(quantity('1024'))"
    );
    int_or_string(&[rule(&cores, says::CPU)])
}

pub(crate) fn memory(_: &mut SchemaGenerator) -> Schema {
    let bytes = format!(
        "string(self).endsWith('m') || (string(self).matches('{MEMORY}') \
         && !quantity(string(self)).isLessThan(quantity('64Mi')) \
         && !quantity(string(self)).isGreaterThan(quantity('64Ti')))"
    );
    let suggestion = json!({
        "rule": "!string(self).endsWith('m')",
        "message": says::MILLIBYTES,
        "messageExpression": format!(
            "'{}; did you mean ' + string(self).replace('m', 'Mi') + '?'",
            says::MILLIBYTES
        ),
    });
    int_or_string(&[rule(&bytes, says::MEMORY), suggestion])
}

/// An ISO 4217 code.
pub(crate) fn currency(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 16,
        "x-kubernetes-validations": [rule("self.matches('^[A-Z]{3}$')", says::CURRENCY)],
    })
}

pub(crate) fn script(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": LONGEST_SCRIPT})
}

pub(crate) fn image(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": LONGEST_IMAGE,
        "x-kubernetes-validations": [rule("!self.matches('[[:space:]]')", says::IMAGE)],
    })
}

pub(crate) fn working_dir(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": LONGEST_PATH,
        "x-kubernetes-validations": [rule("self.startsWith('/')", says::WORKING_DIR)],
    })
}

pub(crate) fn rerun(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0, "maximum": HIGHEST_RERUN})
}

pub(crate) fn card_count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": leasehold_core::desired::defaults::MOST_CARDS})
}

pub(crate) fn state(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Running", "Stopped"]})
}

pub(crate) fn pull_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Always", "IfNotPresent", "Never"]})
}

pub(crate) fn card_memory(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": LONGEST_SCALAR,
        "x-kubernetes-validations": [rule("self.matches('^[1-9][0-9]{0,3}Gi$')", says::CARD_MEMORY)],
    })
}

// What only leasehold writes.

/// A number that leasehold counts.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0})
}

/// A generation; -1 before the first pass.
pub(crate) fn generation(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": -1})
}

/// An exit code.
pub(crate) fn exit_code(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer"})
}

/// A name of an object or a card.
pub(crate) fn name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 253})
}

/// An amount as leasehold prints it.
pub(crate) fn amount(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": LONGEST_SCALAR})
}

/// A duration as leasehold prints it.
pub(crate) fn span(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": LONGEST_SCALAR})
}

/// An instant in RFC 3339.
pub(crate) fn instant(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "maxLength": 64})
}

/// The name of an object that a specification refers to.
pub(crate) fn object_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 253})
}

/// A hash of a specification.
pub(crate) fn hash(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 80})
}

/// A reason: one word.
pub(crate) fn reason(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 64, "pattern": "^[A-Z][A-Za-z0-9]*$"})
}

/// A sentence for people.
pub(crate) fn message(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": LONGEST_MESSAGE})
}

/// Who paid.
pub(crate) fn payer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["User", "Infrastructure"]})
}
