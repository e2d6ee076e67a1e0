//! Which ways to tell somebody work here, as far as that is known without sending anything.

use ostler_api::{Empty, NoticeWay, methods};

use super::Check;
use crate::daemon::desktop;
use crate::verbs::Context;

pub(super) fn checks(context: &Context) -> Vec<Check> {
    let reached = context.reach_one().ok();
    let ways = reached.and_then(|mut reached| reached.client.call::<methods::NoticeWays>(&Empty {}).ok());
    let mut checks: Vec<Check> = ways.map(|found| found.ways.iter().map(way).collect()).unwrap_or_default();
    if !checks.iter().any(|check| check.name == "notify desktop") && desktop().is_none() {
        checks.push(Check::absent("notify desktop", "no desktop here, or no notify-send"));
    }
    checks
}

fn way(way: &NoticeWay) -> Check {
    let name = format!("notify {}", way.way);
    let to = crate::output::visible(way.to.as_deref().unwrap_or_default());
    match &way.trouble {
        Some(why) => Check::weak(name, format!("{}; try it: ostler notify test", crate::output::visible(why))),
        None => Check::good(name, to),
    }
}
