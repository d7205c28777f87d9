//! cmd.exe's grammar: from a line (percent signs already expanded) to a tree of commands.
//!
//! Quotes hide every special character, a caret hides the next one, parentheses may span lines. What cmd calls a
//! syntax error is one here ("X was unexpected at this time.").

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Empty,
    /// A line that began with `@`.
    Quiet(Box<Node>),
    Seq(Vec<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Pipe(Box<Node>, Box<Node>),
    Block(Box<Node>, Vec<Redirect>),
    If {
        test: Test,
        not: bool,
        fold: bool,
        then: Box<Node>,
        other: Option<Box<Node>>,
    },
    For {
        kind: ForKind,
        var: char,
        set: String,
        body: Box<Node>,
    },
    Simple {
        text: String,
        redirects: Vec<Redirect>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    Errorlevel(String),
    Exist(String),
    Defined(String),
    Equal(String, String),
    Compare(String, String, String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForKind {
    Files,
    Directories,
    /// `/r`, with the root that was given.
    Tree(Option<String>),
    Numbers,
    /// `/f`, with its options.
    Lines(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub fd: u8,
    pub how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Read(String),
    Write(String),
    Append(String),
    Same(u8),
}

pub struct Parser<'a> {
    chars: Vec<char>,
    at: usize,
    more: &'a mut dyn FnMut() -> Option<String>,
    depth: usize,
}

type Parsed<T> = Result<T, String>;

fn unexpected<T>(what: &str) -> Parsed<T> {
    Err(format!("{what} was unexpected at this time."))
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | ',' | ';' | '=' | '\u{b}' | '\u{c}')
}

/// Parses `line`, asking `more` for further lines while a parenthesis is open.
pub fn parse(line: &str, more: &mut dyn FnMut() -> Option<String>) -> Parsed<Node> {
    let mut parser = Parser {
        chars: line.chars().collect(),
        at: 0,
        more,
        depth: 0,
    };
    let node = parser.sequence()?;
    match parser.peek() {
        None => Ok(node),
        // cmd takes the rest of a line after a stray closing parenthesis as a comment, but says so at its start.
        Some(c) => unexpected(&c.to_string()),
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn ahead(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn pull(&mut self) -> bool {
        match (self.more)() {
            Some(line) => {
                self.chars.push('\n');
                self.chars.extend(line.chars());
                true
            }
            None => false,
        }
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(blank) {
            self.at += 1;
        }
    }

    /// Blanks and, inside parentheses, line ends.
    fn skip_space(&mut self) {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('\n') => self.at += 1,
                None if self.depth > 0 && self.pull() => {}
                _ => return,
            }
        }
    }

    fn keyword(&mut self, word: &str) -> bool {
        let end = self.at + word.len();
        let same = self.chars.len() >= end
            && self.chars[self.at..end]
                .iter()
                .collect::<String>()
                .eq_ignore_ascii_case(word)
            && self
                .chars
                .get(end)
                .is_none_or(|&c| blank(c) || matches!(c, '(' | '\n' | '/' | ')'));
        if same {
            self.at = end;
        }
        same
    }

    /// Commands up to the end of the line, or of the block inside parentheses.
    fn sequence(&mut self) -> Parsed<Node> {
        let mut nodes = Vec::new();
        loop {
            if self.depth > 0 {
                self.skip_space();
            } else {
                self.skip_blanks();
            }
            match self.peek() {
                None if self.depth > 0 => {
                    return Err("The syntax of the command is incorrect.".into());
                }
                None => break,
                Some(')') if self.depth > 0 => break,
                // A closing parenthesis with nothing open: cmd ignores the line.
                Some(')') => {
                    self.at = self.chars.len();
                    break;
                }
                Some('\n') => self.at += 1,
                _ => {
                    nodes.push(self.chain()?);
                    self.skip_blanks();
                    if self.peek() == Some('\n') {
                        self.at += 1;
                    }
                }
            }
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Seq(nodes),
        })
    }

    /// `a & b & c` on one line.
    fn chain(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.either()?];
        loop {
            self.skip_blanks();
            if self.peek() != Some('&') || self.ahead("&&") {
                break;
            }
            self.at += 1;
            self.skip_blanks();
            if self.peek().is_none_or(|c| c == '\n') || (self.depth > 0 && self.peek() == Some(')'))
            {
                break;
            }
            if self.peek() == Some('&') {
                return unexpected("&");
            }
            nodes.push(self.either()?);
        }
        Ok(if nodes.len() == 1 {
            nodes.remove(0)
        } else {
            Node::Seq(nodes)
        })
    }

    fn either(&mut self) -> Parsed<Node> {
        let mut left = self.both()?;
        loop {
            self.skip_blanks();
            if !self.ahead("||") {
                return Ok(left);
            }
            self.at += 2;
            left = Node::Or(Box::new(left), Box::new(self.both()?));
        }
    }

    fn both(&mut self) -> Parsed<Node> {
        let mut left = self.pipe()?;
        loop {
            self.skip_blanks();
            if !self.ahead("&&") {
                return Ok(left);
            }
            self.at += 2;
            left = Node::And(Box::new(left), Box::new(self.pipe()?));
        }
    }

    fn pipe(&mut self) -> Parsed<Node> {
        let left = self.command()?;
        self.skip_blanks();
        if self.peek() == Some('|') && !self.ahead("||") {
            self.at += 1;
            return Ok(Node::Pipe(Box::new(left), Box::new(self.pipe()?)));
        }
        Ok(left)
    }

    fn command(&mut self) -> Parsed<Node> {
        self.skip_blanks();
        if self.peek() == Some('@') {
            self.at += 1;
            return Ok(Node::Quiet(Box::new(self.command()?)));
        }
        match self.peek() {
            None | Some('\n') => return Err("The syntax of the command is incorrect.".into()),
            Some(c @ ('&' | '|')) => {
                let twice = if self.ahead(&format!("{c}{c}")) {
                    format!("{c}{c}")
                } else {
                    c.to_string()
                };
                return unexpected(&twice);
            }
            Some(')') => return unexpected(")"),
            Some(':') => {
                self.rest_of_line();
                return Ok(Node::Empty);
            }
            Some('(') => return self.block(),
            _ => {}
        }
        if self.keyword("rem") {
            self.rest_of_line();
            return Ok(Node::Empty);
        }
        if self.keyword("if") {
            return self.condition();
        }
        if self.keyword("for") {
            return self.repeat();
        }
        self.simple()
    }

    fn rest_of_line(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    fn block(&mut self) -> Parsed<Node> {
        self.at += 1;
        self.depth += 1;
        let inner = self.sequence()?;
        self.depth -= 1;
        if self.peek() != Some(')') {
            return Err("The syntax of the command is incorrect.".into());
        }
        self.at += 1;
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            let digit = self.peek().filter(char::is_ascii_digit);
            let next = if digit.is_some() {
                self.chars.get(self.at + 1).copied()
            } else {
                self.peek()
            };
            if !matches!(next, Some('<' | '>')) {
                return Ok(Node::Block(Box::new(inner), redirects));
            }
            self.at += usize::from(digit.is_some());
            redirects.push(self.redirect(digit.and_then(|c| c.to_digit(10)).map(|d| d as u8))?);
        }
    }

    fn condition(&mut self) -> Parsed<Node> {
        let (mut fold, mut not) = (false, false);
        self.skip_blanks();
        while self.keyword("/i") {
            fold = true;
            self.skip_blanks();
        }
        while self.keyword("not") {
            not = !not;
            self.skip_blanks();
        }
        while self.keyword("/i") {
            fold = true;
            self.skip_blanks();
        }
        let test = if self.keyword("errorlevel") {
            Test::Errorlevel(self.word()?)
        } else if self.keyword("exist") {
            Test::Exist(self.word()?)
        } else if self.keyword("defined") {
            Test::Defined(self.word()?)
        } else {
            self.comparison()?
        };
        let then = Box::new(self.body()?);
        let mark = self.at;
        self.skip_blanks();
        let other = if self.keyword("else") {
            Some(Box::new(self.body()?))
        } else {
            None
        };
        if other.is_none() {
            self.at = mark;
        }
        Ok(Node::If {
            test,
            not,
            fold,
            then,
            other,
        })
    }

    /// The command of an `if`, `else` or `for`: everything that follows on the line.
    fn body(&mut self) -> Parsed<Node> {
        self.skip_blanks();
        self.chain()
    }

    fn comparison(&mut self) -> Parsed<Test> {
        let left = self.word()?;
        self.skip_plain();
        if self.ahead("==") {
            self.at += 2;
            return Ok(Test::Equal(left, self.word()?));
        }
        let op = self.word()?.to_ascii_lowercase();
        if !matches!(op.as_str(), "equ" | "neq" | "lss" | "leq" | "gtr" | "geq") {
            return unexpected(&op);
        }
        Ok(Test::Compare(left, op, self.word()?))
    }

    fn skip_plain(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    /// One operand: up to a blank or `==`, quotes kept, carets taken away.
    fn word(&mut self) -> Parsed<String> {
        self.skip_blanks();
        let mut word = String::new();
        let mut quoted = false;
        while let Some(c) = self.peek() {
            match c {
                '"' => quoted = !quoted,
                '^' if !quoted => {
                    self.at += 1;
                    word.extend(self.peek());
                    self.at += 1;
                    continue;
                }
                '\n' | '&' | '|' | '<' | '>' if !quoted || c == '\n' => break,
                c if !quoted && blank(c) => break,
                ')' if !quoted && self.depth > 0 => break,
                _ => {}
            }
            word.push(c);
            self.at += 1;
        }
        if word.is_empty() {
            return Err("The syntax of the command is incorrect.".into());
        }
        Ok(word)
    }

    fn repeat(&mut self) -> Parsed<Node> {
        let mut kind = ForKind::Files;
        self.skip_blanks();
        while self.peek() == Some('/') {
            let switch = self.word()?.to_ascii_lowercase();
            self.skip_blanks();
            let operand = (!self.ahead("%")).then(|| self.word()).transpose()?;
            kind = match (switch.as_str(), operand) {
                ("/d", None) => ForKind::Directories,
                ("/l", None) => ForKind::Numbers,
                ("/r", root) => ForKind::Tree(root),
                ("/f", options) => ForKind::Lines(options.unwrap_or_default()),
                (other, _) => return unexpected(other),
            };
            self.skip_blanks();
        }
        let var = self.word()?;
        let var = match var.chars().collect::<Vec<_>>()[..] {
            ['%', letter] => letter,
            _ => return unexpected(&var),
        };
        self.skip_blanks();
        if !self.keyword("in") {
            return self.word().and_then(|word| unexpected(&word));
        }
        let set = self.set()?;
        self.skip_blanks();
        if !self.keyword("do") {
            let word = self.word().unwrap_or_default();
            return unexpected(&word);
        }
        Ok(Node::For {
            kind,
            var,
            set,
            body: Box::new(self.body()?),
        })
    }

    /// What stands in the parentheses of a `for`.
    fn set(&mut self) -> Parsed<String> {
        self.skip_blanks();
        if self.peek() != Some('(') {
            return self.word().and_then(|word| unexpected(&word));
        }
        self.at += 1;
        let mut set = String::new();
        let mut quoted = false;
        loop {
            match self.peek() {
                Some(')') if !quoted => break,
                Some('\n') => {
                    quoted = false;
                    set.push(' ');
                }
                Some('^') if !quoted => {
                    self.at += 1;
                    set.extend(self.peek());
                }
                Some(c) => {
                    quoted ^= c == '"';
                    set.push(c);
                }
                None if self.pull() => continue,
                None => return Err("The syntax of the command is incorrect.".into()),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(set)
    }

    fn simple(&mut self) -> Parsed<Node> {
        let mut text = String::new();
        let mut redirects = Vec::new();
        let mut quoted = false;
        while let Some(c) = self.peek() {
            match c {
                '\n' => break,
                '"' => quoted = !quoted,
                _ if quoted => {}
                '^' => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => self.at += 1,
                        None if self.pull() => self.at += 1,
                        _ => {}
                    }
                    text.extend(self.peek());
                    self.at += 1;
                    continue;
                }
                '&' | '|' => break,
                ')' if self.depth > 0 => break,
                '<' | '>' => {
                    let fd = handle(&mut text);
                    redirects.push(self.redirect(fd)?);
                    continue;
                }
                _ => {}
            }
            text.push(c);
            self.at += 1;
        }
        Ok(Node::Simple { text, redirects })
    }

    fn redirect(&mut self, fd: Option<u8>) -> Parsed<Redirect> {
        let read = self.peek() == Some('<');
        self.at += 1;
        let append = !read && self.peek() == Some('>');
        self.at += usize::from(append);
        self.skip_blanks();
        let fd = fd.unwrap_or(u8::from(!read));
        if self.peek() == Some('&') {
            self.at += 1;
            let to = self.peek().and_then(|c| c.to_digit(10));
            self.at += 1;
            return match to {
                Some(to) => Ok(Redirect {
                    fd,
                    how: How::Same(to as u8),
                }),
                None => unexpected("&"),
            };
        }
        let target = self.word()?;
        let how = match (read, append) {
            (true, _) => How::Read(target),
            (_, true) => How::Append(target),
            _ => How::Write(target),
        };
        Ok(Redirect { fd, how })
    }
}

/// Takes a handle number off the end of `text`: a single digit that stands alone before the redirection sign.
fn handle(text: &mut String) -> Option<u8> {
    let mut back = text.chars().rev();
    let digit = back.next()?.to_digit(10)?;
    if back.next().is_some_and(|c| !blank(c)) {
        return None;
    }
    text.pop();
    Some(digit as u8)
}
