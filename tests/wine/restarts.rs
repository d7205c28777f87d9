//! `reboot`: the guest goes away and comes back; services that start by themselves run again, RunOnce was carried out.

use crate::wine::glib::Glib;
use crate::wine::node::Node;

#[test]
#[ignore = "needs Wine: make wine"]
fn services_and_run_once_come_back_after_a_restart() {
    let mut node = Node::new(Glib::New);
    let told = node
        .build("restart", include_str!("recipes/restart.toml"))
        .expect("a build");
    let log = node
        .prefix
        .read(r"C:\services\runtime.log")
        .expect("the service wrote it");
    let notes = node
        .prefix
        .read(r"C:\notes.txt")
        .expect("the steps wrote it");
    insta::assert_snapshot!(
        "restart",
        format!("{told}\nservice\n{log}\nnotes\n{notes}").replace('\r', "\\r"),
    );
}
