package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const (
	machine = "/computeMetadata/v1/instance/service-accounts/default/token"
	sts     = "/sts/v1/token"
	scope   = "https://www.googleapis.com/auth/devstorage.read_write"
	uploads = "/upload/storage/v1/b/"
	// Of a piece that is not the last one, and of what is kept of one that breaks off.
	unit = 256 << 10
	// A token is good for so many requests; real ones run out by time.
	good = 12
)

// upload is a resumable one that was begun.
type upload struct {
	bucket     string
	generation string
	resource   resource
	bytes      []byte
	size       int
	done       []byte
}

// resource is what an upload may say of an object. (Cloud Storage JSON API: Objects)
type resource struct {
	Name        string            `json:"name"`
	ContentType string            `json:"contentType"`
	MD5Hash     string            `json:"md5Hash"`
	Metadata    map[string]string `json:"metadata"`
}

// door does what Cloud Storage's documentation says and fake-gcs-server does not: it knows tokens, takes the pieces of an upload in their
// order alone, keeps what came of one that broke off, says how far an upload is, and compares the digest that it was told. All else is
// fake-gcs-server's. (Cloud Storage: resumable uploads; Google Cloud: VM metadata, Security Token Service)
type door struct {
	sync.Mutex
	storage string
	folder  string
	tokens  map[string]int
	uploads map[string]*upload
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.Lock()
	defer d.Unlock()
	body, broken := io.ReadAll(r.Body)
	switch {
	case r.URL.Path == machine && r.Method == http.MethodGet:
		d.metadata(w, r)
		return
	case r.URL.Path == sts && r.Method == http.MethodPost:
		d.exchange(w, body)
		return
	}
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || d.tokens[token] == 0 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://accounts.google.com/"`)
		refuse(w, http.StatusUnauthorized, "authError", "Invalid Credentials")
		return
	}
	d.tokens[token]--
	d.note(r)
	if strings.Contains(r.URL.Path, "/b/foreign/") {
		refuse(w, http.StatusForbidden, "forbidden", "publisher@example.iam.gserviceaccount.com does not have storage.objects.list access to the Google Cloud Storage bucket. Permission 'storage.objects.list' denied on resource (or it may not exist).")
		return
	}
	id := r.URL.Query().Get("upload_id")
	switch {
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/storage/v1/b/"):
		d.pass(w, r.Method, r.URL.RequestURI(), nil, "")
	case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, uploads):
		d.begin(w, r, body)
	case r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, uploads) && id != "":
		d.put(w, r, id, body, broken)
	default:
		refuse(w, http.StatusBadRequest, "invalid", "this door has no such request: "+r.Method+" "+r.URL.Path)
	}
}

