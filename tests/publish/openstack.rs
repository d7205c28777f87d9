//! A real Keystone and a real Glance do as their stand-in does: what they are asked is what `glance.rs` asks, and the words are the same.

use crate::publish::cloud::Real;
use crate::publish::glance;

#[test]
#[ignore = "Keystone and Glance from PyPI: make openstack"]
fn an_image_is_made_once_over_a_line_that_fails() {
    glance::made_once(Real::shared());
}

#[test]
#[ignore = "Keystone and Glance from PyPI: make openstack"]
fn another_image_of_the_name_is_hidden_where_that_is_asked_for() {
    glance::replaced(Real::shared());
}

#[test]
#[ignore = "Keystone and Glance from PyPI: make openstack"]
fn an_image_that_a_killed_run_left_is_gone_on_with() {
    glance::gone_on_with(Real::shared());
}

#[test]
#[ignore = "Keystone and Glance from PyPI: make openstack"]
fn an_image_that_a_killed_run_left_half_sent_is_made_anew() {
    glance::made_anew(Real::shared());
}

#[test]
#[ignore = "Keystone and Glance from PyPI: make openstack"]
fn an_image_that_was_spoilt_on_its_way_is_made_anew() {
    glance::spoilt(Real::shared());
}

#[test]
#[ignore = "Keystone and Glance from PyPI: make openstack"]
fn what_openstack_refuses_is_named_and_no_password_is_shown() {
    glance::refused(Real::shared());
}

#[test]
#[ignore = "Keystone and Glance from PyPI: make openstack"]
fn a_cloud_is_found_in_clouds_yaml_and_its_password_in_secure_yaml() {
    glance::found_in_clouds_yaml(Real::shared());
}
