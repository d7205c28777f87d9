//! A line of cloudbase-init's log in oslo.log's format: `DATE TIME PID LEVEL MODULE [-] MESSAGE`.
//! Lines of a traceback have no `[-]`, and continuation lines have none of these fields.

pub struct AgentLogLine<'l> {
    pub level: &'l str,
    /// The module without `cloudbaseinit.`.
    pub module: &'l str,
    pub message: &'l str,
}

impl<'l> AgentLogLine<'l> {
    pub fn parse(line: &'l str) -> Option<Self> {
        let (head, message) = line.split_once(" [-] ")?;
        let mut words = head.split_whitespace().skip(3);
        Some(Self {
            level: words.next()?,
            module: words.next()?.trim_start_matches("cloudbaseinit."),
            message: message.trim_end(),
        })
    }
}
