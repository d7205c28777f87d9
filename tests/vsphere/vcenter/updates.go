package main

// What update sessions and their files do.

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/ovf"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
)

func (d *door) begin(r *http.Request, body []byte) (int, any, error) {
	var spec struct {
		Spec library.Session `json:"create_spec"`
	}
	if err := strict(body, &spec); err != nil {
		return 0, nil, err
	}
	for id, one := range d.updates {
		if one.item == spec.Spec.LibraryItemID && d.state(r, id) == "ACTIVE" {
			return 0, nil, refuse("not_allowed_in_current_state", "The item has a session already.")
		}
	}
	status, answer, err := d.pass(r, body)
	var made struct {
		Value string `json:"value"`
	}
	text, _ := answer.([]byte)
	if err == nil && json.Unmarshal(text, &made) == nil && made.Value != "" {
		d.updates[made.Value] = &update{item: spec.Spec.LibraryItemID}
	}
	return status, answer, err
}

func (d *door) add(r *http.Request, id string, body []byte) (any, error) {
	var spec struct {
		Spec library.UpdateFile `json:"file_spec"`
	}
	if err := strict(body, &spec); err != nil {
		return nil, err
	}
	if err := d.active(r, id); err != nil {
		return nil, err
	}
	asked := spec.Spec
	if asked.SourceType != "PUSH" || asked.Checksum == nil || asked.Checksum.Algorithm != "SHA256" {
		return nil, refuse("invalid_argument", "The tests want a digest of each file.")
	}
	_, answer, err := d.pass(r, body)
	if err != nil {
		return nil, err
	}
	var made struct {
		Value library.UpdateFile `json:"value"`
	}
	if err := json.Unmarshal(answer.([]byte), &made); err != nil {
		return nil, err
	}
	uri := made.Value.UploadEndpoint.URI
	one := &file{UpdateFile: made.Value, target: uri}
	one.Size = asked.Size
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	_, rest, _ := strings.Cut(uri, "/rest/")
	one.UploadEndpoint.URI = scheme + "://" + r.Host + "/rest/" + rest
	// A file of the same name gets new content.
	u := d.of(id)
	u.files = slices.DeleteFunc(u.files, func(f *file) bool { return f.Name == one.Name })
	u.files = append(u.files, one)
	return one.UpdateFile, nil
}

func (d *door) put(r *http.Request, body []byte) error {
	for id, u := range d.updates {
		for _, one := range u.files {
			if !strings.HasSuffix(one.UploadEndpoint.URI, r.URL.Path) {
				continue
			}
			if err := d.active(r, id); err != nil {
				return err
			}
			one.Status, one.BytesTransferred = "READY", int64(len(body))
			if sum := fmt.Sprintf("%x", sha256.Sum256(body)); sum != one.Checksum.Checksum || one.Size != int64(len(body)) {
				one.Status = "ERROR"
				one.ErrorMessage = &rest.LocalizableMessage{DefaultMessage: "The checksum is " + sum}
				return nil
			}
			one.bytes = body
			return nil
		}
	}
	return refusal{http.StatusNotFound, "not_found", "no such upload"}
}

func (d *door) named(action, id string, body []byte) (any, error) {
	var spec struct {
		Name string `json:"file_name"`
	}
	if err := strict(body, &spec); err != nil {
		return nil, err
	}
	u := d.of(id)
	if action == "remove" {
		u.removed = append(u.removed, spec.Name)
		return nil, nil
	}
	for _, one := range u.files {
		if one.Name == spec.Name {
			return one.UpdateFile, nil
		}
	}
	return nil, refusal{http.StatusNotFound, "not_found", spec.Name}
}

// after is what the item has when a session is completed.
func (d *door) after(u *update) []file {
	gone := slices.Clone(u.removed)
	for _, one := range u.files {
		gone = append(gone, one.Name)
	}
	kept := slices.DeleteFunc(slices.Clone(d.items[u.item]), func(f file) bool { return slices.Contains(gone, f.Name) })
	for _, one := range u.files {
		if one.Status == "READY" {
			kept = append(kept, *one)
		}
	}
	return kept
}

func (d *door) validate(id string) (any, error) {
	found := library.UpdateFileValidation{}
	u := d.of(id)
	names := []string{}
	var envelope *ovf.Envelope
	for _, one := range d.after(u) {
		names = append(names, one.Name)
		if strings.HasSuffix(one.Name, ".ovf") {
			var err error
			if envelope, err = ovf.Unmarshal(bytes.NewReader(one.bytes)); err != nil {
				message := rest.LocalizableMessage{DefaultMessage: err.Error()}
				found.InvalidFiles = append(found.InvalidFiles, library.FileValidationError{Name: one.Name, ErrorMessage: message})
			}
		}
	}
	if envelope != nil {
		for _, one := range envelope.References {
			if !slices.Contains(names, one.Href) {
				found.MissingFiles = append(found.MissingFiles, one.Href)
			}
		}
	}
	found.HasErrors = envelope == nil || len(found.MissingFiles)+len(found.InvalidFiles) > 0
	return found, nil
}

// complete gives vcsim the files, which shows what it gets at once.
func (d *door) complete(r *http.Request, id string) error {
	if err := d.active(r, id); err != nil {
		return err
	}
	u := d.of(id)
	for _, one := range u.files {
		if one.Status != "READY" {
			return refuse("not_allowed_in_current_state", "%s is %s.", one.Name, one.Status)
		}
		asked, err := http.NewRequest(http.MethodPut, one.target, bytes.NewReader(one.bytes))
		if err != nil {
			return err
		}
		asked.Header.Set(header, r.Header.Get(header))
		answer, err := http.DefaultClient.Do(asked)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
	}
	d.items[u.item] = d.after(u)
	return nil
}
