//! Refusals in the API server's words. Pure.

use hyper::StatusCode;
use serde_json::{Value, json};

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: StatusCode,
    /// One word.
    pub reason: &'static str,
    /// The rest.
    pub message: String,
}

impl Refusal {
    /// There is no such object.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{what} not found"))
    }

    /// There is such an object.
    #[must_use]
    pub fn already_exists(what: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "AlreadyExists", format!("{what} already exists"))
    }

    /// The object is another one, or a newer one, than the caller thinks.
    #[must_use]
    pub fn conflict(message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message.to_owned())
    }

    /// The object cannot be stored so.
    #[must_use]
    pub fn invalid(message: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message.to_owned())
    }

    /// The request makes no sense.
    #[must_use]
    pub fn bad_request(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message.to_owned())
    }

    /// The history that was asked for is gone.
    #[must_use]
    pub fn expired() -> Self {
        Self::new(StatusCode::GONE, "Expired", "too old resource version".to_owned())
    }

    /// The server is not able to answer.
    #[must_use]
    pub fn internal() -> Self {
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(code, "InternalError", "the server is in trouble".to_owned())
    }

    /// The server has too much to do.
    #[must_use]
    pub fn too_many() -> Self {
        let code = StatusCode::TOO_MANY_REQUESTS;
        Self::new(code, "TooManyRequests", "please try again later".to_owned())
    }

    /// An admission policy does not want it.
    #[must_use]
    pub fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message.to_owned())
    }

    fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self { code, reason, message }
    }

    /// The body of the answer.
    #[must_use]
    pub fn status(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        })
    }
}
