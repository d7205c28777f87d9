package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	rpc     = "/rest/com/vmware/"
	session = rpc + "cis/session"
	libs    = rpc + "content/library"
	item    = rpc + "content/library/item"
	upd     = rpc + "content/library/item/update-session"
	files   = rpc + "content/library/item/updatesession/file"
	data    = rpc + "cis/data/"
	header  = "vmware-api-session-id"
	errs    = "com.vmware.vapi.std.errors."
)

// file is one of an item or of an update session.
type file struct {
	library.UpdateFile
	// Where vcsim takes it.
	target string
	bytes  []byte
}

// update is what an update session is to change.
type update struct {
	item    string
	files   []*file
	removed []string
}

// door does what vCenter's documentation says of update sessions and vcsim does not: files are seen when their session is completed,
// their digests are compared and named, an item has one active session, and what has no meaning is refused. It lists the inventory, and
// refuses of deployments and templates what vCenter refuses. All else is vcsim's.
// (vSphere Automation API: UpdateSession, its File, item File)
type door struct {
	sync.Mutex
	vcsim   string
	folder  string
	client  *vim25.Client
	updates map[string]*update
	items   map[string][]file
	// What was answered to deployments, by their tokens.
	tokens map[string][]byte
	// Of items, by their identifiers.
	templates map[string]types.ManagedObjectReference
	// Machines that were asked once already to be removed.
	busy map[string]bool
}

// refusal is vCenter's word for what it does not do.
type refusal struct {
	status int
	kind   string
	words  string
}

func (r refusal) Error() string { return r.kind + ": " + r.words }

