//! Windows Installer's conditions ("Conditional Statement Syntax"): `NOT Installed AND VersionNT64 >= 601`.

use super::database::Properties;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Number(i64),
    Operator(String),
}

/// Whether a condition holds; an empty one does. An error says what can't be read.
pub fn holds(condition: &str, properties: &Properties) -> Result<bool, String> {
    let tokens = tokens(condition)?;
    if tokens.is_empty() {
        return Ok(true);
    }
    let mut reader = Reader {
        tokens,
        at: 0,
        properties,
    };
    let value = reader.implication()?;
    if reader.at < reader.tokens.len() {
        Err(format!("condition \"{condition}\" has more after its end"))
    } else {
        Ok(value)
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let rest: String = chars[at..].iter().take(3).collect();
        if c.is_whitespace() {
            at += 1;
        } else if c == '"' {
            let len = chars[at + 1..]
                .iter()
                .position(|&c| c == '"')
                .ok_or("a text in a condition has no end")?;
            found.push(Token::Text(chars[at + 1..at + 1 + len].iter().collect()));
            at += len + 2;
        } else if c.is_ascii_digit()
            || (c == '-' && chars.get(at + 1).is_some_and(char::is_ascii_digit))
        {
            let len = 1 + chars[at + 1..]
                .iter()
                .take_while(|c| c.is_ascii_digit())
                .count();
            let digits: String = chars[at..at + len].iter().collect();
            found.push(Token::Number(
                digits
                    .parse()
                    .map_err(|_| format!("{digits} is too large"))?,
            ));
            at += len;
        } else if c.is_alphabetic() || "_%&!?$".contains(c) {
            let len = 1 + chars[at + 1..]
                .iter()
                .take_while(|c| c.is_alphanumeric() || "_.".contains(**c))
                .count();
            found.push(Token::Name(chars[at..at + len].iter().collect()));
            at += len;
        } else {
            let known = [
                "~><", "~<<", "~>>", "~<>", "~<=", "~>=", "~=", "~<", "~>", "><", "<<", ">>", "<>",
                "<=", ">=", "=", "<", ">", "(", ")",
            ];
            let op = known
                .iter()
                .find(|op| rest.starts_with(**op))
                .ok_or_else(|| format!("'{c}' in a condition"))?;
            found.push(Token::Operator((*op).to_owned()));
            at += op.len();
        }
    }
    Ok(found)
}

struct Reader<'a> {
    tokens: Vec<Token>,
    at: usize,
    properties: &'a Properties,
}

impl Reader<'_> {
    fn word(&mut self, word: &str) -> bool {
        let same = matches!(self.tokens.get(self.at), Some(Token::Name(name)) if name.eq_ignore_ascii_case(word));
        self.at += usize::from(same);
        same
    }

    /// IMP and EQV bind loosest, then XOR, OR, AND, NOT.
    fn implication(&mut self) -> Result<bool, String> {
        let mut left = self.exclusive()?;
        loop {
            if self.word("IMP") {
                left = !left | self.exclusive()?;
            } else if self.word("EQV") {
                left = left == self.exclusive()?;
            } else {
                return Ok(left);
            }
        }
    }

    fn exclusive(&mut self) -> Result<bool, String> {
        let mut left = self.either()?;
        while self.word("XOR") {
            left ^= self.either()?;
        }
        Ok(left)
    }

    fn either(&mut self) -> Result<bool, String> {
        let mut left = self.both()?;
        while self.word("OR") {
            left |= self.both()?;
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<bool, String> {
        let mut left = self.negation()?;
        while self.word("AND") {
            left &= self.negation()?;
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<bool, String> {
        if self.word("NOT") {
            return self.negation().map(|value| !value);
        }
        if self.tokens.get(self.at) == Some(&Token::Operator("(".into())) {
            self.at += 1;
            let value = self.implication()?;
            if self.tokens.get(self.at) != Some(&Token::Operator(")".into())) {
                return Err("a parenthesis in a condition is not closed".into());
            }
            self.at += 1;
            return Ok(value);
        }
        self.comparison()
    }

    fn operand(&mut self) -> Result<(String, bool), String> {
        let token = self
            .tokens
            .get(self.at)
            .cloned()
            .ok_or("a condition ends too soon")?;
        self.at += 1;
        match token {
            Token::Text(text) => Ok((text, false)),
            Token::Number(number) => Ok((number.to_string(), true)),
            Token::Name(name) => match name.chars().next() {
                Some('%') => Ok((String::new(), false)),
                // Feature and component states: nothing is installed yet (-1 unknown, 2 absent); wanted ones go local.
                Some('!' | '?') => Ok(("2".into(), true)),
                Some('&' | '$') => Ok(("3".into(), true)),
                _ => Ok((self.properties.get(&name).to_owned(), true)),
            },
            Token::Operator(op) => Err(format!("'{op}' in a condition")),
        }
    }

    fn comparison(&mut self) -> Result<bool, String> {
        let (left, left_number) = self.operand()?;
        let Some(Token::Operator(op)) = self
            .tokens
            .get(self.at)
            .cloned()
            .filter(|op| *op != Token::Operator(")".into()))
        else {
            return Ok(!left.is_empty());
        };
        self.at += 1;
        let (right, right_number) = self.operand()?;
        let (fold, op) = op
            .strip_prefix('~')
            .map_or((false, op.as_str()), |op| (true, op));
        let both = left
            .parse::<i64>()
            .ok()
            .zip(right.parse::<i64>().ok())
            .filter(|_| left_number && right_number);
        if let Some((left, right)) = both {
            return Ok(match op {
                "><" => left & right != 0,
                "<<" => left >> 16 == right,
                ">>" => left & 0xffff == right,
                _ => ordered(op, left.cmp(&right)),
            });
        }
        let (left, right) = if fold {
            (left.to_lowercase(), right.to_lowercase())
        } else {
            (left, right)
        };
        Ok(match op {
            "><" => left.contains(&right),
            "<<" => left.starts_with(&right),
            ">>" => left.ends_with(&right),
            // A text and a number are unequal, and nothing else.
            _ if left_number != right_number && op != "=" && op != "<>" => false,
            _ => ordered(op, left.cmp(&right)),
        })
    }
}

fn ordered(op: &str, order: std::cmp::Ordering) -> bool {
    match op {
        "=" => order.is_eq(),
        "<>" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }
}
