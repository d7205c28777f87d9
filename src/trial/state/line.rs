//! A line of cloudbase-init's log, as oslo.log begins it: `DATE TIME PID LEVEL MODULE [-] MESSAGE`. Lines of a traceback have no `[-]`, and
//! those that a message goes on in have nothing of this.

pub struct Line<'l> {
    pub level: &'l str,
    /// Without `cloudbaseinit.`.
    pub module: &'l str,
    pub message: &'l str,
}

impl<'l> Line<'l> {
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
