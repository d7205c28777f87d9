package main

// What vCenter's REST API says of the inventory, of which vcsim has SOAP alone. (vSphere Automation API: datacenter, cluster, folder,
// resource pool, datastore, network, VM)

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

const inventory = "/rest/vcenter/"

// listed is what a list says of, with the filters that winimg may use of those that vCenter has.
type listed struct {
	kinds   []string
	id      string
	filters []string
}

var lists = map[string]listed{
	"datacenter":    {[]string{"Datacenter"}, "datacenter", []string{"names"}},
	"cluster":       {[]string{"ClusterComputeResource"}, "cluster", []string{"names", "datacenters"}},
	"folder":        {[]string{"Folder"}, "folder", []string{"names", "datacenters", "parent_folders"}},
	"resource-pool": {[]string{"ResourcePool"}, "resource_pool", []string{"names", "datacenters", "parent_resource_pools"}},
	"datastore":     {[]string{"Datastore"}, "datastore", []string{"names", "datacenters"}},
	"network":       {[]string{"Network", "DistributedVirtualPortgroup", "OpaqueNetwork"}, "network", []string{"names", "datacenters"}},
	"vm":            {[]string{"VirtualMachine"}, "vm", []string{"names", "datacenters", "folders"}},
}

// tree is the inventory by its identifiers.
type tree map[string]mo.ManagedEntity

// entities is the inventory now.
func entities(ctx context.Context, client *vim25.Client) (tree, error) {
	v, err := view.NewManager(client).CreateContainerView(ctx, client.ServiceContent.RootFolder, nil, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.Destroy(ctx) }()
	var all []mo.ManagedEntity
	if err := v.Retrieve(ctx, []string{"ManagedEntity"}, []string{"name", "parent"}, &all); err != nil {
		return nil, err
	}
	found := tree{}
	for _, one := range all {
		found[one.Self.Value] = one
	}
	// Their names are read as networks' alone.
	var networks []mo.Network
	if err := v.Retrieve(ctx, []string{"Network"}, []string{"name"}, &networks); err != nil {
		return nil, err
	}
	for _, network := range networks {
		one := found[network.Self.Value]
		one.Name = network.Name
		found[network.Self.Value] = one
	}
	return found, nil
}

// is says whether there is such a thing.
func (t tree) is(id string, kinds ...string) bool {
	one, ok := t[id]
	for _, kind := range kinds {
		if ok && one.Self.Type == kind {
			return true
		}
	}
	return false
}

// datacenter is the one that something lies in.
func (t tree) datacenter(id string) string {
	for one, ok := t[id]; ok && one.Parent != nil; one, ok = t[one.Parent.Value] {
		if one.Parent.Type == "Datacenter" {
			return one.Parent.Value
		}
	}
	return ""
}

// machine is the machine or the template of a name in a folder.
func (t tree) machine(folder, name string) (mo.ManagedEntity, bool) {
	for _, one := range t {
		if one.Self.Type == "VirtualMachine" && one.Parent != nil && one.Parent.Value == folder && strings.EqualFold(one.Name, name) {
			return one, true
		}
	}
	return mo.ManagedEntity{}, false
}

func (d *door) entities() (tree, error) { return entities(context.Background(), d.client) }

func (d *door) virtual(id string) (mo.VirtualMachine, error) {
	var vm mo.VirtualMachine
	ref := types.ManagedObjectReference{Type: "VirtualMachine", Value: id}
	err := object.NewVirtualMachine(d.client, ref).Properties(context.Background(), ref, []string{"config", "runtime", "datastore"}, &vm)
	return vm, err
}

// asked answers what is below /rest/vcenter/ and no template's item.
func (d *door) asked(r *http.Request) (int, any, error) {
	path, id, one := strings.Cut(strings.TrimPrefix(r.URL.Path, inventory), "/")
	var value any
	var err error
	switch {
	case r.Method == http.MethodGet && !one:
		value, err = d.list(path, r.URL.Query())
	case r.Method == http.MethodGet && path == "datacenter":
		value, err = d.ofDatacenter(id)
	case r.Method == http.MethodGet && path == "cluster":
		value, err = d.ofCluster(id)
	case r.Method == http.MethodDelete && path == "vm":
		err = d.remove(id)
	default:
		err = refusal{http.StatusNotFound, "operation_not_found", r.Method + " " + r.URL.Path}
	}
	return http.StatusOK, map[string]any{"value": value}, err
}