// note keeps the request for the tests that ask what was sent.
func (d *door) note(r *http.Request) {
	out, err := os.OpenFile(filepath.Join(d.folder, "requests"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintf(out, "%s %s %s\n", r.Method, r.URL.Path, r.Header.Get("Content-Range"))
		_ = out.Close()
	}
}

func (d *door) metadata(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata-Flavor") != "Google" || r.Header.Get("X-Forwarded-For") != "" || r.URL.Query().Get("scopes") != scope {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	d.give(w)
}

func (d *door) exchange(w http.ResponseWriter, body []byte) {
	form, err := url.ParseQuery(string(body))
	for name, value := range map[string]string{
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
		"audience":             "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/ci/providers/ci",
		"subject_token_type":   "urn:ietf:params:oauth:token-type:jwt",
		"subject_token":        "hunter2.of.the.workload",
		"scope":                scope,
	} {
		if err != nil || form.Get(name) != value {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"%s"}`, name)
			return
		}
	}
	d.give(w)
}

func (d *door) give(w http.ResponseWriter) {
	token := fmt.Sprintf("ya29.hunter2-%d", len(d.tokens)+1)
	d.tokens[token] = good
	answer(w, http.StatusOK, map[string]any{
		"access_token": token, "expires_in": 3599, "token_type": "Bearer",
		"issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
	})
}

func (d *door) begin(w http.ResponseWriter, r *http.Request, body []byte) {
	query := r.URL.Query()
	bucket := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, uploads), "/o")
	if query.Get("uploadType") != "resumable" || query.Get("ifGenerationMatch") == "" || len(query) != 2 {
		refuse(w, http.StatusBadRequest, "invalid", "this is not how an upload is begun: "+r.URL.RawQuery)
		return
	}
	one := &upload{bucket: bucket, generation: query.Get("ifGenerationMatch"), size: -1}
	reader := json.NewDecoder(bytes.NewReader(body))
	reader.DisallowUnknownFields()
	if err := reader.Decode(&one.resource); err != nil || one.resource.Name == "" || one.resource.MD5Hash == "" {
		refuse(w, http.StatusBadRequest, "parseError", fmt.Sprint("no resource of an object: ", err))
		return
	}
	if _, err := fmt.Sscan(r.Header.Get("X-Upload-Content-Length"), &one.size); err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "no X-Upload-Content-Length")
		return
	}
	id := "hunter2-" + rand.Text()
	d.uploads[id] = one
	w.Header().Set("Location", fmt.Sprintf("http://%s%s%s/o?uploadType=resumable&upload_id=%s", r.Host, uploads, bucket, id))
	w.WriteHeader(http.StatusOK)
}

func (d *door) put(w http.ResponseWriter, r *http.Request, id string, body []byte, broken error) {
	one := d.uploads[id]
	if one == nil {
		refuse(w, http.StatusNotFound, "notFound", "no such upload")
		return
	}
	if one.done != nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(one.done)
		return
	}
	var first, last, size int
	said := r.Header.Get("Content-Range")
	if _, err := fmt.Sscanf(said, "bytes */%d", &size); err == nil && len(body) == 0 && size == one.size {
		one.reached(w)
		return
	}
	if _, err := fmt.Sscanf(said, "bytes %d-%d/%d", &first, &last, &size); err != nil || size != one.size {
		refuse(w, http.StatusBadRequest, "invalid", "Content-Range: "+said)
		return
	}
	length := last - first + 1
	if first != len(one.bytes) || (last+1 != size && length%unit != 0) {
		refuse(w, http.StatusBadRequest, "invalid", fmt.Sprintf("%d bytes are there: %s", len(one.bytes), said))
		return
	}
	if broken != nil || len(body) != length {
		one.bytes = append(one.bytes, body[:len(body)/unit*unit]...)
		return
	}
	one.bytes = append(one.bytes, body...)
	if len(one.bytes) < one.size {
		one.reached(w)
		return
	}
	if one.done = d.finish(w, one); one.done == nil {
		delete(d.uploads, id)
	}
}

func (u *upload) reached(w http.ResponseWriter) {
	if len(u.bytes) > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(u.bytes)-1))
	}
	w.WriteHeader(http.StatusPermanentRedirect)
}

// finish makes the object, whose digest and generation fake-gcs-server compares, and answers; nil where it refused.
func (d *door) finish(w http.ResponseWriter, one *upload) []byte {
	var whole bytes.Buffer
	parts := multipart.NewWriter(&whole)
	described, _ := json.Marshal(one.resource)
	for kind, bytes := range []([]byte){described, one.bytes} {
		header := textproto.MIMEHeader{"Content-Type": {[]string{"application/json", one.resource.ContentType}[kind]}}
		part, _ := parts.CreatePart(header)
		_, _ = part.Write(bytes)
	}
	_ = parts.Close()
	path := fmt.Sprintf("%s%s/o?uploadType=multipart&ifGenerationMatch=%s", uploads, one.bucket, one.generation)
	return d.pass(w, http.MethodPost, path, whole.Bytes(), "multipart/related; boundary="+parts.Boundary())
}

// pass asks fake-gcs-server and hands its answer on; the answer, if it is a good one.
func (d *door) pass(w http.ResponseWriter, method, path string, body []byte, kind string) []byte {
	request, err := http.NewRequest(method, d.storage+path, bytes.NewReader(body))
	if err == nil {
		request.Header.Set("Content-Type", kind)
		var given *http.Response
		if given, err = http.DefaultClient.Do(request); err == nil {
			defer given.Body.Close()
			text, _ := io.ReadAll(given.Body)
			w.Header().Set("Content-Type", given.Header.Get("Content-Type"))
			w.WriteHeader(given.StatusCode)
			_, _ = w.Write(text)
			if given.StatusCode == http.StatusOK {
				return text
			}
			return nil
		}
	}
	refuse(w, http.StatusInternalServerError, "backendError", err.Error())
	return nil
}

func refuse(w http.ResponseWriter, status int, reason, words string) {
	one := map[string]any{"domain": "global", "reason": reason, "message": words}
	answer(w, status, map[string]any{"error": map[string]any{"code": status, "message": words, "errors": []any{one}}})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
