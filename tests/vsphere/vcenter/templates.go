package main

// What deploying an OVF and making a template of a machine do. vcsim takes what vCenter refuses: names that are taken, things that are
// not there, an OVF's unknown networks; it forgets the description of a template, and where its disk shall lie.
// (vSphere Automation API: ovf library item, vm template library items)

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/ovf"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	deploys   = "/rest/com/vmware/vcenter/ovf/library-item"
	templates = "/rest/vcenter/vm-template/library-items"
)

// deploy answers the same to a request that it has answered well, by its token.
func (d *door) deploy(r *http.Request, id string, body []byte) (int, any, error) {
	var asked struct {
		Token string `json:"client_token"`
		vcenter.Deploy
	}
	if err := strict(body, &asked); err != nil {
		return 0, nil, err
	}
	if answer, ok := d.tokens[asked.Token]; ok && asked.Token != "" {
		return http.StatusOK, answer, nil
	}
	all, err := d.entities()
	if err != nil {
		return 0, nil, err
	}
	spec, target := asked.DeploymentSpec, asked.Target
	for id, kind := range map[string]string{
		target.ResourcePoolID: "ResourcePool", target.FolderID: "Folder", spec.DefaultDatastoreID: "Datastore",
	} {
		if !all.is(id, kind) {
			return 0, nil, refusal{http.StatusNotFound, "not_found", kind + " " + id}
		}
	}
	if words := d.undeployable(all, id, asked.Deploy); words != "" {
		message := rest.LocalizableMessage{ID: "refused", DefaultMessage: words}
		failed := vcenter.OVFError{Category: "INPUT", Error: &vcenter.Error{Messages: []rest.LocalizableMessage{message}}}
		return http.StatusOK, map[string]any{"value": map[string]any{
			"succeeded": false, "error": vcenter.DeploymentError{Errors: []vcenter.OVFError{failed}},
		}}, nil
	}
	status, answer, err := d.pass(r, body)
	var made struct {
		Value vcenter.Deployment `json:"value"`
	}
	text, _ := answer.([]byte)
	if err == nil && json.Unmarshal(text, &made) == nil && made.Value.Succeeded {
		d.tokens[asked.Token] = text
	}
	return status, answer, err
}

// undeployable is what vCenter says of a deployment that it does not make.
func (d *door) undeployable(all tree, id string, asked vcenter.Deploy) string {
	spec, target := asked.DeploymentSpec, asked.Target
	dc := all.datacenter(target.FolderID)
	switch {
	case !spec.AcceptAllEULA:
		return "The license agreements are not accepted."
	case !slices.Contains([]string{"", "thin", "thick", "eagerZeroedThick"}, spec.StorageProvisioning):
		return "There is no such provisioning."
	case all.datacenter(target.ResourcePoolID) != dc || all.datacenter(spec.DefaultDatastoreID) != dc:
		return "The target is in several datacenters."
	}
	if _, taken := all.machine(target.FolderID, spec.Name); taken {
		return "The name '" + spec.Name + "' already exists."
	}
	networks := d.networks(id)
	for _, one := range spec.NetworkMappings {
		switch {
		case !slices.Contains(networks, one.Key):
			return "The OVF has no network " + one.Key + "."
		case !all.is(one.Value, lists["network"].kinds...) || all.datacenter(one.Value) != dc:
			return "There is no network " + one.Value + "."
		}
	}
	return ""
}

// networks are those of an item's descriptor.
func (d *door) networks(id string) []string {
	names := []string{}
	for _, one := range d.items[id] {
		if !strings.HasSuffix(one.Name, ".ovf") {
			continue
		}
		envelope, err := ovf.Unmarshal(bytes.NewReader(one.bytes))
		if err != nil || envelope.Network == nil {
			continue
		}
		for _, network := range envelope.Network.Networks {
			names = append(names, network.Name)
		}
	}
	return names
}

