// Command vcenter is vSphere's simulator, vcsim, behind a door that is as strict about content libraries as the documentation of
// vCenter is, and vSphere's client, govc.
//
//	vcenter serve FOLDER [NUMBER]   listens until it is killed; FOLDER/started says where. So many datacenters, and in each so many
//	                                clusters and datastores, and pools in each cluster
//	vcenter govc COMMAND…           runs govc
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/cli"
	_ "github.com/vmware/govmomi/cli/folder"
	_ "github.com/vmware/govmomi/cli/library"
	_ "github.com/vmware/govmomi/cli/vm"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) > 2 && os.Args[1] == "govc" {
		os.Exit(cli.Run(os.Args[2:]))
	}
	if len(os.Args) < 3 || len(os.Args) > 4 || os.Args[1] != "serve" {
		log.Fatal("vcenter serve FOLDER [NUMBER] | vcenter govc COMMAND…")
	}
	several := 1
	if len(os.Args) == 4 {
		var err error
		if several, err = strconv.Atoi(os.Args[3]); err != nil {
			log.Fatal(err)
		}
	}
	if err := serve(os.Args[2], several); err != nil {
		log.Fatal(err)
	}
}

func serve(folder string, several int) error {
	model := simulator.VPX()
	model.Datacenter, model.Cluster, model.Datastore = several, several, several
	if several > 1 {
		model.Pool = several
	}
	if err := model.Create(); err != nil {
		return err
	}
	// Any other login is refused; vcsim's own would let all in.
	login := url.UserPassword("publisher@vsphere.local", "hunter2hunter2")
	model.Service.Listen = &url.URL{User: login, Host: "127.0.0.1:0"}
	return model.Run(func(ctx context.Context, client *vim25.Client) error {
		registry := simulator.Map(ctx)
		manager := registry.Get(*client.ServiceContent.OvfManager).(*simulator.OvfManager)
		registry.Put(&ovfManager{manager})
		address := *client.URL()
		door := &door{
			vcsim: address.Host, folder: folder, client: client, updates: map[string]*update{}, items: map[string][]file{},
			tokens: map[string][]byte{}, templates: map[string]types.ManagedObjectReference{}, busy: map[string]bool{},
		}
		plain, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		secure, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		certificate, err := certified(filepath.Join(folder, "ca.pem"))
		if err != nil {
			return err
		}
		go func() {
			log.Fatal(http.Serve(tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{*certificate}}), door))
		}()
		address.User = login
		text := fmt.Sprintf("%d\n%d\n%s\n", port(plain), port(secure), address.String())
		started := filepath.Join(folder, "started")
		if err := os.WriteFile(started+".new", []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Rename(started+".new", started); err != nil {
			return err
		}
		return http.Serve(plain, door)
	})
}

func port(listener net.Listener) int {
	return listener.Addr().(*net.TCPAddr).Port
}

// ovfManager shows vcsim, whose import knows no SATA and no NVMe controller, a SCSI one in their place.
type ovfManager struct {
	*simulator.OvfManager
}

func (m *ovfManager) CreateImportSpec(ctx *simulator.Context, req *types.CreateImportSpec) soap.HasFault {
	known := *req
	known.OvfDescriptor = strings.NewReplacer(
		"<rasd:ResourceType>20<", "<rasd:ResourceType>6<",
		"vmware.nvme.controller", "lsilogic",
		"vmware.sata.ahci", "lsilogic",
	).Replace(req.OvfDescriptor)
	return m.OvfManager.CreateImportSpec(ctx, &known)
}

// certified makes an authority, whose certificate goes into a file, and a server's certificate by it.
func certified(file string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vCenter's authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "vCenter"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	leaf, err := x509.CreateCertificate(rand.Reader, server, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}, nil
}
