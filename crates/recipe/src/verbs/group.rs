//! The verb `group`: a local group, compiled to `net.exe` (Microsoft: net localgroup).

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PlannedCheck;
use crate::ops::batch::{self, BatchScript};
use crate::ops::compiler::StepCompiler;
use crate::ops::principal::{find_known, known_group};
use crate::ops::programs::NET;
use crate::verbs::absent::nothing_else;
use crate::verbs::account::{
    LONGEST_COMMENT, delete, group_name, join, read_account_names, read_comment, render_name_query,
    select, told_apart,
};
use winimg_base::text::Located;

/// `group`: a local group.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    pub name: Located<String>,
    pub present: bool,
    pub description: Option<String>,
    pub members: Vec<Located<String>>,
}

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<GroupSpec> {
    let fields = TableReader::open(cx, value, "group")?;
    let name = group_name(&fields);
    let present = fields.is("state", "present");
    let description = read_comment(&fields, "description", LONGEST_COMMENT);
    let members = read_account_names(&fields, "members");
    if !present {
        nothing_else(&fields, "a group");
    }
    Some(GroupSpec {
        name: name?,
        present,
        description,
        members,
    })
}

pub fn compile(site: &mut StepCompiler<'_>, group: &GroupSpec) -> Option<()> {
    let name = group.name.value.as_str();
    let mut script = BatchScript::new();
    let known = known_group(name);
    if !group.present {
        if known.is_some() {
            let message = format!("`{name}` belongs to Windows and cannot be removed");
            site.error(&group.name.place, message, "");
            return None;
        }
        told_apart(site, &group.name)?;
        let what = format!("localgroup {}", site.quote(name, &group.name.place)?);
        delete(site, &mut script, &what, &["1376", "2220"]);
    } else {
        select(site, &mut script, &group.name)?;
        let comment = match &group.description {
            Some(text) => Some(site.report_error(batch::escape(text), &group.name.place)?),
            None => None,
        };
        if known.is_none() {
            script.add_line(format!(
                "{NET} localgroup \"%group%\" >nul 2>&1 || {NET} localgroup \"%group%\" /add || \
                 exit /b 1"
            ));
        }
        if let Some(comment) = comment {
            script.add_line(format!(
                "{NET} localgroup \"%group%\" \"/comment:{comment}\" || exit /b 1"
            ));
        }
        for member in &group.members {
            add_member(site, &mut script, member)?;
        }
    }
    site.put(script);
    site.expect(PlannedCheck::Group {
        name: name.to_owned(),
        present: group.present,
        members: group.members.iter().map(|m| m.value.clone()).collect(),
    });
    Some(())
}

fn add_member(
    site: &mut StepCompiler<'_>,
    script: &mut BatchScript,
    member: &Located<String>,
) -> Option<()> {
    if let Some((_, sid)) = find_known(&member.value) {
        script.add_line("set \"member=\"");
        let command = render_name_query(sid, "");
        script.add_line(format!(
            "for /f \"delims=\" %%n in ('{command}') do set \"member=%%n\"\n\
             if not defined member echo {sid} has no name in this Windows\n\
             if not defined member exit /b 1"
        ));
        join(site, script, "\"%member%\"");
        return Some(());
    }
    let name = site.quote(&member.value, &member.place)?;
    told_apart(site, member)?;
    join(site, script, &name);
    Some(())
}