// template makes one of a machine, beside it in the inventory and as an item.
func (d *door) template(r *http.Request, body []byte) (int, any, error) {
	var asked struct {
		Spec vcenter.Template `json:"spec"`
	}
	if err := strict(body, &asked); err != nil {
		return 0, nil, err
	}
	spec := asked.Spec
	all, err := d.entities()
	if err != nil {
		return 0, nil, err
	}
	if spec.Placement == nil || spec.DiskStorage == nil || spec.VMHomeStorage == nil {
		return 0, nil, refuse("invalid_argument", "The tests want a place for each template.")
	}
	for id, kind := range map[string]string{
		spec.SourceVM: "VirtualMachine", spec.Placement.Folder: "Folder", spec.Placement.ResourcePool: "ResourcePool",
		spec.DiskStorage.Datastore: "Datastore", spec.VMHomeStorage.Datastore: "Datastore",
	} {
		if !all.is(id, kind) {
			return 0, nil, refusal{http.StatusNotFound, "not_found", kind + " " + id}
		}
	}
	if _, taken := all.machine(spec.Placement.Folder, spec.Name); taken {
		return 0, nil, refuse("already_exists", "The name '%s' already exists.", spec.Name)
	}
	if d.isTaken(r, spec.Library, spec.Name) {
		return 0, nil, refuse("already_exists", "The library has an item '%s'.", spec.Name)
	}
	status, answer, err := d.pass(r, body)
	text, _ := answer.([]byte)
	var made struct {
		Value string `json:"value"`
	}
	if err != nil || json.Unmarshal(text, &made) != nil || made.Value == "" {
		return status, answer, err
	}
	if all, err = d.entities(); err != nil {
		return 0, nil, err
	}
	one, _ := all.machine(spec.Placement.Folder, spec.Name)
	d.templates[made.Value] = one.Self
	change, _ := json.Marshal(map[string]any{"update_spec": library.Item{Description: &spec.Description}})
	if err := d.tell(r, http.MethodPatch, item+"/id:"+made.Value, change); err != nil {
		return 0, nil, err
	}
	store := types.ManagedObjectReference{Type: "Datastore", Value: spec.DiskStorage.Datastore}
	task, err := object.NewVirtualMachine(d.client, one.Self).Relocate(
		context.Background(), types.VirtualMachineRelocateSpec{Datastore: &store}, types.VirtualMachineMovePriorityDefaultPriority)
	if err == nil {
		err = task.Wait(context.Background())
	}
	return status, answer, err
}

// isTaken says whether a library has an item of this name, in upper or lower case.
func (d *door) isTaken(r *http.Request, lib, name string) bool {
	for _, id := range d.ids(r, lib) {
		if one, err := d.itemOf(r, id); err == nil && strings.EqualFold(one.Name, name) {
			return true
		}
	}
	return false
}

func (d *door) ids(r *http.Request, lib string) []string {
	var found struct {
		Value []string `json:"value"`
	}
	_ = d.get(r, item+"?library_id="+lib, &found)
	return found.Value
}

func (d *door) itemOf(r *http.Request, id string) (library.Item, error) {
	var found struct {
		Value library.Item `json:"value"`
	}
	err := d.get(r, item+"/id:"+id, &found)
	return found.Value, err
}

// ofTemplate says nothing of an item that has no template.
func (d *door) ofTemplate(r *http.Request, id string) (int, any, error) {
	if _, err := d.itemOf(r, id); err != nil {
		return 0, nil, refusal{http.StatusNotFound, "not_found", id}
	}
	ref, ok := d.templates[id]
	if !ok {
		return http.StatusOK, map[string]any{}, nil
	}
	vm, err := d.virtual(ref.Value)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"value": map[string]any{
		"vm_template": ref.Value, "guest_OS": "WINDOWS_SERVER_2019",
		"vm_home_storage": map[string]string{"datastore": vm.Datastore[0].Value},
	}}, nil
}

// change gives an item another name, and with it its template.
func (d *door) change(r *http.Request, id string, body []byte) (int, any, error) {
	var asked struct {
		Spec library.Item `json:"update_spec"`
	}
	if err := strict(body, &asked); err != nil {
		return 0, nil, err
	}
	name := asked.Spec.Name
	if name == "" {
		return d.pass(r, body)
	}
	one, err := d.itemOf(r, id)
	if err != nil {
		return 0, nil, refusal{http.StatusNotFound, "not_found", id}
	}
	if !strings.EqualFold(one.Name, name) && d.isTaken(r, one.LibraryID, name) {
		return 0, nil, refuse("already_exists", "The library has an item '%s'.", name)
	}
	if ref, ok := d.templates[id]; ok {
		all, err := d.entities()
		if err != nil {
			return 0, nil, err
		}
		if other, taken := all.machine(all[ref.Value].Parent.Value, name); taken && other.Self != ref {
			return 0, nil, refuse("already_exists", "The name '%s' already exists.", name)
		}
		task, err := object.NewVirtualMachine(d.client, ref).Rename(context.Background(), name)
		if err == nil {
			err = task.Wait(context.Background())
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return d.pass(r, body)
}
