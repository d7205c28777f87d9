//! `exit_codes`, the meaning of a program's exit codes, in the verbs that run one.

use crate::fields::TableReader;
use crate::ops::ExitRule;

/// `exit_codes = { ok = [0], reboot = [3010, 1641] }`; `None` keeps the verb's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitCodes {
    pub ok: Option<Vec<i64>>,
    pub reboot: Option<Vec<i64>>,
}

/// Reads `exit_codes = { ok = [0], reboot = [3010] }`.
pub fn read_exit_codes(fields: &TableReader<'_>) -> Option<ExitCodes> {
    if !fields.has("exit_codes") {
        return Some(ExitCodes::default());
    }
    let table = fields.read_table("exit_codes")?;
    let ok = read_codes(&table, "ok");
    let reboot = read_codes(&table, "reboot");
    if let (Some(ok), Some(reboot)) = (&ok, &reboot)
        && let Some(both) = ok.iter().find(|c| reboot.contains(c))
    {
        let fact = format!("exit code {both} is under both `ok` and `reboot`");
        table
            .cx
            .error(fact, &table.place, "", "keep one of the two");
    }
    let is_valid = (ok.is_some() || !table.has("ok")) && (reboot.is_some() || !table.has("reboot"));
    is_valid.then_some(ExitCodes { ok, reboot })
}

/// Reads exit codes. They have 32 bits; those with the high bit set may be written signed or
/// unsigned (Microsoft: GetExitCodeProcess).
fn read_codes(table: &TableReader<'_>, key: &str) -> Option<Vec<i64>> {
    let items = table.list(key)?;
    let mut codes = Some(Vec::new());
    for item in items {
        let code = table.integer_of(key, item);
        let range = i64::from(i32::MIN)..=i64::from(u32::MAX);
        match code {
            Some(code) if range.contains(&code) => {
                if let Some(codes) = &mut codes {
                    codes.push(code);
                }
                continue;
            }
            Some(code) => {
                let fact = format!("{code} is not a Windows exit code");
                table
                    .cx
                    .error(fact, &item.place, "does not fit 32 bits", "");
            }
            None => {}
        }
        codes = None;
    }
    if codes.as_ref().is_some_and(Vec::is_empty) && key == "ok" {
        let fact = "`ok` has no exit code: the step could never succeed";
        table
            .cx
            .error(fact, &table.place, "", "omit it, or write `ok = [0]`");
    }
    codes
}

/// Returns the recipe's lists of exit codes if it has any, otherwise the verb's rule.
pub fn exit_rule(codes: &ExitCodes, own: ExitRule, reboot: &[i64]) -> ExitRule {
    match codes {
        ExitCodes {
            ok: None,
            reboot: None,
        } => own,
        given => ExitRule::Listed {
            ok: given.ok.clone().unwrap_or_else(|| vec![0]),
            reboot: given.reboot.clone().unwrap_or_else(|| reboot.to_vec()),
        },
    }
}
