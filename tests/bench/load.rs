//! Makes objects, many at a time.

use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
};
use tokio::time::Instant;

use crate::Failure;

/// Requests under way at once: enough that the API server, not the answer's way, is the limit.
pub(crate) const AT_ONCE: usize = 16;

/// Creates all of them; when the first was begun.
pub(crate) async fn create(
    api: &Api<DynamicObject>,
    objects: &[DynamicObject],
) -> Result<Instant, Failure> {
    let begun = Instant::now();
    let params = PostParams::default();
    stream::iter(objects)
        .map(|object| api.create(&params, object))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    Ok(begun)
}