// list is one of those of vCenter. Each filter of a list has a number, and all of them have to hold.
func (d *door) list(path string, query url.Values) (any, error) {
	kind, ok := lists[path]
	if !ok {
		return nil, refusal{http.StatusNotFound, "operation_not_found", path}
	}
	for name := range query {
		known := false
		for _, filter := range kind.filters {
			known = known || name == "filter."+filter+".1"
		}
		if !known {
			return nil, refuse("invalid_argument", "%s has no parameter %s", path, name)
		}
	}
	all, err := d.entities()
	if err != nil {
		return nil, err
	}
	holds := func(filter, value string) bool {
		wanted, given := query["filter."+filter+".1"]
		return !given || wanted[0] == value
	}
	found := []map[string]string{}
	for id, one := range all {
		parent := ""
		if one.Parent != nil {
			parent = one.Parent.Value
		}
		fits := all.is(id, kind.kinds...) && holds("names", one.Name) && holds("datacenters", all.datacenter(id)) &&
			holds("parent_folders", parent) && holds("parent_resource_pools", parent) && holds("folders", parent)
		if fits && path == "vm" {
			// A template is no machine there.
			vm, err := d.virtual(id)
			if err != nil {
				return nil, err
			}
			fits = !vm.Config.Template
		}
		if fits {
			found = append(found, map[string]string{kind.id: id, "name": one.Name})
		}
	}
	return found, nil
}

func (d *door) ofDatacenter(id string) (any, error) {
	all, err := d.entities()
	if err != nil {
		return nil, err
	}
	if !all.is(id, "Datacenter") {
		return nil, refusal{http.StatusNotFound, "not_found", id}
	}
	var dc mo.Datacenter
	ref := all[id].Self
	err = object.NewDatacenter(d.client, ref).Properties(context.Background(), ref, nil, &dc)
	return map[string]string{
		"name": dc.Name, "vm_folder": dc.VmFolder.Value, "host_folder": dc.HostFolder.Value,
		"datastore_folder": dc.DatastoreFolder.Value, "network_folder": dc.NetworkFolder.Value,
	}, err
}

func (d *door) ofCluster(id string) (any, error) {
	all, err := d.entities()
	if err != nil {
		return nil, err
	}
	if !all.is(id, "ClusterComputeResource") {
		return nil, refusal{http.StatusNotFound, "not_found", id}
	}
	var cluster mo.ClusterComputeResource
	ref := all[id].Self
	err = object.NewClusterComputeResource(d.client, ref).Properties(context.Background(), ref, []string{"name", "resourcePool"}, &cluster)
	if err != nil {
		return nil, err
	}
	return map[string]string{"name": cluster.Name, "resource_pool": cluster.ResourcePool.Value}, nil
}

// remove deletes a machine that does not run. Each is busy when that is asked for first.
func (d *door) remove(id string) error {
	all, err := d.entities()
	if err != nil {
		return err
	}
	if !all.is(id, "VirtualMachine") {
		return refusal{http.StatusNotFound, "not_found", id}
	}
	vm, err := d.virtual(id)
	switch {
	case err != nil:
		return err
	case vm.Config.Template:
		return refusal{http.StatusNotFound, "not_found", id + " is a template"}
	case vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn:
		return refuse("not_allowed_in_current_state", "%s is powered on", id)
	case !d.busy[id]:
		d.busy[id] = true
		return refuse("resource_busy", "%s has another task", id)
	}
	task, err := object.NewVirtualMachine(d.client, all[id].Self).Destroy(context.Background())
	if err != nil {
		return err
	}
	return task.Wait(context.Background())
}
