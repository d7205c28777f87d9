// Command cloud is fake-gcs-server behind a door that is as strict about resumable uploads and credentials as the documentation of Cloud
// Storage is, and Google's own client.
//
//	cloud serve FOLDER              listens until it is killed; FOLDER/started says where
//	cloud get PORT BUCKET NAME      the object's bytes, by Google's client
//	cloud show PORT BUCKET          the objects with their sizes, types and metadata
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"cloud.google.com/go/storage"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"google.golang.org/api/iterator"
)

func main() {
	log.SetFlags(0)
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		err = serve(os.Args[2])
	case len(os.Args) == 5 && os.Args[1] == "get":
		err = get(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 4 && os.Args[1] == "show":
		err = show(os.Args[2], os.Args[3])
	default:
		err = errors.New("cloud serve FOLDER | cloud get PORT BUCKET NAME | cloud show PORT BUCKET")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(folder string) error {
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1"})
	if err != nil {
		return err
	}
	for _, name := range []string{"images", "foreign"} {
		fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: name})
	}
	door := &door{storage: fake.URL(), folder: folder, tokens: map[string]int{}, uploads: map[string]*upload{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%d\n%s\n", listener.Addr().(*net.TCPAddr).Port, fake.URL()[len("http://127.0.0.1:"):])
	started := filepath.Join(folder, "started")
	if err := os.WriteFile(started+".new", []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.Rename(started+".new", started); err != nil {
		return err
	}
	return http.Serve(listener, door)
}

func bucket(ctx context.Context, port, name string) (*storage.BucketHandle, error) {
	if err := os.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:"+port); err != nil {
		return nil, err
	}
	client, err := storage.NewClient(ctx, storage.WithJSONReads())
	if err != nil {
		return nil, err
	}
	return client.Bucket(name), nil
}

func get(port, name, object string) error {
	ctx := context.Background()
	bucket, err := bucket(ctx, port, name)
	if err != nil {
		return err
	}
	reader, err := bucket.Object(object).NewReader(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, reader)
	return err
}

func show(port, name string) error {
	ctx := context.Background()
	bucket, err := bucket(ctx, port, name)
	if err != nil {
		return err
	}
	all := bucket.Objects(ctx, nil)
	for {
		one, err := all.Next()
		if errors.Is(err, iterator.Done) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(one.Name, one.Size, one.ContentType, one.Metadata)
	}
}
