// Package kubernetes judges what recipes/kubeadm-wins puts into a cluster: by the API server's own admission code, and with the tag
// "server" by a whole kube-apiserver with etcd (server_test.go). Both get the same pods.
package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const folder = "../../recipes/kubeadm-wins"

// written is each document of a manifest as it stands in the file.
func written(t *testing.T, file string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(text, []byte("\n---\n"))
}

// documents reads a manifest as strictly as `kubectl --validate=strict`.
func documents(t *testing.T, file string) []runtime.Object {
	t.Helper()
	var found []runtime.Object
	for _, document := range written(t, file) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		object, err := scheme.Scheme.New(kind.GroupVersionKind())
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("%s: %s: %v", file, kind.Kind, err)
		}
		found = append(found, object)
	}
	return found
}

type everybody struct{}

func (everybody) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// defaulted is what the API server fills in (k8s.io/kubernetes: pkg/apis/admissionregistration/v1/defaults.go).
func defaulted(match *admissionv1.MatchResources) *admissionv1.MatchResources {
	if match == nil {
		match = &admissionv1.MatchResources{}
	}
	equivalent, all := admissionv1.Equivalent, admissionv1.AllScopes
	match.MatchPolicy = &equivalent
	match.NamespaceSelector, match.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
	for i := range match.ResourceRules {
		match.ResourceRules[i].Scope = &all
	}
	return match
}

// judge says why a pod is refused.
type judge func(*corev1.Pod) error

// plugin is the API server's plugin alone, with the policy of the folder.
func plugin(t *testing.T) judge {
	t.Helper()
	objects := documents(t, "wins-policy.yaml")
	policy := objects[0].(*admissionv1.ValidatingAdmissionPolicy)
	policy.Spec.MatchConstraints = defaulted(policy.Spec.MatchConstraints)
	binding := objects[1].(*admissionv1.ValidatingAdmissionPolicyBinding)
	if binding.Spec.MatchResources != nil {
		binding.Spec.MatchResources = defaulted(binding.Spec.MatchResources)
	}
	for _, name := range []string{"default", "kube-system", "kube-flannel"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	client := fake.NewSimpleClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, time.Hour)
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	plugin.SetRESTMapper(mapper)
	initializer.New(client, dynamicfake.NewSimpleDynamicClient(scheme.Scheme), factory, everybody{}, utilfeature.DefaultFeatureGate,
		compatibility.DefaultBuildEffectiveVersion(), t.Context().Done(), mapper).Initialize(plugin)
	plugin.SetEnabled(true)
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	interfaces := admission.NewObjectInterfacesFromScheme(scheme.Scheme)
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	return func(pod *corev1.Pod) error {
		asked := admission.NewAttributesRecord(pod, nil, kind, pod.Namespace, pod.Name, pods, "", admission.Create,
			&metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "somebody"})
		return plugin.Validate(t.Context(), asked, interfaces)
	}
}

func TestThePluginsJudgement(t *testing.T) {
	judged(t, plugin(t))
}

// judged shows what a judge takes and what it refuses.
func judged(t *testing.T, admitted judge) {
	for name, test := range map[string]func(*testing.T, judge){
		"pods are kept from the pipe":                podsAreKeptFromThePipe,
		"HostProcess containers are refused":         hostProcessContainersAreRefused,
		"Linux and the folder's pods are left alone": linuxAndTheFoldersOwnPodsAreLeftAlone,
	} {
		t.Run(name, func(t *testing.T) { test(t, admitted) })
	}
}

func pod(paths ...string) *corev1.Pod {
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default"}}
	made.Spec.Containers = []corev1.Container{{Name: "one", Image: "example.com/one"}}
	for number, path := range paths {
		source := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
		made.Spec.Volumes = append(made.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("volume-%d", number), VolumeSource: source})
	}
	return made
}

