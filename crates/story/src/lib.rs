//! What is said, asked and answered in a session.

mod agent;
mod block;
mod event;
mod fact;
mod turns;

pub use agent::{Agent, Autonomy, Drive};
pub use block::Block;
pub use event::{
    Answer, Ask, Asked, Can, EndReason, ErrorKind, Event, Json, PlanEntry, PlanStatus, Question, QuestionOption,
    ToolKind, Usage,
};
pub use fact::{Alias, Created, ENGINE, Fact, Intent, Lifetime, Said, Settings, payload, said};
pub use turns::Turns;
