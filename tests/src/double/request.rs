//! Requests as the double understands them. Pure.
//!
//! Paths are `/api/v1/…` or `/apis/GROUP/VERSION/…`, then
//! `[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]`.

use hyper::Method;

use super::{kinds::Kind, select::Selector};

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind.
    pub kind: &'static Kind,
    /// The namespace; `None` for all of them, and for kinds that have none.
    pub namespace: Option<String>,
    /// The object.
    pub name: Option<String>,
    /// `status`, `binding` …
    pub subresource: Option<String>,
}

impl Target {
    /// Reads a path; `None` when the double serves nothing there.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (api_version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                (Some((*namespace).to_owned()), rest)
            }
            rest => (None, rest),
        };
        let kind = Kind::at(&api_version, rest.first()?)?;
        let part = |at: usize| rest.get(at).map(|text| (*text).to_owned());
        Some(Self { kind, namespace, name: part(1), subresource: part(2) })
    }
}

/// The parameters behind a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The list shall be followed.
    pub watch: bool,
    /// Changes after this version.
    pub resource_version: Option<u64>,
    /// Objects in one answer, at most.
    pub limit: Option<usize>,
    /// Where the next answer goes on.
    pub continues: Option<String>,
    /// How long a watch lasts, in seconds.
    pub timeout: Option<u64>,
    /// Whether the version is told now and then.
    pub bookmarks: bool,
    /// Which objects.
    pub selector: Selector,
}

impl Parameters {
    /// Reads a query.
    #[must_use]
    pub fn of(query: Option<&str>) -> Self {
        let mut parameters = Self::default();
        let (mut labels, mut fields) = (None, None);
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match key.as_ref() {
                "watch" => parameters.watch = value == "true",
                "resourceVersion" => parameters.resource_version = value.parse().ok(),
                "limit" => parameters.limit = value.parse().ok(),
                "continue" => parameters.continues = Some(value.into_owned()),
                "timeoutSeconds" => parameters.timeout = value.parse().ok(),
                "allowWatchBookmarks" => parameters.bookmarks = value == "true",
                "labelSelector" => labels = Some(value.into_owned()),
                "fieldSelector" => fields = Some(value.into_owned()),
                _ => {}
            }
        }
        parameters.selector = Selector::of(labels.as_deref(), fields.as_deref());
        parameters
    }
}

/// A request in Kubernetes' words, for those that count or disturb requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// `pods`, `gpujobs/status` …
    pub resource: String,
    /// The object, or nothing for lists and new objects.
    pub name: Option<String>,
    /// Who asks, by the header `User-Agent`.
    pub caller: String,
}

impl Call {
    /// What a request asks of its target.
    #[must_use]
    pub fn of(caller: &str, method: &Method, target: &Target, watch: bool) -> Self {
        let verb = match (method.as_str(), target.name.is_some()) {
            ("GET", _) if watch => "watch",
            ("GET", true) => "get",
            ("GET", false) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            _ => "delete",
        };
        let resource = match &target.subresource {
            Some(part) => format!("{}/{part}", target.kind.plural),
            None => target.kind.plural.to_owned(),
        };
        Self { verb, resource, name: target.name.clone(), caller: caller.to_owned() }
    }

    /// Whether it can change anything.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_kinds_namespaces_and_objects() {
        let read = |path: &str| {
            let target = Target::of(path)?;
            let Target { kind, namespace, name, subresource } = target;
            Some((kind.name, namespace, name, subresource))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("/apis/leasehold.dev/v1alpha1/namespaces/ml/gpujobs/train/status"),
            Some(("GpuJob", some("ml"), some("train"), some("status")))
        );
        assert_eq!(read("/api/v1/pods"), Some(("Pod", None, None, None)));
        assert_eq!(read("/api/v1/nodes/a"), Some(("Node", None, some("a"), None)));
        assert_eq!(read("/version"), None);
        assert_eq!(read("/api/v1/secrets"), None);
    }

    #[test]
    fn parameters_are_read_from_a_query() {
        let query = "watch=true&resourceVersion=17&timeoutSeconds=290&fieldSelector=a.b%3Dc";
        let parameters = Parameters::of(Some(query));
        assert!(parameters.watch && !parameters.bookmarks);
        assert_eq!((parameters.resource_version, parameters.timeout), (Some(17), Some(290)));
        assert_eq!(parameters.selector, Selector::of(None, Some("a.b=c")));
    }
}
