// Package vsphere holds our files against vSphere's own client, govc, and its simulator of vCenter, vcsim.
package vsphere

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmware/govmomi/cli"
	_ "github.com/vmware/govmomi/cli/importx"
	_ "github.com/vmware/govmomi/cli/library"
	"github.com/vmware/govmomi/ovf"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vmdk"
)

// The files that tests/export/vsphere.rs has made, and what they hold.
const (
	capacity = 67 << 20
	guest    = "windows2019srvNext_64Guest"
)

// file names one of the files.
func file(t *testing.T, name string) string {
	folder := os.Getenv("WINIMG_EXPORTED")
	if folder == "" {
		t.Fatal("WINIMG_EXPORTED names no folder: make vsphere")
	}
	return filepath.Join(folder, name)
}

// govc runs one of its commands, which must end well.
func govc(t *testing.T, arguments ...string) {
	t.Helper()
	if status := cli.Run(arguments); status != 0 {
		t.Fatalf("govc %v ended with %d", arguments, status)
	}
}

// onVcenter runs the test against a vCenter of its own.
func onVcenter(t *testing.T, test func(context.Context, *vim25.Client)) {
	model := simulator.VPX()
	err := model.Run(func(ctx context.Context, client *vim25.Client) error {
		address := *client.URL()
		address.User = simulator.DefaultLogin
		t.Setenv("GOVC_URL", address.String())
		t.Setenv("GOVC_INSECURE", "true")
		t.Setenv("GOVC_PERSIST_SESSION", "false")
		t.Setenv("GOVC_RESOURCE_POOL", "/DC0/host/DC0_C0/Resources")
		test(ctx, client)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What vSphere's own types make of the descriptor. The simulator's import knows no SATA and no NVMe controller, so it is not asked.
func TestTheDescriptorIsAMachine(t *testing.T) {
	archive, err := os.Open(file(t, "demo.ova"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	members := tar.NewReader(archive)
	if _, err := members.Next(); err != nil {
		t.Fatal(err)
	}
	envelope, err := ovf.Unmarshal(members)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := envelope.ToConfigSpecWithOptions(ovf.ToConfigSpecOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if machine.GuestId != guest || machine.Firmware != "efi" {
		t.Errorf("guest %q, firmware %q", machine.GuestId, machine.Firmware)
	}
	var nvme, disks int
	for _, change := range machine.DeviceChange {
		switch device := change.GetVirtualDeviceConfigSpec().Device.(type) {
		case *types.VirtualNVMEController:
			nvme++
		case *types.VirtualDisk:
			disks++
			if device.CapacityInBytes != capacity {
				t.Errorf("a disk of %d bytes, not %d", device.CapacityInBytes, capacity)
			}
		}
	}
	if nvme != 1 || disks != 1 {
		t.Errorf("%d NVMe controllers, %d disks", nvme, disks)
	}
}

// without copies the OVA but for the members that end so.
func without(t *testing.T, ending string) string {
	from, err := os.Open(file(t, "demo.ova"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	copied := filepath.Join(t.TempDir(), "demo.ova")
	to, err := os.Create(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	members, out := tar.NewReader(from), tar.NewWriter(to)
	for {
		header, err := members.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(header.Name, ending) {
			continue
		}
		if err := out.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, members); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return copied
}

// The client sends each member with the digest that the manifest has; the simulator does not compute it.
func TestAContentLibraryTakesTheOvaWithItsManifest(t *testing.T) {
	ova, bare := file(t, "demo.ova"), without(t, ".mf")
	onVcenter(t, func(context.Context, *vim25.Client) {
		govc(t, "library.create", "images")
		if cli.Run([]string{"library.import", "-m", "images", bare}) == 0 {
			t.Error("without a manifest it was imported")
		}
		govc(t, "library.import", "-m", "images", ova)
		govc(t, "library.ls", "images/demo")
	})
}

// govc reads header and descriptor before it uploads a disk.
func TestTheVmdkIsImported(t *testing.T) {
	disk := file(t, "demo.vmdk")
	info, err := vmdk.Stat(disk)
	if err != nil {
		t.Fatal(err)
	}
	if info.Capacity != capacity {
		t.Errorf("a disk of %d bytes, not %d", info.Capacity, capacity)
	}
	onVcenter(t, func(context.Context, *vim25.Client) {
		govc(t, "import.vmdk", disk)
	})
}