func podsAreKeptFromThePipe(t *testing.T, admitted judge) {
	refused := []string{
		`\\.\pipe\rancher_wins`, `//./pipe/rancher_wins`, `\\.\PIPE\Rancher_Wins`, `\\?\pipe\rancher_wins`, `\\.\pipe\.\rancher_wins`,
		`\\.\pipe\x\..\rancher_wins`, `\\.\pipe\rancher_wins.`, `\\.\pipe`, `\\localhost\pipe\rancher_wins`, `\\?\GLOBALROOT\Device\NamedPipe\rancher_wins`,
		`C:\k`, `c:/K`, `/k`, `C:\k\`, `C:\k\flannel`, `/K/kube-proxy`, `\\?\C:\k`, `\\.\C:\k`, `\\localhost\c$\k`, `C:\`, `C:`, `/`, `C:\etc\..\k`, `C:\.\k`,
		`C:\k.`, `C:\k `, `C:\k::$INDEX_ALLOCATION`, `C:\K~1`, `C:\\k`, `k`, `..\k`, `D:\k`,
	}
	for _, path := range refused {
		// Alone, and behind a harmless one.
		for _, made := range []*corev1.Pod{pod(path), pod(`C:\var\log\pods`, path)} {
			if err := admitted(made); err == nil || !strings.Contains(err.Error(), "a pod may not mount") {
				t.Errorf("%q of %d volumes: %v", path, len(made.Spec.Volumes), err)
			}
		}
	}
	for _, path := range []string{
		`C:\var\log\pods`, `/var/log`, `/etc/cni/net.d/`, `C:\kube`, `C:\var\k`, `\\.\pipe\csi-proxy-filesystem-v1`, `\\.\pipe\rancher_wins2`, `C:\Program Files\x`,
	} {
		if err := admitted(pod(path)); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	if err := admitted(pod()); err != nil {
		t.Error(err)
	}
}

func hostProcessContainersAreRefused(t *testing.T, admitted judge) {
	yes, no := true, false
	options := func(on *bool) *corev1.WindowsSecurityContextOptions {
		return &corev1.WindowsSecurityContextOptions{HostProcess: on}
	}
	places := map[string]func(*corev1.Pod, *bool){
		"pod": func(p *corev1.Pod, on *bool) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: options(on)}
		},
		"container": func(p *corev1.Pod, on *bool) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{WindowsOptions: options(on)}
		},
		"init container": func(p *corev1.Pod, on *bool) {
			made := corev1.Container{Name: "i", Image: "example.com/i", SecurityContext: &corev1.SecurityContext{WindowsOptions: options(on)}}
			p.Spec.InitContainers = []corev1.Container{made}
		},
		"ephemeral container": func(p *corev1.Pod, on *bool) {
			one := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "example.com/e"}}
			one.SecurityContext = &corev1.SecurityContext{WindowsOptions: options(on)}
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{one}
		},
	}
	for place, set := range places {
		host, plain := pod(), pod()
		// Otherwise the server refuses it by itself.
		host.Spec.HostNetwork = true
		set(host, &yes)
		set(plain, &no)
		// The server itself has a word against an init container beside a plain one.
		if err := admitted(host); err == nil || !strings.Contains(err.Error(), "HostProcess") {
			t.Errorf("%s: %v", place, err)
		}
		if err := admitted(plain); err != nil {
			t.Errorf("%s: %v", place, err)
		}
	}
}

func linuxAndTheFoldersOwnPodsAreLeftAlone(t *testing.T, admitted judge) {
	linux := []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} },
		func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"} },
	}
	for _, set := range linux {
		made := pod("/")
		set(made)
		if err := admitted(made); err != nil {
			t.Error(err)
		}
	}
	for _, set := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} },
		func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "windows"} },
		// A node's name alone says nothing of its system.
		func(p *corev1.Pod) { p.Spec.NodeName = "linux" },
	} {
		made := pod(`\\.\pipe\rancher_wins`)
		set(made)
		if err := admitted(made); err == nil || !strings.Contains(err.Error(), "a pod may not mount") {
			t.Errorf("%+v: %v", made.Spec, err)
		}
	}
	ours := 0
	for _, file := range []string{"flannel.yaml", "kube-proxy.yaml"} {
		for _, object := range documents(t, file) {
			set, is := object.(*appsv1.DaemonSet)
			if !is {
				continue
			}
			ours++
			made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace}, Spec: set.Spec.Template.Spec}
			if err := admitted(made); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			// The same in another namespace, or by another account, is not ours.
			for _, change := range []func(){
				func() { made.Namespace = "default" },
				func() { made.Namespace, made.Spec.ServiceAccountName = set.Namespace, "default" },
			} {
				change()
				if err := admitted(made); err == nil || !strings.Contains(err.Error(), "a pod may not mount") {
					t.Errorf("%s: somebody else's: %s %s: %v", file, made.Namespace, made.Spec.ServiceAccountName, err)
				}
			}
		}
	}
	if ours != 2 {
		t.Errorf("%d DaemonSets", ours)
	}
}

func TestThePolicyIsBound(t *testing.T) {
	objects := documents(t, "wins-policy.yaml")
	policy := objects[0].(*admissionv1.ValidatingAdmissionPolicy)
	binding := objects[1].(*admissionv1.ValidatingAdmissionPolicyBinding)
	if binding.Spec.PolicyName != policy.Name || *policy.Spec.FailurePolicy != admissionv1.Fail {
		t.Errorf("%+v", binding.Spec)
	}
	if len(binding.Spec.ValidationActions) != 1 || binding.Spec.ValidationActions[0] != admissionv1.Deny {
		t.Errorf("%v", binding.Spec.ValidationActions)
	}
}
