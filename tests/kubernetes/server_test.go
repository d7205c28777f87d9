//go:build server

package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clients "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	servertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"sigs.k8s.io/yaml"
)

// cluster is a kube-apiserver with the admission plugins and the authorization of kubeadm's, and etcd, on this machine's own addresses.
type cluster struct {
	client *clients.Clientset
	mapper meta.RESTMapper
}

func started(t *testing.T) *cluster {
	t.Helper()
	etcd := testserver.NewTestConfig(t)
	testserver.RunEtcd(t, etcd)
	storage := storagebackend.NewDefaultConfig("registry", nil)
	storage.Transport.ServerList = []string{etcd.ListenClientUrls[0].String()}
	// As kubeadm starts it.
	flags := []string{"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"}
	server := servertesting.StartTestServerOrDie(t, nil, flags, storage)
	t.Cleanup(server.TearDownFn)
	if !strings.HasPrefix(server.ClientConfig.Host, "https://127.0.0.1:") {
		t.Fatalf("the server is at %s", server.ClientConfig.Host)
	}
	config := *server.ClientConfig
	config.QPS, config.Burst = -1, -1
	client, err := clients.NewForConfig(&config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	made := &cluster{client: client, mapper: restmapper.NewDiscoveryRESTMapper(groups)}
	made.populate(t)
	return made
}

// populate makes what others bring: the controllers of a cluster, kubeadm, and Flannel's manifest for Linux. In `default` there are
// accounts of the same names.
func (c *cluster) populate(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	flannel := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel"}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, flannel, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	accounts := map[string][]string{
		"default":      {"default", "flannel", "kube-proxy"},
		"kube-flannel": {"default", "flannel"},
		"kube-system":  {"default", "kube-proxy"},
	}
	for namespace, names := range accounts {
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			_, err := c.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return err == nil, nil
		})
		if err != nil {
			t.Fatalf("%s: %v", namespace, err)
		}
		for _, name := range names {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := c.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// create posts a document as it is written, as `kubectl create --validate=strict`.
func (c *cluster) create(t *testing.T, document []byte) error {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(document, &object.Object); err != nil {
		t.Fatal(err)
	}
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		t.Fatal(err)
	}
	path := "/apis/" + mapping.Resource.GroupVersion().String()
	if mapping.Resource.Group == "" {
		path = "/api/v1"
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		path += "/namespaces/" + object.GetNamespace()
	}
	post := c.client.CoreV1().RESTClient().Post().AbsPath(path, mapping.Resource.Resource)
	post = post.SetHeader("Content-Type", "application/yaml").Param("fieldValidation", metav1.FieldValidationStrict)
	return post.Body(document).Do(t.Context()).Error()
}

// admitted asks the server for the pod without keeping it. An ephemeral container only comes to a pod that is there.
func (c *cluster) admitted(t *testing.T) judge {
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	return func(made *corev1.Pod) error {
		pods := c.client.CoreV1().Pods(made.Namespace)
		ephemeral := made.Spec.EphemeralContainers
		if len(ephemeral) == 0 {
			_, err := pods.Create(t.Context(), made, dry)
			return err
		}
		plain := made.DeepCopy()
		plain.Spec.EphemeralContainers = nil
		kept, err := pods.Create(t.Context(), plain, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			now := int64(0)
			if err := pods.Delete(context.Background(), kept.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Error(err)
			}
		}()
		kept.Spec.EphemeralContainers = ephemeral
		_, err = pods.UpdateEphemeralContainers(t.Context(), kept.Name, kept, metav1.UpdateOptions{DryRun: dry.DryRun})
		return err
	}
}

// dryRun is a Job judged whole by the server, as `kubectl apply --dry-run=server --validate=strict`.
func (c *cluster) dryRun(t *testing.T, document []byte) error {
	t.Helper()
	post := c.client.BatchV1().RESTClient().Post().Namespace("default").Resource("jobs").Param("dryRun", metav1.DryRunAll)
	post = post.SetHeader("Content-Type", "application/yaml").Param("fieldValidation", metav1.FieldValidationStrict)
	return post.Body(document).Do(t.Context()).Error()
}

func (c *cluster) theJobsOfAPipelineAreTaken(t *testing.T) {
	t.Helper()
	taken := 0
	for file, documents := range rendered(t) {
		for _, document := range documents {
			if err := c.dryRun(t, document); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			taken++
			for right, wrong := range map[string]string{
				"podFailurePolicy:":      "podFailurePolicies:",
				"restartPolicy: Never":   "restartPolicy: OnFailure",
				"emptyDir:":              "emptyDirectory:",
				"operator: In":           "operator: Is",
				"kind: Job\nmetadata:\n": "kind: Job\nmetadata:\n  generation: x\n",
			} {
				changed := bytes.Replace(document, []byte(right), []byte(wrong), 1)
				if bytes.Equal(changed, document) || c.dryRun(t, changed) == nil {
					t.Errorf("%s: %s was taken", file, wrong)
				}
			}
		}
	}
	if taken != 11 {
		t.Errorf("%d Jobs", taken)
	}
}

func TestAServersJudgement(t *testing.T) {
	cluster := started(t)
	admitted := cluster.admitted(t)
	cluster.unknownFieldsAreRefused(t)
	cluster.theJobsOfAPipelineAreTaken(t)
	for _, file := range []string{"flannel.yaml", "kube-proxy.yaml"} {
		for number, document := range written(t, file) {
			if err := cluster.create(t, document); err != nil {
				t.Errorf("%s, document %d: %v", file, number, err)
			}
		}
	}
	// What refuses it below is the policy.
	reaching := pod(`\\.\pipe\rancher_wins`)
	if err := admitted(reaching); err != nil {
		t.Fatalf("before the policy: %v", err)
	}
	for number, document := range written(t, "wins-policy.yaml") {
		if err := cluster.create(t, document); err != nil {
			t.Fatalf("wins-policy.yaml, document %d: %v", number, err)
		}
	}
	// The server takes a moment to read it.
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return admitted(reaching) != nil, nil
	})
	if err != nil {
		t.Fatalf("the policy is not obeyed: %v", err)
	}
	judged(t, admitted)

	// Not only asked: a harmless pod is there afterwards.
	made, err := cluster.client.CoreV1().Pods("default").Create(t.Context(), pod(`C:\var\log\pods`), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.client.CoreV1().Pods("default").Get(t.Context(), made.Name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// unknownFieldsAreRefused shows that what the server takes it has read whole.
func (c *cluster) unknownFieldsAreRefused(t *testing.T) {
	t.Helper()
	for field, file := range map[string]string{"priorityClassName": "kube-proxy.yaml", "matchConditions": "wins-policy.yaml"} {
		refused := false
		for _, document := range written(t, file) {
			wrong := bytes.Replace(document, []byte(field+":"), []byte("x"+field+":"), 1)
			if !bytes.Equal(wrong, document) {
				err := c.create(t, wrong)
				refused = err != nil && strings.Contains(err.Error(), fmt.Sprintf("x%s\"", field))
			}
		}
		if !refused {
			t.Errorf("%s: x%s was not refused", file, field)
		}
	}
}
