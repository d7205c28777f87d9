// Package pipelines judges the WorkflowTemplates that `winimg matrix render` writes as `argo lint --offline` does, by Argo's own code.
package pipelines

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/argoproj/argo-workflows/v3/pkg/apiclient"
	"github.com/argoproj/argo-workflows/v3/pkg/apiclient/workflowtemplate"
	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v3/workflow/common"
)

// lint says what is wrong with the one object in the file's text.
func lint(t *testing.T, file string, text []byte) error {
	t.Helper()
	copy := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(copy, text, 0o600); err != nil {
		t.Fatal(err)
	}
	parsed := common.ParseObjects(text, true)
	if len(parsed) != 1 {
		t.Fatalf("%s: %d objects", file, len(parsed))
	}
	if parsed[0].Err != nil {
		return parsed[0].Err
	}
	template := parsed[0].Object.(*wfv1.WorkflowTemplate)
	ctx, client, err := apiclient.NewClientFromOpts(apiclient.Opts{Offline: true, OfflineFiles: []string{copy}})
	if err != nil {
		t.Fatal(err)
	}
	templates, err := client.NewWorkflowTemplateServiceClient()
	if err != nil {
		t.Fatal(err)
	}
	_, err = templates.LintWorkflowTemplate(ctx, &workflowtemplate.WorkflowTemplateLintRequest{Namespace: "default", Template: template})
	return err
}

func TestArgoAcceptsWhatIsRendered(t *testing.T) {
	files, err := filepath.Glob("../../../target/pipelines/*.argo.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := lint(t, file, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestArgoRefusesMistakes(t *testing.T) {
	text, err := os.ReadFile("../../../target/pipelines/nodes.argo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for right, wrong := range map[string]string{
		"retryPolicy:":      "retryPolicies:",
		"template: \"build": "template: \"builds",
		"depends: \"build":  "depends: \"builds",
		"\"sh\"\n":          "\"{{inputs.parameters.none}}\"\n",
		"suspend: {}":       "suspended: {}",
	} {
		changed := bytes.Replace(text, []byte(right), []byte(wrong), 1)
		if bytes.Equal(changed, text) || lint(t, "nodes.argo.yaml", changed) == nil {
			t.Errorf("%s was accepted", wrong)
		}
	}
}
