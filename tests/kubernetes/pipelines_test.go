package kubernetes

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// rendered is each document of what `winimg matrix render --engine kubernetes` writes, by file.
func rendered(t *testing.T) map[string][][]byte {
	t.Helper()
	files, err := filepath.Glob("../../target/pipelines/*-[123]-*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("%v: %v", files, err)
	}
	all := map[string][][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents := bytes.Split(text, []byte("\n---\n"))
		if !bytes.HasPrefix(documents[0], []byte("# ")) || bytes.ContainsRune(documents[0], '\n') {
			t.Fatalf("%s begins with %s", file, documents[0])
		}
		all[filepath.Base(file)] = documents[1:]
	}
	return all
}

func TestTheJobsOfAPipelineAreReadStrictly(t *testing.T) {
	found := 0
	for file, documents := range rendered(t) {
		for _, document := range documents {
			var job batchv1.Job
			if err := yaml.UnmarshalStrict(document, &job); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			found++
			if job.TypeMeta != (metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}) {
				t.Errorf("%s: %v", file, job.TypeMeta)
			}
			waits := job.Spec.Suspend != nil && *job.Spec.Suspend
			if waits != strings.Contains(file, "-3-publish") {
				t.Errorf("%s: %s: suspended: %v", file, job.Name, waits)
			}
			spec := job.Spec.Template.Spec
			for _, container := range append(spec.InitContainers, spec.Containers...) {
				for _, variable := range container.Env {
					isSecret := strings.HasPrefix(variable.Name, "WINIMG_") && variable.Name != "WINIMG_CACHE_DIR"
					if isSecret != (variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil) {
						t.Errorf("%s: %s: %s", file, job.Name, variable.Name)
					}
				}
				kvm := container.Resources.Limits["devices.kubevirt.io/kvm"]
				if kvm.Value() != 1 {
					t.Errorf("%s: %s: no KVM", file, job.Name)
				}
			}
		}
	}
	if found != 9 {
		t.Errorf("%d Jobs", found)
	}
}