func refuse(kind, words string, values ...any) error {
	return refusal{http.StatusBadRequest, kind, fmt.Sprintf(words, values...)}
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.Lock()
	defer d.Unlock()
	body, err := io.ReadAll(r.Body)
	// The client went away in the middle: nothing came.
	if err != nil {
		return
	}
	d.note(r)
	status, answer, err := d.answer(r, body)
	var refused refusal
	if errors.As(err, &refused) {
		message := map[string]any{"args": []string{}, "id": "refused", "default_message": refused.words}
		status, answer = refused.status, map[string]any{
			"type": errs + refused.kind, "value": map[string]any{"messages": []any{message}},
		}
	} else if err != nil {
		log.Printf("%s %s: %v", r.Method, r.URL, err)
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if raw, ok := answer.([]byte); ok {
		_, _ = w.Write(raw)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// note keeps the request, with the session it is of, for the tests that ask what was sent.
func (d *door) note(r *http.Request) {
	path := filepath.Join(d.folder, "requests")
	out, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintf(out, "%s %s %s\n", r.Method, r.URL.Path, r.Header.Get(header))
		_ = out.Close()
	}
}

func (d *door) answer(r *http.Request, body []byte) (int, any, error) {
	if r.Header.Get("Cookie") != "" {
		return 0, nil, refuse("invalid_argument", "a cookie, though the login asked for none")
	}
	path, id, _ := strings.Cut(r.URL.Path, "/id:")
	action := r.URL.Query().Get("~action")
	what := strings.TrimSpace(r.Method + " " + path + " " + action)
	if id != "" {
		what += " of one"
	}
	if what != "POST "+session {
		if err := d.known(r); err != nil {
			return 0, nil, err
		}
	}
	if one, found := strings.CutPrefix(path, templates+"/"); found && r.Method == http.MethodGet {
		return d.ofTemplate(r, one)
	}
	var value any
	var err error
	switch what {
	case "POST " + deploys + " deploy of one":
		return d.deploy(r, id, body)
	case "POST " + templates:
		return d.template(r, body)
	case "POST " + session, "DELETE " + session, "GET " + libs + " of one", "GET " + item + " of one",
		"GET " + upd, "GET " + upd + " of one", "POST " + upd + " keep-alive of one":
		return d.pass(r, body)
	case "POST " + libs + " find":
		return d.read(r, body, new(struct {
			Spec library.Find `json:"spec"`
		}))
	case "POST " + item + " find":
		return d.read(r, body, new(struct {
			Spec library.FindItem `json:"spec"`
		}))
	case "POST " + item:
		return d.read(r, body, new(struct {
			Spec library.Item `json:"create_spec"`
		}))
	case "PATCH " + item + " of one":
		return d.change(r, id, body)
	case "GET " + item + "/file":
		value = d.listed(r.URL.Query().Get("library_item_id"))
	case "POST " + upd:
		return d.begin(r, body)
	case "POST " + upd + " cancel of one":
		d.updates[id] = &update{item: d.of(id).item}
		return d.pass(r, body)
	case "DELETE " + upd + " of one":
		delete(d.updates, id)
		return d.pass(r, body)
	case "POST " + upd + " complete of one":
		if err := d.complete(r, id); err != nil {
			return 0, nil, err
		}
		return d.pass(r, body)
	case "GET " + files:
		all := []library.UpdateFile{}
		for _, one := range d.of(r.URL.Query().Get("update_session_id")).files {
			all = append(all, one.UpdateFile)
		}
		value = all
	case "POST " + files + " add of one":
		value, err = d.add(r, id, body)
	case "POST " + files + " get of one", "POST " + files + " remove of one":
		value, err = d.named(action, id, body)
	case "POST " + files + " validate of one":
		value, err = d.validate(id)
	default:
		if r.Method == http.MethodPut && strings.HasPrefix(path, data) {
			return http.StatusOK, map[string]any{}, d.put(r, body)
		}
		if strings.HasPrefix(path, inventory) {
			return d.asked(r)
		}
		log.Printf("no request of the content library: %s", what)
		return 0, nil, refusal{http.StatusNotImplemented, "operation_not_found", what}
	}
	return http.StatusOK, map[string]any{"value": value}, err
}

// known asks vcsim whether the session is one.
func (d *door) known(r *http.Request) error {
	asked, _ := http.NewRequest(http.MethodPost, "http://"+d.vcsim+session+"?~action=get", nil)
	asked.Header.Set(header, r.Header.Get(header))
	answer, err := http.DefaultClient.Do(asked)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refusal{http.StatusUnauthorized, "unauthenticated", "Unable to authenticate user"}
	}
	return nil
}

// pass lets vcsim answer.
func (d *door) pass(r *http.Request, body []byte) (int, any, error) {
	asked, err := http.NewRequest(r.Method, "http://"+d.vcsim+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	asked.Header = r.Header.Clone()
	answer, err := http.DefaultClient.Do(asked)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// tell has vcsim do something by the session of a request.
func (d *door) tell(r *http.Request, method, path string, body []byte) error {
	asked, err := http.NewRequest(method, "http://"+d.vcsim+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	asked.Header.Set(header, r.Header.Get(header))
	answer, err := http.DefaultClient.Do(asked)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return nil
}

// get asks vcsim by the session of a request.
func (d *door) get(r *http.Request, path string, into any) error {
	asked, err := http.NewRequest(http.MethodGet, "http://"+d.vcsim+path, nil)
	if err != nil {
		return err
	}
	asked.Header.Set(header, r.Header.Get(header))
	answer, err := http.DefaultClient.Do(asked)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// strict reads a body of which every member means something.
func strict(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refuse("invalid_argument", "%v", err)
	}
	return nil
}

func (d *door) read(r *http.Request, body []byte, into any) (int, any, error) {
	if err := strict(body, into); err != nil {
		return 0, nil, err
	}
	return d.pass(r, body)
}

func (d *door) of(id string) *update {
	if found, ok := d.updates[id]; ok {
		return found
	}
	return &update{}
}

func (d *door) listed(id string) []library.File {
	all := []library.File{}
	for _, one := range d.items[id] {
		size := int64(len(one.bytes))
		all = append(all, library.File{Name: one.Name, Size: &size, Version: "1", Checksum: one.Checksum})
	}
	return all
}

// state is vcsim's.
func (d *door) state(r *http.Request, id string) string {
	var found struct {
		Value library.Session `json:"value"`
	}
	_ = d.get(r, upd+"/id:"+id, &found)
	return found.Value.State
}

func (d *door) active(r *http.Request, id string) error {
	if state := d.state(r, id); state != "ACTIVE" {
		return refuse("not_allowed_in_current_state", "The session is %q.", state)
	}
	return nil
}
