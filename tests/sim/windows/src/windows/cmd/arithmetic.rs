//! `set /a`: 32-bit integer expressions, and numbers as `if` compares them.

use crate::windows::process::Env;

/// A number as cmd reads it: decimal, `0x` hexadecimal, leading `0` octal.
pub fn number(text: &str) -> Option<i32> {
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or((1, text), |digits| (-1, digits));
    let value = match digits {
        "" => return None,
        hex if hex.len() > 2 && hex[..2].eq_ignore_ascii_case("0x") => {
            i64::from_str_radix(&hex[2..], 16).ok()?
        }
        octal if octal.len() > 1 && octal.starts_with('0') => {
            i64::from_str_radix(&octal[1..], 8).ok()?
        }
        decimal => decimal.parse().ok()?,
    };
    i32::try_from(sign * value).ok()
}

struct Reader<'a> {
    tokens: Vec<String>,
    at: usize,
    env: &'a mut Env,
}

/// Evaluates comma-separated expressions, assigning variables; gives the last value.
pub fn evaluate(text: &str, env: &mut Env) -> Result<i32, String> {
    let mut reader = Reader {
        tokens: tokens(&text.replace('"', ""))?,
        at: 0,
        env,
    };
    let mut value = reader.assignment()?;
    while reader.take(",") {
        value = reader.assignment()?;
    }
    if reader.at < reader.tokens.len() {
        Err("Missing operator.".into())
    } else {
        Ok(value)
    }
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let operators = [
            "<<=", ">>=", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=",
        ];
        let len = match operators.iter().find(|op| rest.starts_with(**op)) {
            Some(op) => op.len(),
            None if first.is_alphanumeric() || first == '_' => rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len()),
            None if "+-*/%&^|~!()=,".contains(first) => 1,
            None => return Err("Missing operand.".into()),
        };
        found.push(rest[..len].to_owned());
        rest = rest[len..].trim_start();
    }
    Ok(found)
}

/// Binary operators, loosest first.
const LEVELS: [&[&str]; 6] = [
    &["|"],
    &["^"],
    &["&"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Reader<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn take(&mut self, token: &str) -> bool {
        let same = self.peek() == token;
        self.at += usize::from(same);
        same
    }

    fn assignment(&mut self) -> Result<i32, String> {
        let name = self.peek().to_owned();
        let op = self.tokens.get(self.at + 1).cloned().unwrap_or_default();
        let named = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if !named || !op.ends_with('=') {
            return self.binary(0);
        }
        self.at += 2;
        let right = self.assignment()?;
        let value = match op.trim_end_matches('=') {
            "" => right,
            op => apply(self.variable(&name), op, right)?,
        };
        self.env.set(&name, &value.to_string());
        Ok(value)
    }

    fn variable(&self, name: &str) -> i32 {
        self.env.get(name).and_then(number).unwrap_or(0)
    }

    fn binary(&mut self, level: usize) -> Result<i32, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while operators.contains(&self.peek()) {
            let op = self.peek().to_owned();
            self.at += 1;
            left = apply(left, &op, self.binary(level + 1)?)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<i32, String> {
        let token = self.peek().to_owned();
        self.at += 1;
        match token.as_str() {
            "" => Err("Missing operand.".into()),
            "-" => Ok(self.unary()?.wrapping_neg()),
            "+" => self.unary(),
            "~" => Ok(!self.unary()?),
            "!" => Ok(i32::from(self.unary()? == 0)),
            "(" => {
                let value = self.assignment()?;
                if self.take(")") { Ok(value) } else { Err("Unbalanced parenthesis.".into()) }
            }
            text if text.starts_with(|c: char| c.is_ascii_digit()) => {
                number(text).ok_or_else(|| "Invalid number.  Numeric constants are either decimal (17),\nhexadecimal (0x11), or octal (021).".into())
            }
            text if text.starts_with(|c: char| c.is_alphabetic() || c == '_') => Ok(self.variable(text)),
            _ => Err("Missing operand.".into()),
        }
    }
}

fn apply(left: i32, op: &str, right: i32) -> Result<i32, String> {
    Ok(match op {
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" | "%" if right == 0 => return Err("Divide by zero error.".into()),
        "/" => left.wrapping_div(right),
        "%" => left.wrapping_rem(right),
        "&" => left & right,
        "^" => left ^ right,
        "|" => left | right,
        "<<" => left.checked_shl(right as u32).unwrap_or(0),
        _ => left.checked_shr(right as u32).unwrap_or(0),
    })
}
