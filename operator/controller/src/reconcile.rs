//! One pass over one holder, as a sentence: observe and desire, decide, record, act, wake.

use std::sync::Arc;

use leasehold_core::{decide::decide, observed::Holder};

use crate::{
    act::act,
    context::Context,
    error::Error,
    observe::observe,
    queue::{Bell, Next},
    record::{record, tell},
    wake::wake,
};

/// Looks at a holder and moves it one step.
///
/// # Guarantees
/// The status is written before anything irreversible; every prefix of the writes followed by a
/// fresh pass leads to the same end.
///
/// # Errors
/// A write or read that failed; the caller looks again later.
pub async fn reconcile(
    context: &Arc<Context>,
    bell: &Bell,
    holder: &Holder,
) -> Result<Next, Error> {
    let seen = observe(context, holder).await?;
    let now = context.clock.now();
    let plan = context.supply.plan(holder, seen.created(), |market| {
        decide(
            holder,
            seen.desired.as_ref(),
            &seen.with(market, context.settings.node_lost_after),
            now,
        )
    });
    let done = match record(context, &seen, &plan).await {
        Ok(()) => {
            let done = act(context, bell, holder, &seen, &plan.commands).await;
            // The next pass finds the new status and tells nothing: what is recorded is told now.
            tell(context, &seen, &plan).await;
            done
        }
        // A status that cannot be written stops no stop.
        Err(error) => act(context, bell, holder, &seen, &plan.enforcing()).await.and(Err(error)),
    };
    if done.is_err() && context.supply.give_back(holder, &plan) {
        bell.ring_all(context.supply.next_in_line());
    }
    done.map(|()| wake(&plan, now))
}
