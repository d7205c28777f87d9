//! From a proof to its `[[run]]` in the ledger. Pure.

use crate::ledger::Ledger;
use crate::proof::{Outcome, Proof, SCHEMA};

/// The ledger's text with this run behind it. `record` is where the proof lies: a file of the tree or an address.
///
/// # Errors
/// Why the run is none of Windows, or names what the ledger has not.
pub fn entered(ledger: &str, proof: &Proof, record: &str) -> Result<String, String> {
    let read = Ledger::read(ledger).map_err(|e| format!("the ledger: {e}"))?;
    if proof.schema != SCHEMA {
        return Err(format!(
            "the proof is of the form {}, not {SCHEMA}",
            proof.schema
        ));
    }
    // Not by what the proof says of its medium: by the ledger of today.
    if read.medium(&proof.medium.sha256).is_none() {
        return Err(format!(
            "nothing shows that this run was on Windows: sha256:{} is none of the ledger's [[medium]]",
            proof.medium.sha256
        ));
    }
    let having = |outcome: Outcome| -> Vec<&str> {
        let verdicts = proof
            .verdicts
            .iter()
            .filter(|verdict| verdict.outcome == outcome);
        verdicts.map(|verdict| verdict.claim.as_str()).collect()
    };
    let (held, failed) = (having(Outcome::Held), having(Outcome::Failed));
    if held.is_empty() && failed.is_empty() {
        return Err("no claim was decided by it".into());
    }
    let date = proof.ended.split('T').next().unwrap_or_default();
    let mut text = ledger.trim_end().to_owned();
    text += &format!(
        "\n\n[[run]]\nbuild   = {:?}\ndate    = {date:?}\nrecord  = {record:?}\nproved  = {held:?}\nrefuted = {failed:?}\n",
        proof.build()
    );
    let now = Ledger::read(&text).map_err(|e| format!("the ledger with the run: {e}"))?;
    match now.complaints() {
        complaints if complaints.is_empty() => Ok(text),
        complaints => Err(complaints.join("\n")),
    }
}
